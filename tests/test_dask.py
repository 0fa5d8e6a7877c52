"""Parameter mixing on a small cluster in this process."""

import itertools

import numpy as np
import pytest

import osvm

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        yield client


def text():
    X, y, X_test, y_test = osvm.datasets.make_rcv1_like(
        n_train=4000, n_test=1000, n_features=1000, nnz=20, random_state=0
    )
    return X, y, X_test, y_test


def loaders(X, y, n):
    edges = np.linspace(0, X.shape[0], n + 1).astype(int).tolist()
    return [lambda a=a, b=b: (X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]


def test_one_block_is_a_plain_pass(client):
    X, y, *_ = text()
    alone = osvm.LinearClassifier(reg=1e-3).partial_fit(X, y, classes=[-1, 1])
    mixed = osvm.dask.fit(
        osvm.LinearClassifier(reg=1e-3), loaders(X, y, 1), classes=[-1, 1], rounds=1, client=client
    )
    assert np.allclose(mixed.coef_, alone.coef_, rtol=1e-6, atol=1e-7)
    assert mixed.t_ == alone.t_ == 4000


def test_rounds_learn(client, capsys):
    X, y, X_test, y_test = text()
    model = osvm.LinearClassifier(reg=1e-3)
    osvm.dask.fit(model, loaders(X, y, 4), classes=[-1, 1], rounds=3, client=client, verbose=True)
    one_machine = osvm.LinearClassifier(reg=1e-3, epochs=3, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > one_machine.score(X_test, y_test) - 0.03
    assert model.t_ == 3 * 4000
    assert capsys.readouterr().err.count("round") == 3
    model.partial_fit(X[:10], y[:10])  # it goes on like any other


def test_delayed_blocks(client):
    from dask import delayed

    X, y, *_ = text()
    blocks = [delayed(load)() for load in loaders(X, y, 2)]
    model = osvm.dask.fit(
        osvm.LinearClassifier(reg=1e-3), blocks, classes=[-1, 1], rounds=1, client=client
    )
    assert model.t_ == 4000


def test_an_error_leaves_the_model_as_it_was(client):
    X, y, *_ = text()
    model = osvm.LinearClassifier(reg=1e-3).partial_fit(X, y)
    before = model.coef_

    def broken():
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        osvm.dask.fit(model, [*loaders(X, y, 1), broken], client=client)
    assert np.array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="no average"):
        osvm.dask.fit(
            osvm.LinearClassifier(average=True), loaders(X, y, 2), classes=[-1, 1], client=client
        )
    with pytest.raises(ValueError, match="no blocks"):
        osvm.dask.fit(model, [], client=client)
    with pytest.raises(TypeError, match="linear models"):
        osvm.dask.fit(object(), loaders(X, y, 1), client=client)


class Synchronous:
    """A client that does everything at once, in this thread."""

    def submit(self, function, *arguments, pure=True):
        return function(*arguments)

    def compute(self, block):
        return block.compute(scheduler="synchronous")

    def gather(self, futures):
        return list(futures)


def parts(*labels):
    """Loaders of blocks with these labels."""
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(len(y), 4)), np.array(y)) for y in labels]
    return [lambda block=block: block for block in rows]


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ((["a", "b"] * 5, ["b", "c"] * 5), r"block 1 .*\['b', 'c'\], with block 0 \['a', 'b'\]"),
        (([0, 1] * 5, [0, 1, 2] * 3), r"block 1 .*\[0, 1, 2\]"),
        (([0, 1, 2] * 3, [0, 1, 2] * 3, [1, 2, 3] * 3), r"block 2 .*\[1, 2, 3\]"),
    ],
)
def test_blocks_with_other_labels_are_refused(labels, named):
    model = osvm.LinearClassifier()
    with pytest.raises(ValueError, match=named):
        osvm.dask.fit(model, parts(*labels), client=Synchronous())
    assert not hasattr(model, "t_")
    everything = sorted({label for block in labels for label in block})
    osvm.dask.fit(model, parts(*labels), client=Synchronous(), classes=everything)
    assert model.classes_.tolist() == everything


def test_a_fitted_model_refuses_labels_of_one_block():
    model = osvm.LinearClassifier()
    osvm.dask.fit(model, parts([0, 1] * 5, [0, 1] * 5), client=Synchronous(), rounds=1)
    before = model.coef_
    with pytest.raises(ValueError, match=r"block 1 .*\[0, 1, 7\]"):
        osvm.dask.fit(model, parts([0, 1] * 5, [0, 7] * 5), client=Synchronous())
    assert np.array_equal(model.coef_, before)
    assert model.classes_.tolist() == [0, 1]
    # a block may lack labels that the model knows
    osvm.dask.fit(model, parts([0, 1] * 5, [1] * 10), client=Synchronous(), rounds=1)
    assert model.t_ == 40


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_totals_count_every_example_once(rounds, n_blocks):
    X, y, *_ = text()
    # steps so small that every example's loss stays that of zero weights
    model = osvm.LinearClassifier(
        schedule="constant", eta0=1e-12, fit_intercept=False, class_weight="balanced"
    )
    osvm.dask.fit(
        model, loaders(X, y, n_blocks), classes=[-1, 1], rounds=rounds, client=Synchronous()
    )
    learner = model._learner
    assert model.t_ == learner.seen == rounds * len(y)
    assert np.isclose(learner.loss_sum, rounds * len(y), rtol=1e-6)
    assert learner.error_sum <= rounds * len(y)
    assert model._balance.counts.tolist() == [rounds * (y == -1).sum(), rounds * (y == 1).sum()]
    # and it goes on counting from there
    osvm.dask.fit(model, loaders(X, y, 2), classes=[-1, 1], rounds=2, client=Synchronous())
    assert np.isclose(model._learner.loss_sum, (rounds + 2) * len(y), rtol=1e-6)


def test_the_average_loss_of_a_round_is_that_of_its_rows(capsys):
    X, y, *_ = text()
    model = osvm.LinearClassifier(schedule="constant", eta0=1e-12, fit_intercept=False)
    osvm.dask.fit(
        model, loaders(X, y, 3), classes=[-1, 1], rounds=3, client=Synchronous(), verbose=True
    )
    assert capsys.readouterr().err.count("4000 rows, average loss 1.000000") == 3


@pytest.mark.parametrize("params", [{"record": True}, {"probability": True}], ids=str)
def test_what_cannot_be_averaged_is_refused(params):
    with pytest.raises(ValueError, match="no probability, no record"):
        osvm.dask.fit(
            osvm.LinearClassifier(**params), parts([0, 1] * 5, [0, 1] * 5), client=Synchronous()
        )


def test_regression_has_no_labels():
    X, y, *_ = text()
    model = osvm.LinearRegressor()
    osvm.dask.fit(model, loaders(X, y.astype(float), 3), rounds=2, client=Synchronous())
    assert model.t_ == 8000
