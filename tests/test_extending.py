"""Parts added from outside of the package by the words of doc/extending, used everywhere."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import osvm
from osvm import losses, schedules
from osvm.stream import formats

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
NUMBERS = X @ [1.0, -2.0, 0.5, 0.0]
CLASSES = np.where(NUMBERS > 0, "yes", "no")
THREE = np.digitize(NUMBERS, [-1.0, 1.0])


def steep(task):
    """A squared loss under another name."""

    @losses.register
    @dataclass(frozen=True)
    class Steep(losses.Loss):
        name: ClassVar[str] = "steep"
        curvature_bound: ClassVar[float] = 1.0

        def spec(self):
            return losses.Squared().spec()

    Steep.task = task
    return Steep


def test_a_loss_for_classes(tmp_path):
    steep("binary")
    for y, least in ((THREE, 0.6), (CLASSES, 0.9)):
        model = osvm.LinearClassifier("steep", random_state=0).fit(X, y)
        assert model.score(X, y) > least
        osvm.LinearClassifier("steep").partial_fit(X, y)
    model.save(tmp_path / "model.osvm")
    assert np.array_equal(osvm.load(tmp_path / "model.osvm").predict(X), model.predict(X))
    sets = [[name] for name in CLASSES]
    assert osvm.MultilabelClassifier("steep", random_state=0).fit(X, sets).predict(X).any()
    search = osvm.model_selection.one_pass_search(
        osvm.LinearClassifier("steep", random_state=0), X, CLASSES, {"reg": [1e-2, 1e-3]}
    )
    assert search.error_.min() < 0.3
    with pytest.raises(ValueError, match="is not for LinearRegressor"):
        osvm.LinearRegressor("steep").fit(X, NUMBERS)


def test_a_loss_for_numbers_and_its_bounds():
    steep("regression")
    assert osvm.LinearRegressor("steep", random_state=0).fit(X, NUMBERS).score(X, NUMBERS) > 0.9
    # rows so long that plain steps would overshoot: the declared bound holds them back
    mine = osvm.LinearRegressor("steep").partial_fit(1e4 * X, NUMBERS)
    known = osvm.LinearRegressor("squared").partial_fit(1e4 * X, NUMBERS)
    assert np.array_equal(mine.coef_, known.coef_)
    with pytest.raises(ValueError, match="is not for LinearClassifier"):
        osvm.LinearClassifier("steep").fit(X, CLASSES)


@pytest.mark.parametrize("linear", [True, False])
def test_what_a_loss_declares_is_what_decides(linear):
    """Not its name: the constant to begin with, and steps in the unit of the targets."""
    squared, median = losses.Squared(), losses.EpsilonInsensitive(epsilon=0.0)

    class Declared(losses.Loss):
        task: ClassVar[str] = "regression"

        def spec(self):
            return (squared if self.best_constant == "mean" else median).spec()

    losses.register(type("M", (Declared,), {
        "name": "mine", "best_constant": "mean", "curvature_bound": 1.0}))  # fmt: skip
    losses.register(type("R", (Declared,), {"name": "robust", "slope_bound": 1.0}))
    numbers = 1000.0 * (NUMBERS + NUMBERS**2)
    for mine, known in (("mine", squared), ("robust", median)):
        scores = []
        for loss in (mine, known):
            if linear:
                model = osvm.LinearRegressor(loss, schedule="bottou", random_state=0)
            else:
                model = osvm.KernelRegressor(loss, random_state=0)
            scores.append(model.fit(X, numbers).predict(X))
        assert np.array_equal(*scores)
    with pytest.raises(ValueError, match="loss must be one of"):
        osvm.KernelClassifier("mine").fit(X, CLASSES)


class Absolute:
    def value(self, y, f):
        return abs(f - y)

    def dloss(self, y, f):
        return float(np.sign(f - y))


def test_a_python_loss_fits_every_linear_estimator():
    model = osvm.LinearClassifier(Absolute(), random_state=0).fit(X, CLASSES)
    assert model.score(X, CLASSES) > 0.8
    model = osvm.LinearRegressor(Absolute(), random_state=0).fit(X, NUMBERS)
    assert model.score(X, NUMBERS) > 0.8
    model = osvm.LinearNovelty(Absolute(), random_state=0).fit(1.0 + 0.1 * X)
    assert (model.predict(1.0 + 0.1 * X) == 1).any()


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="already"):
        losses.register(type("Other", (losses.Hinge,), {}))


def test_a_schedule():
    @schedules.register
    @dataclass(frozen=True)
    class Careful(schedules.Schedule):
        name: ClassVar[str] = "careful"

        def spec(self, *, reg=None, C=None, eta0=None, t0=None):
            return schedules.InverseSqrt(eta0=eta0, tau=100.0).spec()

    known = schedules.InverseSqrt(tau=100.0)
    for cls, y in (
        (osvm.LinearClassifier, CLASSES),
        (osvm.LinearClassifier, THREE),
        (osvm.LinearRegressor, NUMBERS),
        (osvm.LinearNovelty, None),
        (osvm.MultilabelClassifier, [[name] for name in CLASSES]),
    ):
        mine = cls(schedule="careful", random_state=0).fit(X, y)
        assert np.array_equal(mine.coef_, cls(schedule=known, random_state=0).fit(X, y).coef_)


def test_a_file_format(tmp_path):
    class PairReader:
        def __init__(self, source, **options):
            self.source = source

        def __iter__(self):
            rows = np.loadtxt(self.source, ndmin=2)
            yield rows[:, 1:], rows[:, 0]

    formats.FORMATS["pairs"] = PairReader
    formats.SUFFIXES[".pairs"] = "pairs"
    path = tmp_path / "rows.pairs"
    np.savetxt(path, np.column_stack([THREE, X]))
    model = osvm.LinearClassifier()
    for rows, y in formats.read(path):
        model.partial_fit(rows, y)
    assert model.t_ == 200
    assert len(model.classes_) == 3
