"""Malformed calls of every public method: refused with a reason, and nothing has changed."""

import sys

import pytest
from saved_models import DENSE, KINDS, TEXTS, Y, fingerprint

import osvm
from osvm.stream import HashingTokenizer

if sys.platform != "linux":
    pytest.skip("processes are forked", allow_module_level=True)

from malformed_calls import COVERED, REFUSALS, function_calls, public_methods, run_apart

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


@pytest.mark.filterwarnings("ignore")
def test_malformed_calls_of_functions_are_refused():
    model = osvm.LinearClassifier(random_state=0).fit(DENSE, Y["binary"])
    other = osvm.LinearRegressor().fit(DENSE, Y["number"])
    model.tokenizer_ = HashingTokenizer(4, keep_terms=True).fit(TEXTS)
    before = fingerprint(model), fingerprint(other)
    wrong = []
    for name, call in function_calls(model, other, model.tokenizer_):
        try:
            call()
            wrong.append(f"{name} was accepted")
        except REFUSALS as error:
            if not str(error):
                wrong.append(f"{name} does not say why")
        if (fingerprint(model), fingerprint(other)) != before:
            wrong.append(f"{name} changed a model")
            break
    assert not wrong, "\n".join(wrong)
