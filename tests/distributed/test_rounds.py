"""Rounds of learning and merging: the same model on any engine, and what stops them."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from fake_engine import Unreliable

import osvm
from osvm._input.parameters import make_generator
from osvm.distributed import InProcess, fit
from osvm.distributed.blocks import Shared, fold_parts, learn
from osvm.distributed.rounds import plain

rng = np.random.default_rng(2)
N, D = 700, 8
X = sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7))
SCORE = X @ rng.normal(size=D)
Y = {
    "binary": np.where(SCORE > 0, "yes", "no"),
    "multi": np.array(["a", "b", "c"])[np.digitize(SCORE, [-1, 1])],
    "number": SCORE,
    "sets": [tuple(k for k, s in zip("pq", (v, -v - 1)) if s > 0) for v in SCORE],
    None: None,
}
KINDS = [
    ("LinearClassifier", "binary", {}),
    ("LinearClassifier", "binary", {"average": True, "batch_size": 7}),
    ("LinearClassifier", "multi", {"average": True, "probability": True}),
    ("LinearClassifier", "multi", {"C": 1.0, "class_weight": "balanced"}),
    ("LinearRegressor", "number", {"loss": "huber"}),
    ("LinearNovelty", None, {}),
    ("MultilabelClassifier", "sets", {}),
    ("KernelClassifier", "multi", {"gamma": 0.3, "budget": 40}),
    ("KernelRegressor", "number", {"gamma": 0.3, "budget": 40}),
]


def blocks_of(target, n=6, weights=False):
    y, out = Y[target], []
    for a, b in itertools.pairwise(np.linspace(0, N, n + 1).astype(int).tolist()):
        block = (X[a:b],) if y is None else (X[a:b], y[a:b])
        if weights:
            block = (*block, np.linspace(1, 2, b - a))
        out.append(block)
    return out


def make(cls, params):
    return getattr(osvm, cls)(random_state=4, **params)


@pytest.mark.parametrize(("cls", "target", "params"), KINDS)
def test_the_same_bits_on_any_engine(cls, target, params):
    blocks = blocks_of(target)
    alone = fit(make(cls, params), blocks, rounds=3)
    assert alone.t_ == 3 * N
    for seed in range(3):
        engine = Unreliable(seed)
        model = fit(make(cls, params), blocks, rounds=3, engine=engine)
        assert model.to_bytes() == alone.to_bytes()
        assert engine.losses > 0
    assert alone.get_params()["random_state"] == 4


def test_a_round_is_the_merge_of_single_passes():
    """Written out: every block learns from the model before, all are merged in a tree."""
    blocks = blocks_of("binary", 3)
    params = {"shuffle": False, "average": True}
    model = fit(make("LinearClassifier", params), blocks, rounds=2)
    current = None
    for _ in range(2):
        parts = []
        for X_block, y_block in blocks:
            part = make("LinearClassifier", params)
            if current is not None:
                part = osvm.from_bytes(current.to_bytes())
            parts.append(part.partial_fit(X_block, y_block, classes=["no", "yes"]))
        current = osvm.merge(parts, current)
    assert model.to_bytes() == current.to_bytes()


def test_rows_come_in_another_order_each_round():
    block = blocks_of("binary", 1)[0]
    model = osvm.LinearClassifier(shuffle="full")
    made = [
        learn(0, block, Shared(model, None, ["no", "yes"], 1, number)).model
        for number in (0, 0, 1)
    ]
    assert made[0] == made[1] != made[2]


def test_weights_of_rows():
    plain = fit(make("LinearClassifier", {}), blocks_of("binary"), rounds=1)
    heavy = fit(make("LinearClassifier", {}), blocks_of("binary", weights=True), rounds=1)
    assert not np.allclose(plain.coef_, heavy.coef_)


def test_blocks_may_be_functions_and_readers():
    blocks = blocks_of("binary", 3)
    expected = fit(make("LinearClassifier", {"shuffle": False}), blocks, rounds=2).to_bytes()
    functions = [lambda block=block: block for block in blocks]
    readers = [
        lambda block=block: ((block[0][a : a + 50], block[1][a : a + 50])
                             for a in range(0, block[0].shape[0], 50))
        for block in blocks
    ]  # fmt: skip
    for kind in (functions, readers):
        model = fit(make("LinearClassifier", {"shuffle": False}), kind, rounds=2)
        assert model.to_bytes() == expected


def test_C_is_that_of_all_rows():
    model = fit(osvm.LinearClassifier(C=2.0), blocks_of("binary"), rounds=1)
    assert model.C == 2.0
    assert model.reg is None
    assert model._plan.reg == 1 / (2.0 * N)
    model.partial_fit(X[:10], Y["binary"][:10])
    assert osvm.from_bytes(model.to_bytes()).C == 2.0


def test_fitted_models_go_on_and_may_get_new_labels():
    model = osvm.LinearClassifier(random_state=0).partial_fit(X[:20], ["yes", "no"] * 10)
    fit(model, blocks_of("binary"), rounds=1)
    assert model.t_ == 20 + N
    assert model.classes_.tolist() == ["no", "yes"]
    fit(model, blocks_of("multi"), rounds=1)
    assert model.classes_.tolist() == ["no", "yes", "a", "b", "c"]


# ---------------------------------------------------- checkpoints and stopping


class Dying(InProcess):
    """Dies in the middle of a round."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def finished(self, tokens):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        yield from super().finished(tokens)


