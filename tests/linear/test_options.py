"""One table of options: refusals come from it, and the documentation shows it."""

from pathlib import Path

import numpy as np
import pytest

import osvm
from osvm.linear import options

DOC = Path(__file__).resolve().parents[2] / "doc" / "guide" / "linear.rst"
ASKED = {
    "average": {"average": True},
    "project": {"project": True},
    "lazy": {"schedule": osvm.schedules.Constant(0.1, lazy=True), "project": 1.0},
    "batch_size": {"batch_size": 4},
    "smd": {"schedule": "smd"},
    "adaptive": {"schedule": "adaptive"},
    "probability": {"probability": True},
    "record": {"record": True},
    "scale": {"scale": "std"},
    "scale='running'": {"scale": "running", "schedule": "adaptive"},
    "tol": {"tol": 1e-3},
}
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def fit(way, params):
    if way == "search":
        model = osvm.LinearClassifier(**params, random_state=0)
        return osvm.model_selection.one_pass_search(model, X, Y, {"reg": [1e-2]})
    own = {"reg": 1e-2, "random_state": 0, "schedule": way}
    return osvm.LinearClassifier(**{**own, **params}).fit(X, Y)


@pytest.mark.parametrize("way", ["smd", "adaptive", "search"])
@pytest.mark.parametrize("option", [option.name for option in options.OPTIONS])
def test_an_option_works_or_is_refused(way, option):
    if way in ("smd", "adaptive") and option in ("smd", "adaptive", "lazy"):
        pytest.skip("the way is a schedule itself")
    if option in options.refused(way):
        params = dict(ASKED[option])
        if option == "scale='running'" and way == "smd":
            params["schedule"] = way
        with pytest.raises(ValueError, match=f"no {option}|schedule"):
            fit(way, params)
    else:
        fit(way, ASKED[option])


def test_asked():
    assert options.asked(osvm.LinearClassifier()) == []
    for name, params in ASKED.items():
        assert name in options.asked(osvm.LinearClassifier(**params))
    assert list(ASKED) == [option.name for option in options.OPTIONS]


def test_the_documentation_shows_the_table():
    assert options.table() in DOC.read_text()
