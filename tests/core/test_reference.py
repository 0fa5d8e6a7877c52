"""The reference page names every public struct, enum and function, with what it promises."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "osvm" / "core"

pytestmark = pytest.mark.skipif(not (ROOT / "doc" / "_ext").is_dir(), reason="no doc/ here")

HEADERS = sorted(path for path in CORE.glob("*.pxd") if path.stem != "__init__")


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(ROOT / "doc" / "_ext"))
    try:
        import core_reference
    finally:
        sys.path.pop(0)
    return core_reference


def declared(text):
    """Names that a header defines or takes over from the compiled module."""
    text = re.sub(r"cdef extern from.*?(?=^\S)", "", text, flags=re.S | re.M)
    text = re.sub(r"#[^\n]*", "", text)
    names = set(re.findall(r"^cdef inline [^(\n]*?(\w+)\(", text, flags=re.M))
    names |= set(re.findall(r"^cdef struct (\w+):", text, flags=re.M))
    names |= set(re.findall(r"^cdef enum (\w+):", text, flags=re.M))
    names |= set(re.findall(r"^ctypedef fused (\w+):", text, flags=re.M))
    names |= set(re.findall(r"^ctypedef .*\(\*(\w+)\)", text, flags=re.M))
    for group in re.findall(r"osvm\._c\.engine cimport ([^(\n]+|\([^)]*\))", text):
        names |= set(re.findall(r"\w+", group))
    return names


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.stem)
def test_every_name_is_in_the_reference(reference, path):
    _, entries = reference.headers()[path.stem]
    listed = {entry.name for entry in entries}
    assert declared(path.read_text()) <= listed
    page = reference.page()
    for entry in entries:
        assert f"**{entry.name}**" in page
        if entry.kind == "function":
            assert entry.text, f"{path.stem}: {entry.name} says nothing"
            assert entry.signature.count("(") == entry.signature.count(")")


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.stem)
def test_every_name_begins_with_its_headers_word(reference, path):
    if path.stem == "typedefs":  # types alone
        assert not re.search(r"^cdef inline", path.read_text(), flags=re.M)
        return
    word = "row" if path.stem == "rows" else path.stem
    _, entries = reference.headers()[path.stem]
    for entry in entries:
        assert entry.name.lower().startswith(word), f"{path.stem}: {entry.name}"
        if entry.kind == "enum":
            for line in entry.signature.splitlines()[1:]:
                assert line.strip().lower().startswith((word, "#")), line


def test_private_headers_do_not_stand_in_core():
    for path in HEADERS:
        for line in path.read_text().splitlines():
            assert not re.match(r"cdef inline .*\b_\w+\(", line), line
