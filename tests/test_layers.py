"""Imports and cimports go downward only, and never in a circle.

Every ``import`` and ``cimport`` of the package is read from its source, wherever it stands:
tools that follow imports at run time do not see cimports.
"""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import osvm

PACKAGE = Path(osvm.__file__).parent

# From the ground up; a room imports itself and what stands below it.
LAYERS = [
    ["core"],
    ["exceptions"],
    ["_input"],
    ["_parts"],
    ["taxonomy"],
    ["losses", "schedules", "kernels"],
    ["datasets", "stream"],
    ["io"],
    ["_estimator"],
    ["linear"],
    ["kernel"],
    ["solvers"],
    ["recipes", "model_selection", "plot", "distributed"],
    ["dask"],
    ["cli"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd"))
MODULES = {module_name(path) for path in SOURCES}


def imports_of(path):
    """Modules of the package that a source file imports or cimports."""
    text = re.sub(r"\(([^()]*)\)", lambda m: m.group(0).replace("\n", " "), path.read_text())
    text = re.sub(r"^if TYPE_CHECKING:.*?(?=^\S|\Z)", "", text, flags=re.M | re.S)
    found = set()
    for line in text.splitlines():
        match = re.match(
            r"\s*from\s+(osvm[\w.]*)\s+c?import\s+(.*)|\s*c?import\s+(osvm[\w.]*)", line
        )
        if match is None:
            continue
        if match.group(3):
            found.add(match.group(3))
            continue
        for name in re.findall(r"\w+", re.sub(r"\bas\s+\w+", "", match.group(2))):
            inner = f"{match.group(1)}.{name}"
            found.add(inner if inner in MODULES else match.group(1))
    return found - {module_name(path), "osvm"}


def room_of(module):
    """The room of a module; `_c` is the private half of `core`."""
    room = module.split(".")[1]
    return "core" if room == "_c" else room


def test_every_room_has_a_level():
    assert {room_of(name) for name in MODULES - {"osvm"}} == set(LEVEL)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path):
    module = module_name(path)
    if module == "osvm":  # the table of public names imports nothing before it is asked
        assert not imports_of(path)
        return
    own = room_of(module)
    for other in imports_of(path):
        room = room_of(other)
        assert room == own or LEVEL[room] < LEVEL[own], f"{module} imports {other}"


def test_no_module_imports_itself_through_others():
    graph = {}
    for path in SOURCES:
        graph.setdefault(module_name(path), set()).update(imports_of(path))
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_compiled_code_reads_no_attribute_of_an_estimator():
    for path in SOURCES:
        if path.suffix != ".py":
            assert "__dict__" not in path.read_text(), path
