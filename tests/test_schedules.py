"""Step sizes: every schedule against its formula, and SMD's adaptation."""

import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from osvm import schedules

ROOT = Path(__file__).resolve().parents[1]

# A new schedule needs one entry here: the object and its formula.
CASES = [
    (schedules.InverseTime(reg=0.25), lambda t: 1 / (0.25 * t)),
    (schedules.Bottou(reg=1e-3, t0=50.0), lambda t: 1 / (1e-3 * (50.0 + t))),
    (schedules.InverseSqrt(eta0=0.5, tau=10.0), lambda t: 0.5 * np.sqrt(10.0 / (10.0 + t))),
    (schedules.Kecman(C=3.0), lambda t: 3.0 * np.sqrt(2 / t)),
    (schedules.Constant(eta0=0.125), lambda t: np.full_like(t, 0.125)),
    (schedules.SMD(eta0=0.3, mu=0.5, decay=0.9, eta_min=1e-4), lambda t: np.full_like(t, 0.3)),
    (schedules.SMD(eta0=0.3, per_coordinate=True), lambda t: np.full_like(t, 0.3)),
    (schedules.Adaptive(eta0=0.3, mirror=True, forget=0.9), lambda t: np.full_like(t, 0.3)),
    (schedules.CoinBetting(alpha=3.0), np.zeros_like),
    (schedules.Auto(half_life=300.0), lambda t: np.full_like(t, 0.5)),
]
TIMES = np.concatenate([np.arange(1.0, 30.0), [1e6, 1e12, 2.0**53]])

every = pytest.mark.parametrize(
    ("schedule", "formula"), [pytest.param(*case, id=repr(case[0])) for case in CASES]
)


@every
def test_value_is_the_formula(schedule, formula):
    np.testing.assert_allclose(schedule(TIMES), formula(TIMES), rtol=1e-15)
    assert schedule(TIMES).dtype == np.float64
    assert isinstance(schedule.value(1), float)
    assert schedule.value([[1, 2], [3, 4]]).shape == (2, 2)
    locked = TIMES.astype(np.float32)
    locked.flags.writeable = False
    np.testing.assert_array_equal(schedule(locked), schedule(locked.astype(np.float64)))


@every
def test_compiled_loop_and_array_form_agree_bit_for_bit(schedule, formula, inline_client):
    gv = np.random.default_rng(0).normal(size=len(TIMES))
    at, used = inline_client.steps(schedule.spec(), TIMES, gv)
    np.testing.assert_array_equal(at, schedule(TIMES))
    if schedule.name != "smd" or schedule.per_coordinate:
        np.testing.assert_array_equal(used, at)
    else:
        eta = 0.3
        for i, product in enumerate(gv):
            eta = max(1e-4, eta * max(0.5, 1.0 - 0.5 * product))
            assert used[i] == eta


@every
def test_equal_hash_repr_pickle_config(schedule, formula):
    twin = pickle.loads(pickle.dumps(schedule))
    assert twin == schedule
    assert hash(twin) == hash(schedule)
    assert eval(repr(schedule), vars(schedules)) == schedule
    assert schedules.from_config(json.loads(json.dumps(schedule.config()))) == schedule
    assert schedules.get(schedule) is schedule
    assert type(schedules.get(schedule.name)) is type(schedule)
    with pytest.raises(AttributeError):
        schedule.eta0 = 2.0


def test_every_registered_schedule_is_tested():
    assert {schedule.name for schedule, _ in CASES} == set(schedules.names())


def test_kinds_are_those_of_the_header():
    text = (ROOT / "osvm" / "core" / "step.pxd").read_text()
    enum = text.split("cdef enum StepKind:")[1].split("cdef enum")[0]
    numbers = {name.lower(): int(n) for name, n in re.findall(r"STEP_(\w+) = (\d+)", enum)}
    assert numbers.pop("smd_coordinate") == schedules.SMD(1.0, per_coordinate=True).spec().kind
    kinds = {schedule.name: schedule.kind for schedule, _ in CASES}
    assert kinds.pop("auto") == kinds["adaptive"]  # what it stands for
    assert numbers == kinds


def test_first_pegasos_step_cancels_the_model_exactly():
    for reg in np.random.default_rng(0).uniform(1e-9, 10, size=1000):
        assert 1.0 - schedules.InverseTime()(1, reg=reg) * reg == pytest.approx(0, abs=1e-15)
    assert schedules.InverseTime()(1, reg=0.5) * 0.5 == 1.0


