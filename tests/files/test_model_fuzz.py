"""Files that are wrong in their meaning and right in their checksum do no harm."""

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("processes are forked and limited", allow_module_level=True)

from fuzz_models import run_apart
from saved_models import KINDS


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("recipes.")])
def test_changed_files_are_refused_or_work(kind):
    assert run_apart(kind, seed=1, count=20) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_changed_files_are_refused_or_work(kind):
    assert run_apart(kind, seed=2, count=1000) is None