@pytest.mark.parametrize("after", [3, 12, 20, 30, 37])
@pytest.mark.parametrize("validation", [None, (X, Y["binary"])], ids=["plain", "held out"])
def test_a_killed_client_resumes_to_the_same_bits(after, validation, tmp_path):
    options = {"rounds": 4, "validation": validation}
    blocks, params = blocks_of("binary"), {"average": True}
    whole = fit(make("LinearClassifier", params), blocks, **options)
    path = tmp_path / "run.osvm"
    model = osvm.LinearClassifier(random_state=4, **params)
    try:
        fit(model, blocks, engine=Dying(after), checkpoint=path, **options)
        died = False
    except KeyboardInterrupt:
        died = True
        assert not hasattr(model, "t_")
    assert died
    model = make("LinearClassifier", params)
    fit(model, blocks, checkpoint=path, resume=True, **options)
    assert model.to_bytes() == whole.to_bytes()
    assert len(model.rounds_) == len(whole.rounds_)
    # nothing is left to do
    again = make("LinearClassifier", params)
    fit(again, blocks, engine=Dying(0), checkpoint=path, resume=True, **options)
    assert again.to_bytes() == whole.to_bytes()


def test_a_seed_that_was_drawn_is_kept(tmp_path):
    path, blocks = tmp_path / "run.osvm", blocks_of("binary")
    fit(osvm.LinearClassifier(), blocks, rounds=1, checkpoint=path)
    copied = path.read_bytes()
    one = fit(osvm.LinearClassifier(), blocks, rounds=3, checkpoint=path, resume=True)
    path.write_bytes(copied)
    two = fit(osvm.LinearClassifier(), blocks, rounds=3, checkpoint=path, resume=True)
    assert one.to_bytes() == two.to_bytes()