def test_parameters_come_from_the_estimator_unless_set():
    assert schedules.get("inverse_time").value(2, reg=0.5) == 1.0
    assert schedules.InverseTime(reg=1.0).value(2, reg=0.5) == 0.5
    assert schedules.get("bottou").value(1, reg=0.5, t0=3.0) == 0.5
    assert schedules.get("kecman").value(2, C=4.0) == 4.0
    assert schedules.get("constant").value(2, eta0=4.0, reg=1.0, C=1.0) == 4.0
    assert schedules.get("smd").spec(eta0=0.5).eta == 0.5
    assert schedules.get("inverse_sqrt", eta0=1.0, tau=4) == schedules.InverseSqrt(1.0, 4)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("inverse_time", "reg"),
        ("bottou", "reg"),
        ("kecman", "C"),
        ("constant", "eta0"),
        ("inverse_sqrt", "eta0"),
        ("smd", "eta0"),
    ],
)
def test_missing_parameter_is_named(name, missing):
    with pytest.raises(ValueError, match=f"schedule '{name}' needs {missing}"):
        schedules.get(name).value(1)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("constant", {"eta0": 0.0}, "eta0 must be greater than 0"),
        ("constant", {"eta0": np.nan}, "finite"),
        ("inverse_time", {"reg": -1.0}, "reg must be greater"),
        ("inverse_sqrt", {"tau": 0.0}, "tau must be greater"),
        ("bottou", {"t0": -1.0}, "at least 0"),
        ("smd", {"decay": 1.5}, "at most 1"),
        ("smd", {"mu": -0.1}, "at least 0"),
        ("adaptive", {"forget": 0.1}, "at least 0.5"),
        ("adaptive", {"forget": 1.1}, "at most 1"),
        ("coin_betting", {"alpha": -1.0}, "at least 0"),
        ("smd", {"eta_min": 0.5, "eta_max": 0.1}, "below eta_min"),
        ("constant", {"tau": 1.0}, "has no parameter 'tau'"),
    ],
)
def test_wrong_parameters_are_refused(name, params, message):
    with pytest.raises(ValueError, match=message):
        schedules.get(name, **params)


def test_context_is_checked_too():
    with pytest.raises(ValueError, match="reg must be greater"):
        schedules.get("inverse_time").spec(reg=0.0)
    with pytest.raises(TypeError, match="must be a name"):
        schedules.get(lambda t: 1 / t)
    with pytest.raises(ValueError, match="unknown schedule"):
        schedules.get("sqrt")


# --------------------------------------------------------------------- SMD


def test_smd_never_more_than_halves():
    spec = schedules.SMD(eta0=1.0, mu=0.1, eta_min=0.0).spec()
    assert spec.adapt(1e9) == 0.5
    assert spec.adapt(5.0) == 0.25
    assert spec.adapt(1.0) == 0.25 * (1 - 0.1)
    assert spec.adapt(-1.0) == 0.25 * (1 - 0.1) * 1.1
    assert spec.next(7) == spec.eta


def test_smd_floor_and_cap():
    spec = schedules.SMD(eta0=1.0, mu=1.0, eta_min=0.3).spec(reg=0.5)
    assert spec.eta_max == 2.0
    for _ in range(5):
        spec.adapt(10.0)
    assert spec.eta == 0.3
    for _ in range(5):
        spec.adapt(-10.0)
    assert spec.eta == 2.0
    assert schedules.SMD(eta0=5.0).spec(reg=0.5).eta == 2.0
    assert schedules.SMD(eta0=5.0, eta_max=3.0).spec(reg=0.5).eta == 3.0
    assert schedules.SMD(eta0=5.0).spec().eta_max == math.inf
    assert schedules.SMD(eta0=5.0).spec(reg=0.0).eta == 5.0


def test_smd_without_a_meta_step_is_constant():
    spec = schedules.SMD(eta0=0.7, mu=0.0).spec()
    assert [spec.adapt(gv) for gv in (-1e3, 0.0, 1e3)] == [0.7, 0.7, 0.7]


def test_smd_state_can_be_saved_and_restored():
    first = schedules.SMD(eta0=0.7).spec()
    first.adapt(0.4)
    second = schedules.SMD(eta0=0.7).spec()
    second.eta = first.eta
    assert second.adapt(0.2) == first.adapt(0.2)
