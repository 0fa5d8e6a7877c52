"""Relations between the fields of a saved state: each is looked at, and named when broken."""

import numpy as np
import pytest
from fuzz_models import read_members, write_members
from saved_models import DENSE, SPARSE_SMD, X, Y, learn

import osvm
from osvm._input.schema import ArrayField, Field, Schema
from osvm.io.archive import ModelFileError

CONSTANT = {"schedule": "constant", "random_state": 0}
RING = {"budget": 10, "eviction": "fifo", "random_state": 0}
KNOWN = {**RING, "schedule": "smd"}


def scale_outside(scalars, arrays):
    scalars["w_scale"] = scalars["w_high"] * 2.0


def average_without_accumulator(scalars, arrays):
    scalars["w_avg_count"] = 5.0


def norm_untracked(scalars, arrays):
    scalars["w_track_norm"] = 0


def stamp_after_t(scalars, arrays):
    arrays["stamp"][3] = scalars["t"] + 1


def negative_squares(scalars, arrays):
    arrays["cells"][2, 1] = -1.0


def scale_of_a_group(scalars, arrays):
    arrays["groups"][0, 0] = 0.0


def huge_average(scalars, arrays):
    arrays["offsets"][2, 0] = 1e30 * 1e150 * 1.0
    arrays["offsets"][0, 0] = 1e151


def head_of_a_part(scalars, arrays):
    scalars["head"] = 2


def two_births(scalars, arrays):
    arrays["birth"][1] = arrays["birth"][0]


def late_birth(scalars, arrays):
    arrays["birth"][0] = scalars["births"]


def overlapping(scalars, arrays):
    """Two rows in one place, each as long as it says: nothing else is wrong."""
    longer = int(np.argmax(arrays["length"]))
    other = (longer + 1) % len(arrays["length"])
    for name in ("start", "length", "sq", "row_sq", "k_self"):
        arrays[name][other] = arrays[name][longer]


def past_the_end(scalars, arrays):
    last = int(np.argmax(arrays["start"] + arrays["length"]))
    arrays["start"][last] += 1


def overflowing(scalars, arrays):
    arrays["start"][0] = 2**47
    arrays["length"][0] = 2**47


def slot_twice(scalars, arrays):
    arrays["victim_slot"][0] = arrays["victim_slot"].max()


LINEAR, KERNEL, LABELS = osvm.LinearClassifier, osvm.KernelClassifier, Y["binary"]
SCALE = "a scale is outside"
BIRTHS = "births are not distinct"
CASES = [
    (LINEAR, CONSTANT, X, scale_outside, SCALE),
    (LINEAR, CONSTANT, X, average_without_accumulator, "an average without its accumulator"),
    (LINEAR, {**CONSTANT, "project": True}, X, norm_untracked, "projection without a norm"),
    (LINEAR, {"schedule": "smd"}, X, scale_outside, SCALE),
    (LINEAR, {"schedule": SPARSE_SMD}, X, stamp_after_t, "time stamps are after t"),
    (LINEAR, {"schedule": "adaptive"}, X, negative_squares, "out of range"),
    (LINEAR, {"schedule": "adaptive"}, X, scale_of_a_group, "out of range"),
    (LINEAR, {"schedule": "adaptive", "average": True}, X, huge_average, "out of range"),
    (LINEAR, {"schedule": "coin_betting"}, X, scale_of_a_group, "out of range"),
    (LINEAR, {}, X, scale_of_a_group, "out of range"),
    (KERNEL, {"budget": 100, "average": True}, X, head_of_a_part, "has no head"),
    (KERNEL, RING, DENSE, two_births, BIRTHS),
    (KERNEL, RING, X, late_birth, BIRTHS),
    (KERNEL, RING, X, overlapping, "rows overlap"),
    (KERNEL, RING, X, past_the_end, "rows overlap"),
    (KERNEL, RING, X, overflowing, "rows overlap"),
    (KERNEL, KNOWN, X, slot_twice, "a slot is known twice"),
]