def test_an_error_in_a_late_round_keeps_the_rounds_before(tmp_path):
    path, calls = tmp_path / "run.osvm", itertools.count()
    blocks = blocks_of("binary", 2)

    def broken():
        if next(calls) == 3:
            raise OSError("the disk is gone")
        return blocks[1]

    model = make("LinearClassifier", {})
    with pytest.raises(OSError, match="disk") as caught:
        fit(model, [blocks[0], broken], rounds=5, checkpoint=path, classes=["no", "yes"])
    assert caught.value.__notes__ == ["in block 1"]
    assert not hasattr(model, "t_")
    assert osvm.load(path).t_ == 3 * N
    fit(model, [blocks[0], broken], rounds=5, checkpoint=path, resume=True, classes=["no", "yes"])
    whole = fit(make("LinearClassifier", {}), blocks, rounds=5)
    assert model.to_bytes() == whole.to_bytes()


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    path, blocks = tmp_path / "run.osvm", blocks_of("binary")
    fit(osvm.LinearClassifier(), blocks, rounds=1, checkpoint=path)
    again = {"checkpoint": path, "resume": True}
    with pytest.raises(ValueError, match="6 blocks, not 5"):
        fit(osvm.LinearClassifier(), blocks[:5], **again)
    with pytest.raises(ValueError, match="average=False, not True"):
        fit(osvm.LinearClassifier(average=True), blocks, **again)
    with pytest.raises(ValueError, match="not a checkpoint"):
        fit(osvm.LinearRegressor(), blocks_of("number"), **again)
    osvm.LinearClassifier().fit(X, Y["binary"]).save(path)
    with pytest.raises(ValueError, match="not a checkpoint"):
        fit(osvm.LinearClassifier(), blocks, **again)


def test_held_out_rows_stop_and_choose():
    noise = np.random.default_rng(0).permutation(Y["binary"])
    blocks = [(X, noise), (X, noise)]
    model = fit(
        make("LinearClassifier", {}), blocks, rounds=50, validation=(X, Y["binary"]), patience=3
    )
    scores = [figures["score"] for figures in model.rounds_]
    assert len(scores) == int(np.argmax(scores)) + 4 < 50
    assert model.score(X, Y["binary"]) == max(scores)


# -------------------------------------------------------------------- checks


def test_empty_blocks_are_skipped_and_counted(capsys):
    blocks = blocks_of("binary", 3)
    empty = (X[:0], Y["binary"][:0])
    model = fit(make("LinearClassifier", {}), [empty, *blocks, empty], rounds=2, verbose=True)
    assert model.t_ == 2 * N
    assert [figures["empty"] for figures in model.rounds_] == [2, 2]
    assert "2 empty blocks" in capsys.readouterr().err
    for classes in (None, ["no", "yes"]):
        with pytest.raises(ValueError, match="all 2 blocks are empty"):
            fit(osvm.LinearClassifier(), [empty, empty], classes=classes)


@pytest.mark.parametrize("engine", [InProcess, lambda: Unreliable(0)], ids=["plain", "unreliable"])
def test_bad_blocks_are_named(engine):
    blocks = blocks_of("binary")
    wide = (sp.csr_matrix((5, D + 1)), ["no"] * 5)
    model = osvm.LinearClassifier()
    for classes in (None, ["no", "yes"]):
        with pytest.raises(ValueError, match=r"9 columns|9 features"):
            fit(model, [*blocks[:2], wide, *blocks[2:]], classes=classes, engine=engine())
    nan = (sp.csr_matrix(np.full((4, D), np.nan)), ["no"] * 4)
    with pytest.raises(ValueError, match=r"block 6: .*NaN"):
        fit(model, [*blocks, nan], engine=engine())
    short = (X[:5], ["no"] * 4)
    with pytest.raises(ValueError, match="block 1: "):
        fit(model, [blocks[0], short], engine=engine())
    with pytest.raises(ValueError, match=r"block \d: .*'no'.*not among the classes"):
        fit(model, blocks, classes=["yes", "maybe"], engine=engine())
    with pytest.raises(ValueError, match="block 1: LinearClassifier needs labels"):
        fit(model, [blocks[0], (X,)], engine=engine())
    with pytest.raises(ValueError, match="labels of several types"):
        fit(model, [blocks[0], (X, (SCORE > 0).astype(int))], engine=engine())
    with pytest.raises(ValueError, match="one class only"):
        fit(model, [(X, ["no"] * N)] * 2, engine=engine())
    assert not hasattr(model, "t_")


