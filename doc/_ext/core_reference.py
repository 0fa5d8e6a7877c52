"""The reference of `osvm/core`, made from its headers: ``.. core-reference::``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

CORE = Path(__file__).resolve().parents[2] / "osvm" / "core"
ENGINE = CORE.parent / "_c" / "engine.pxd"
TEXT = ".. code-block:: text"


class Entry(NamedTuple):
    """A public name: its declaration and what is said about it."""

    kind: str  # function, struct, enum or type
    name: str
    signature: str
    text: str


def _comment(lines: list[str]) -> str:
    return "\n".join(line.lstrip("#").removeprefix(" ") for line in lines).strip()


def _above(lines: list[str], at: int) -> str:
    """The comment right above a line."""
    first = at
    while first > 0 and lines[first - 1].startswith("#") and "----" not in lines[first - 1]:
        first -= 1
    return _comment(lines[first:at])


def _functions(text: str, names: set[str] | None = None) -> list[Entry]:
    lines = text.splitlines()
    found = []
    pattern = re.compile(r"cdef (?:inline )?([\w ]+?[ *]+)(\w+)\(")
    for at, line in enumerate(lines):
        match = pattern.match(line)
        if match is None or (names is not None and match.group(2) not in names):
            continue
        last = at
        while ")" not in lines[last]:
            last += 1
        signature = " ".join(part.strip() for part in lines[at : last + 1])
        signature = re.sub(r"^cdef (inline )?", "", signature).rstrip(":")
        said = re.match(r'\s*"""(.*?)"""', "\n".join(lines[last + 1 :]), re.DOTALL)
        doc = re.sub(r"\n +", "\n", said.group(1)) if said else _above(lines, at)
        found.append(Entry("function", match.group(2), signature, doc.strip()))
    return found


def _types(text: str) -> list[Entry]:
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        match = re.match(r"(cdef (struct|enum) ?(\w*)|ctypedef fused (\w+)):$", line)
        if match is None:
            alias = re.match(r"ctypedef [^(]*?\(\*(\w+)\)|ctypedef \w+ (\w+)$", line)
            if alias:
                name = alias.group(1) or alias.group(2)
                found.append(Entry("type", name, line, _above(lines, at)))
            continue
        last = at + 1
        while last < len(lines) and (lines[last].startswith("    ") or not lines[last].strip()):
            last += 1
        kind = match.group(2) or "type"
        body = [part for part in lines[at:last] if part.strip()]
        name = match.group(3) or match.group(4) or body[1].split()[0]
        found.append(Entry(kind, name, "\n".join(body), _above(lines, at)))
    return found


def headers() -> dict[str, tuple[str, list[Entry]]]:
    """Purpose and entries of each header, by its name."""
    engine = ENGINE.read_text()
    found = {}
    for path in sorted(CORE.glob("*.pxd")):
        if path.stem == "__init__":
            continue
        text = path.read_text()
        lines = text.splitlines()
        opening = next(i for i, line in enumerate(lines) if not line.startswith("#"))
        names = set()
        for names_of in re.findall(
            r"from osvm\._c\.engine cimport ([^(\n]+|\([^)]*\))", re.sub("#[^\n]*", "", text)
        ):
            names |= set(re.findall(r"\w+", names_of))
        entries = _types(text) + _functions(text) + _functions(engine, names or {""})
        found[path.stem] = (_comment(lines[:opening]), entries)
    return found


def page() -> str:
    """The reference as reStructuredText."""
    out = []
    for word, (purpose, entries) in headers().items():
        title = f"osvm.core.{word}"
        out += [title, "-" * len(title), "", TEXT, ""]
        out += [f"    {line}".rstrip() for line in purpose.splitlines()] + [""]
        for entry in entries:
            out += [f"**{entry.name}**", "", ".. code-block:: cython", ""]
            out += [f"    {line}".rstrip() for line in entry.signature.splitlines()] + [""]
            if entry.text:
                out += [TEXT, ""]
                out += [f"    {line}".rstrip() for line in entry.text.splitlines()] + [""]
    return "\n".join(out)


def setup(app):
    """Register the directive."""
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.statemachine import StringList

    class CoreReference(Directive):
        def run(self):
            holder = nodes.Element()
            self.state.nested_parse(StringList(page().splitlines(), "core"), 0, holder, 1)
            for path in [*CORE.glob("*.pxd"), ENGINE]:
                self.state.document.settings.env.note_dependency(str(path))
            return holder.children

    app.add_directive("core-reference", CoreReference)
    return {"parallel_read_safe": True}