@pytest.mark.parametrize(
    ("cls", "params", "data", "change", "problem"),
    CASES,
    ids=[f"{case[3].__name__}-{'-'.join(map(str, case[1].values()))[:20]}" for case in CASES],
)
def test_a_broken_relation_is_named(tmp_path, cls, params, data, change, problem):
    path = tmp_path / "model.osvm"
    learn(cls(**params), "binary", data=data).save(path)
    header, arrays = read_members(path.read_bytes())
    path.write_bytes(write_members(header, arrays))
    assert osvm.load(path).t_ > 0  # as it was, it loads
    inner = {name.removeprefix("model/"): array.copy() for name, array in arrays.items()}
    change(header["state"]["learner" if cls is LINEAR else "machine"], inner)
    path.write_bytes(write_members(header, {f"model/{k}": a for k, a in inner.items()}))
    with pytest.raises(ModelFileError, match=problem):
        osvm.load(path)


@pytest.mark.parametrize(
    ("cls", "target", "at", "value"),
    [
        (osvm.KernelNovelty, "novel", 4, -1.0),  # scores of a negative size
        (osvm.KernelNovelty, "novel", 6, 0.0),  # rows without a weight
        (osvm.KernelRegressor, "number", 0, -1.0),  # their weight
        (KERNEL, "binary", 3, -1.0),
        (KERNEL, "binary", 9, 0.5),  # the side of the rarer class
        (KERNEL, "binary", 10, 1e9),  # more positives than rows
        (KERNEL, "binary", 11, -7.0),  # a share of errors
    ],
)
def test_what_a_kernel_stream_follows_is_what_rows_leave(cls, target, at, value, tmp_path):
    """A novelty model loaded with such numbers learned until its scores were NaN."""
    path = tmp_path / "model.osvm"
    model = learn(cls(), target, "partial_fit")
    model.save(path)
    header, arrays = read_members(path.read_bytes())
    osvm.load(path)  # as it was, it loads
    arrays["model/running"][at] = value
    path.write_bytes(write_members(header, arrays))
    with pytest.raises(ModelFileError, match="no rows have these sums"):
        osvm.load(path)


def test_a_kernel_machine_of_another_kind_is_refused():
    machine = learn(KERNEL(**RING), "binary")._machine
    scalars, arrays = machine.state.get_state()
    machine.state.set_state(scalars, arrays)
    with pytest.raises(ValueError, match="another kind of kernel machine"):
        machine.state.set_state({**scalars, "trace": True}, arrays)


def test_fields_that_are_not_declared_or_lacking():
    schema = Schema(
        "ring", {"head": Field("int", 0, 2)}, {"w": ArrayField((3,), np.float64, -1.0, 1.0)}
    )
    schema.check({"head": 2}, {"w": np.zeros(3)})
    for scalars, arrays, problem in [
        ({"head": 1, "tail": 2}, {"w": np.zeros(3)}, "unknown field 'tail'"),
        ({"head": 1}, {"w": np.zeros(3), "v": np.zeros(3)}, "unknown field 'v'"),
        ({}, {"w": np.zeros(3)}, "lacks 'head'"),
        ({"head": 1}, {}, "lacks 'w'"),
        ({"head": 3}, {"w": np.zeros(3)}, "saved head"),
        ({"head": True}, {"w": np.zeros(3)}, "saved head"),
        ({"head": 1}, {"w": np.zeros(4)}, "another shape"),
        ({"head": 1}, {"w": np.zeros(3, np.float32)}, "must have dtype"),
        ({"head": 1}, {"w": np.array([0.0, np.nan, 1.0])}, "not finite"),
        ({"head": 1}, {"w": np.array([0.0, 1.5, 1.0])}, "outside of"),
        ({"head": 1}, {"w": np.array([0.0, -1.5, 1.0])}, "outside of"),
    ]:
        with pytest.raises(ValueError, match=problem):
            schema.check(scalars, arrays)


@pytest.mark.parametrize("number", [10**400, -(10**400), np.inf, -np.inf, np.nan, 2**1024])
def test_numbers_beyond_float64_are_refused(number):
    assert Field("float").problem(10**300) is None
    for kind in ("float", "count", "int"):
        assert Field(kind).problem(number) is not None


def test_row_ends_of_support_vectors_that_fall(tmp_path):
    path = tmp_path / "model.osvm"
    learn(osvm.SVC(kernel="linear"), "binary", data=X).save(path)
    header, arrays = read_members(path.read_bytes())
    ends = np.zeros_like(arrays["model/vectors_indptr"])
    ends[len(ends) // 2] = 60
    path.write_bytes(write_members(header, {**arrays, "model/vectors_indptr": ends}))
    with pytest.raises(ModelFileError, match="indptr"):
        osvm.load(path)
