"""Malformed calls of every public method: refused with a reason, and nothing has changed."""

import sys

import pytest
from saved_models import KINDS, fingerprint

if sys.platform != "linux":
    pytest.skip("processes are forked", allow_module_level=True)

from malformed_calls import COVERED, public_methods, run_apart

CHECKED = {}
for _kind in KINDS:  # two of each class, and what takes another path
    _words = ("average", "batch_size", "smd", "solver", "softmax", "eviction")
    _key = (_kind.split("(")[0], *(word in _kind for word in _words))
    CHECKED.setdefault(_key, _kind)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in CHECKED.values() else pytest.mark.slow)
     for kind in KINDS],
)  # fmt: skip
def test_malformed_calls_are_refused(kind):
    assert run_apart(kind, fingerprint) is None


def test_every_public_method_is_called():
    for maker, _ in KINDS.values():
        assert public_methods(maker()) <= COVERED