def test_parameters_are_checked_before_any_work(tmp_path):
    never = [lambda: pytest.fail("a block was loaded")]
    for model, options, named in [
        (osvm.LinearClassifier(record=True), {}, "no record"),
        (osvm.LinearClassifier(schedule="smd"), {}, "no smd"),
        (osvm.LinearClassifier(reg=-1.0), {}, "reg"),
        (osvm.LinearClassifier(batch_size="full"), {}, "all rows at once"),
        (osvm.LinearClassifier(), {"rounds": 0}, "at least 1"),
        (osvm.LinearClassifier(), {"patience": 0}, "patience"),
        (osvm.LinearClassifier(), {"resume": True}, "needs checkpoint"),
        (osvm.LinearClassifier(), {"validation": X}, "pair"),
        (osvm.LinearRegressor(), {"classes": [0, 1]}, "has no classes"),
    ]:
        with pytest.raises(ValueError, match=named):
            fit(model, never, **options)
    with pytest.raises(FileNotFoundError):
        fit(osvm.LinearClassifier(), never, checkpoint=tmp_path / "none" / "run.osvm")
    with pytest.raises(ValueError, match="no blocks"):
        fit(osvm.LinearClassifier(), [])
    with pytest.raises(TypeError, match="linear and kernel models"):
        fit(object(), never)
    with pytest.raises(TypeError, match="round_"):
        fit(osvm.LinearClassifier(), never, round_=3)
    with pytest.raises(TypeError, match="of streams, not SVC"):
        fit(osvm.SVC(solver="ol_svm"), never)


@pytest.mark.parametrize("classes", [None, ["a", "b", "c"]])
def test_pure_blocks_warn(classes):
    y = Y["multi"]
    sorted_blocks = [(X[y == label], y[y == label]) for label in "abc"]
    with pytest.warns(UserWarning, match="nearly pure: they tell 100%"):
        fit(osvm.LinearClassifier(), sorted_blocks, rounds=2, classes=classes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(osvm.LinearClassifier(), blocks_of("multi", 20), rounds=1, classes=classes)
        fit(osvm.LinearClassifier(), [(X, y)], rounds=1, classes=classes)


def test_the_default_decides_in_the_first_round():
    """Settings compete in all blocks; one goes on, and answers by the mean of the last round."""
    blocks = blocks_of("binary")
    first, third = (fit(make("LinearClassifier", {}), blocks, rounds=n) for n in (1, 3))
    for model in (first, third):
        assert model._plan.schedule.name == "auto"
        assert model._learner.alive.bit_count() == 1
    assert third._learner.alive == first._learner.alive
    assert third._learner.averaged_count == N
    assert third.to_bytes() == fit(make("LinearClassifier", {}), blocks, rounds=3).to_bytes()
    serial = make("LinearClassifier", {}).fit(X, Y["binary"])
    assert third.score(X, Y["binary"]) >= serial.score(X, Y["binary"]) - 0.02
    assert third.partial_fit(X, Y["binary"]).t_ == 4 * N


def test_bottou_for_auto_answers_with_the_mean_of_the_last_round():
    blocks = blocks_of("binary")
    model = fit(make("LinearClassifier", {"reg": 1e-4}), blocks, rounds=3)
    last = make("LinearClassifier", {"schedule": "bottou", "reg": 1e-4})
    average = make("LinearClassifier", {"schedule": "bottou", "reg": 1e-4, "average": True})
    before = fit(average, blocks, rounds=2)
    before._learner.weights.start_average()
    before._learner.intercept_sum[:] = 0.0
    # a third round of the same run: its order of rows is that of its number
    engine, parts = InProcess(), []
    seed = int(make_generator(4).integers(2**53))
    shared = Shared(plain(average), before.to_bytes(), ["no", "yes"], seed, 2)
    parts = [learn(k, block, shared) for k, block in enumerate(blocks)]
    merged = engine.reduce(lambda k, part, _: part, parts, fold_parts, shared)
    expected = osvm.from_bytes(merged.model)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.average is False
    assert not np.array_equal(model.coef_, fit(last, blocks, rounds=3).coef_)
    assert model.partial_fit(X, Y["binary"]).t_ == 4 * N
