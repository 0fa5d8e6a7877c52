"""Fixtures that several test files share."""

from pathlib import Path

import pytest

from tests.compile_client import compile_client


@pytest.fixture(scope="session")
def inline_client(tmp_path_factory):
    """A client compiled against the public headers, see inline_client.pyx."""
    source = Path(__file__).resolve().parent / "inline_client.pyx"
    return compile_client(source, tmp_path_factory.mktemp("inline_client"))
