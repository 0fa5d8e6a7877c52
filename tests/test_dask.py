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
