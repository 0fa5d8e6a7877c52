"""Fixtures that several test files share."""

import signal
from pathlib import Path

import pytest

from osvm import losses, schedules
from osvm.stream import formats
from tests.compile_client import compile_client


@pytest.fixture(scope="session")
def inline_client(tmp_path_factory):
    """A client compiled against the public headers, see inline_client.pyx."""
    source = Path(__file__).resolve().parent / "inline_client.pyx"
    return compile_client(source, tmp_path_factory.mktemp("inline_client"))


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive():
    """Some tests send Ctrl-C, which a process started in the background ignores."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _registered_names():
    """Parts and formats that a test registers are gone after it."""
    tables = [
        losses._REGISTRY.classes, losses._REGISTRY._plain,
        schedules._REGISTRY.classes, schedules._REGISTRY._plain,
        formats.FORMATS, formats.SUFFIXES,
    ]  # fmt: skip
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before):
        table.clear()
        table.update(old)
