"""doc/api names every public object once, and each has an example that runs (doctest)."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import osvm

API = Path(__file__).resolve().parents[1] / "doc" / "api"
ENTRY = re.compile(
    r"^(?:\.\. (?:currentmodule:: (?P<module>\S+)|automodule:: (?P<page>\S+)"
    r"|auto(?:function|class|exception|data|attribute):: (?P<name>[\w.]+))"
    r"| {3}(?P<listed>[\w.]+))$",
    re.MULTILINE,
)

pytestmark = pytest.mark.skipif(not API.exists(), reason="not a source tree")


def public_modules():
    """Name -> module of everything that `osvm` names as one."""
    names = {"osvm": "osvm", **{name: f"osvm.{name}" for name in osvm._MODULES}}
    names.update({name: f"osvm.distributed.{name}" for name in osvm._ENGINES})
    found = {}
    for name in names.values():
        try:
            found[name] = importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} needs {error.name}")
    return found


def public_objects():
    """(module, name) -> object, modules apart."""
    return {
        (where, name): getattr(module, name)
        for where, module in public_modules().items()
        for name in module.__all__
        if not name.startswith("__") and not inspect.ismodule(getattr(module, name))
    }


def resolve(module, name):
    *path, last = f"{module}.{name}".split(".")
    return getattr(importlib.import_module(".".join(path)), last)


def listed():
    """What the pages list: (page, module, name)."""
    found, pages = [], set()
    for path in sorted(API.glob("*.rst")):
        module = "osvm"
        for match in ENTRY.finditer(path.read_text(encoding="utf-8")):
            if match["module"] or match["page"]:
                module = match["module"] or match["page"]
                pages |= {match["page"]}
            elif path.name != "index.rst":
                found.append((path.name, module, match["name"] or match["listed"]))
    return found, pages - {None}


def test_every_public_name_stands_once():
    found, pages = listed()
    objects = [resolve(module, name) for _, module, name in found]
    twice = [found[k] for k, one in enumerate(objects) if any(one is o for o in objects[:k])]
    assert twice == []
    missing = [
        where
        for where, value in public_objects().items()
        if not any(value is other for other in objects)
    ]
    assert missing == []
    public = list(public_objects().values())
    private = [
        entry
        for entry, value in zip(found, objects)
        if not any(value is other for other in public) and entry[2] != "core.abi.abi_version"
    ]
    assert private == []
    assert set(public_modules()) - {"osvm", "osvm.exceptions"} <= pages


def examples_of(where):
    """Lines of the examples on the page of a module."""
    page = API / f"{where.split('.')[-1] if where != 'osvm' else 'package'}.rst"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*", text, re.MULTILINE))


def test_every_public_class_and_function_has_an_example():
    """In its docstring or on its page; those of adapters need their engines."""
    bare = sorted(
        f"{where}.{name}"
        for (where, name), value in public_objects().items()
        if callable(value)
        and not (inspect.isclass(value) and issubclass(value, BaseException))
        and not re.search(r"\b(dask|ray|spark)$", where)
        and ">>>" not in (value.__doc__ or "")
        and not re.search(rf"\b{name}\b", examples_of("osvm.io" if name == "load" else where))
        and f"`{name}`" not in _prose(where)
    )
    assert bare == []


def _prose(where):
    """Names that a page says are shown elsewhere."""
    page = API / f"{where.split('.')[-1]}.rst"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return " ".join(re.findall(r"^.*:doc:`/extending/index`.*(?:\n.+)*", text, re.MULTILINE))


def test_at_most_24_parameters():
    counts = {
        name: len(inspect.signature(value).parameters)
        for name, value in ((name, getattr(osvm, name)) for name in osvm._OBJECTS)
        if inspect.isclass(value) and hasattr(value, "get_params")
    }
    assert len(counts) == 12
    assert max(counts.values()) <= 24, counts
    changes = (API.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    line = re.search(r"^- Parameters of the estimators.*", changes, re.MULTILINE).group()
    table = re.findall(r"`(\w+)` (?:\d+ and )?(\d+)", line)
    assert {name: int(count) for name, count in table} == counts
