"""Fixtures that several test files share."""

import signal
from pathlib import Path

import pytest

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
