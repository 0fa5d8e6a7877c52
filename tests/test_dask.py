"""Rounds on dask: collections, a cluster that loses workers, and what once went wrong."""

import itertools
import os
import signal
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

pytest.importorskip("distributed.client")  # tests/distributed is importable by the short name
import dask
import dask.array as da
import distributed

rng = np.random.default_rng(0)
N, D = 1200, 30
X = sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.3))
SCORE = X @ rng.normal(size=D)
y = np.where(SCORE > 0, 1, -1)
CUTS = [0, 300, 350, 800, 1000, N]


@pytest.fixture(scope="module")
def client():
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        yield client


def pieces(*columns):
    """Blocks of rows, unevenly cut."""
    return [tuple(c[a:b] for c in columns) for a, b in itertools.pairwise(CUTS)]


def loaders(blocks):
    return [lambda block=block: block for block in blocks]


def array_of(*, kind=sp.csr_matrix, label=y):
    """X and y as dask arrays with blocks of this kind."""
    chunks = tuple(np.diff(CUTS).tolist())
    dX = da.from_array(X.toarray(), chunks=(chunks, (D,)))
    if kind is not np.asarray:
        dX = dX.map_blocks(kind, dtype=np.float64)
    return dX, da.from_array(label, chunks=(chunks,))


def make(**params):
    return osvm.LinearClassifier(random_state=3, **params)


def expected(model=None, target=y, rounds=2, **options):
    model = make() if model is None else model
    return osvm.distributed.fit(model, pieces(X, target), rounds=rounds, **options).to_bytes()


# --------------------------------------------------------------- collections


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, np.asarray])
def test_arrays(client, kind):
    dX, dy = array_of(kind=kind)
    model = osvm.dask.fit(make(), dX, dy, rounds=2, client=client)
    if kind is not np.asarray:
        assert model.to_bytes() == expected()
    assert model.t_ == 2 * N
    assert model.score(X, y) > 0.9
    # y in other blocks, or in memory; columns cut too
    for other in (da.from_array(y, chunks=100), y, y.tolist()):
        again = osvm.dask.fit(make(), dX, other, rounds=2, client=client)
        assert again.to_bytes() == model.to_bytes()
    if kind is np.asarray:
        again = osvm.dask.fit(make(), dX.rechunk({1: 7}), dy, rounds=2, client=client)
        assert again.to_bytes() == model.to_bytes()


def test_weights_of_rows(client):
    dX, dy = array_of()
    weight = np.linspace(0.5, 2, N)
    alone = osvm.distributed.fit(make(), pieces(X, y, weight), rounds=2)
    model = osvm.dask.fit(make(), dX, dy, da.array(weight), rounds=2, client=client)
    assert model.to_bytes() == alone.to_bytes()


def test_unknown_lengths(client):
    dX, dy = array_of()
    keep = da.from_array(rng.random(N) < 0.5, chunks=dy.chunks)
    model = osvm.dask.fit(make(), dX[keep], dy[keep], rounds=1, client=client)
    assert model.t_ == int(keep.sum().compute())


def test_frames(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X.toarray(), columns=[f"c{k}" for k in range(D)])
    frame["y"] = y
    table = dd.from_pandas(frame, npartitions=3)
    model = osvm.dask.fit(make(), table.drop(columns="y"), table["y"], rounds=2, client=client)
    assert list(model.feature_names_in_) == [f"c{k}" for k in range(D)]
    assert model.t_ == 2 * N
    answer = osvm.dask.predict(model, table.drop(columns="y")).compute()
    assert np.array_equal(answer, model.predict(frame.drop(columns="y")))


def test_bags_of_text(client):
    db = pytest.importorskip("dask.bag")
    texts = [f"{'good' if k % 3 else 'bad'} film number {k}" for k in range(300)]
    labels = ["pos" if k % 3 else "neg" for k in range(300)]
    words = {"bits": 12}
    bag = db.from_sequence(zip(texts, labels), npartitions=4)
    model = osvm.dask.fit(make(), bag, tokenizer=words, rounds=2, client=client)
    assert model.t_ == 600
    X_text = osvm.stream.HashingTokenizer(idf=False, **words).transform(texts)
    assert model.score(X_text, labels) == 1.0
    with pytest.raises(ValueError, match="counted no documents"):
        osvm.dask.fit(make(), bag, tokenizer={"idf": True}, client=client)
    only = db.from_sequence(texts, npartitions=4)
    answer = osvm.dask.predict(model, only, tokenizer=words).compute()
    assert np.array_equal(answer, model.predict(X_text))


def test_file_names(client, tmp_path):
    paths = []
    for k, (X_part, y_part) in enumerate(pieces(X, y)):
        lines = []
        for row, label in zip(X_part, y_part):
            pairs = " ".join(f"{j + 1}:{v!r}" for j, v in zip(row.indices, row.data.tolist()))
            lines.append(f"{label} {pairs}\n")
        paths.append(tmp_path / f"part{k}.svm")
        paths[-1].write_text("".join(lines))
    read = {"n_features": D, "dtype": np.float64}
    model = osvm.dask.fit(make(shuffle=False), paths, rounds=2, read=read, client=client)
    labels = y.astype(model.classes_.dtype)
    assert model.to_bytes() == expected(make(shuffle=False), labels)


def test_delayed_objects_futures_and_functions(client):
    blocks = pieces(X, y)
    for kind in (
        [dask.delayed(load)() for load in loaders(blocks)],
        client.scatter(blocks, hash=False),
        [client.submit(lambda b: b, block, pure=False) for block in blocks],
        loaders(blocks),
        blocks,
    ):
        model = osvm.dask.fit(make(), kind, rounds=2, client=client)
        assert model.to_bytes() == expected()


def test_without_a_client_dask_computes_the_blocks(monkeypatch):
    monkeypatch.setattr(distributed, "get_client", lambda: (_ for _ in ()).throw(ValueError))
    with dask.config.set(scheduler="synchronous"):
        model = osvm.dask.fit(make(), *array_of(), rounds=2)
        assert model.to_bytes() == expected()


def test_other_estimators(client):
    dX, _ = array_of()
    chunks = dX.chunks[0]
    number = da.from_array(SCORE, chunks=(chunks,))
    model = osvm.dask.fit(osvm.LinearRegressor(random_state=0), dX, number, client=client)
    assert model.t_ == 5 * N
    model = osvm.dask.fit(osvm.LinearNovelty(random_state=0), dX, rounds=2, client=client)
    assert model.t_ == 2 * N
    member = da.from_array(np.column_stack([SCORE > 0, SCORE < 1]) * 1, chunks=(chunks, (2,)))
    model = osvm.dask.fit(
        osvm.MultilabelClassifier(random_state=0), dX, member, rounds=2, client=client
    )
    assert model.predict(X).shape == (N, 2)
    assert model.classes_.tolist() == [0, 1]


# ------------------------------------------------- prediction and estimators


@pytest.mark.parametrize("labels", [2, 3])
def test_prediction_is_lazy(client, labels, monkeypatch):
    target = y if labels == 2 else np.digitize(SCORE, [-1, 1])
    dX, _ = array_of()
    model = make(loss="logistic").fit(X, target)
    answers = {
        name: getattr(osvm.dask, name)(model, dX)
        for name in ("predict", "decision_function", "predict_proba")
    }
    before = {name: getattr(model, name)(X) for name in answers}
    model.partial_fit(X[:50], target[:50][::-1])  # changes nothing that was asked for before
    for name, lazy in answers.items():
        assert isinstance(lazy, da.Array)
        assert lazy.shape == before[name].shape
        assert lazy.dtype == before[name].dtype
        assert np.array_equal(lazy.compute(), before[name])
    with pytest.raises(ValueError, match="5 columns, the model 30"):
        osvm.dask.predict(model, dX[:, :5])
    with pytest.raises(AttributeError, match="no probability"):
        osvm.dask.predict_proba(make().fit(X, y), dX)


def test_empty_blocks_are_predicted(client):
    dX, _ = array_of()
    model = make().fit(X, y)
    some = dX[da.from_array(SCORE.max() - 1e-9 < SCORE, chunks=dX.chunks[0])]
    assert osvm.dask.predict(model, some).compute().shape == (1,)


def test_estimators_take_collections(client, tmp_path):
    dX, dy = array_of()
    model = osvm.dask.LinearClassifier(**make().get_params(deep=False))
    model.fit(dX, dy, rounds=2, client=client)
    assert model.to_bytes() == expected()
    assert type(model.local()) is osvm.LinearClassifier
    assert isinstance(model, osvm.LinearClassifier)
    assert np.array_equal(model.predict(dX).compute(), model.predict(X))
    assert not hasattr(model, "predict_proba")
    assert hasattr(osvm.dask.LinearClassifier("logistic"), "predict_proba")
    model.fit(dX, dy, rounds=2, client=client)  # anew, not further
    assert model.to_bytes() == expected()
    model.save(tmp_path / "model.osvm")
    assert osvm.load(tmp_path / "model.osvm").to_bytes() == model.to_bytes()
    in_memory = osvm.dask.LinearClassifier(random_state=3).fit(X, y)
    assert in_memory.to_bytes() == make().fit(X, y).to_bytes()
    assert model.score(X, y) > 0.9
    regressor = osvm.dask.LinearRegressor(random_state=0)
    regressor.fit(dX, da.from_array(SCORE, chunks=dX.chunks[0]), rounds=1)
    assert regressor.predict(dX).compute().shape == (N,)


# ----------------------------------------------------- losing workers, bits


def slow_or_dead(block, path, number):
    """Kills its worker the first time that it is asked for."""
    marker = os.path.join(path, f"killed{number}")
    if not os.path.exists(marker):
        with open(marker, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_killed_in_every_round_changes_no_bit(tmp_path):
    """On two worker processes; the last of them dies once per round."""
    blocks, rounds = pieces(X, y), 2
    calls = [tmp_path / f"round{r}" for r in range(rounds)]
    for path in calls:
        path.mkdir()

    def load(k, block=None):
        def loaded():
            done = len(list(tmp_path.glob("learnt*")))
            path = str(calls[min(done, rounds - 1)])
            return slow_or_dead(blocks[k], path, 0) if k == 1 else blocks[k]

        return loaded

    options = {"rounds": rounds, "classes": [-1, 1]}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        model = make()
        one = osvm.dask.fit(model, [load(k) for k in range(len(blocks))], client=client, rounds=1,
                            classes=[-1, 1], checkpoint=tmp_path / "run")  # fmt: skip
        (tmp_path / "learnt0").touch()
        two = osvm.dask.fit(make(), [load(k) for k in range(len(blocks))], client=client,
                            checkpoint=tmp_path / "run", resume=True, **options)  # fmt: skip
    assert all((path / "killed0").exists() for path in calls)
    assert one.t_ == N
    assert two.to_bytes() == expected(classes=[-1, 1])


def test_another_order_of_arrival_changes_no_bit(client):
    import time

    blocks = pieces(X, y)
    for delays in itertools.islice(itertools.permutations([0, 0.05, 0.1, 0.15, 0.2]), 0, 120, 50):
        late = [
            lambda block=block, delay=delay: (time.sleep(delay), block)[1]
            for block, delay in zip(blocks, delays)
        ]
        assert osvm.dask.fit(make(), late, rounds=2, client=client).to_bytes() == expected()


# ------------------------------------------ what once went wrong, one by one


def test_blocks_with_different_labels_are_united(client):
    """They were averaged in silence: classes 0 1 2 out of {0, 1, 2} and {0, 1, 3}."""
    labels = np.digitize(SCORE, [-2, 0, 2])
    blocks = [
        (X[np.isin(labels, known)], labels[np.isin(labels, known)])
        for known in ([0, 1, 2], [0, 1, 3])
    ]
    model = osvm.dask.fit(make(), blocks, client=client)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert set(model.predict(X)) == {0, 1, 2, 3}
    one_class = [(X[labels == k], labels[labels == k]) for k in range(4)]
    with pytest.warns(UserWarning, match="nearly pure"):
        model = osvm.dask.fit(make(), one_class, client=client)
    assert model.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_running_totals_count_every_example_once(client, rounds, capsys):
    """They were summed again each round: a mean loss of 440."""
    # steps so small that every example's loss stays that of zero weights
    model = osvm.LinearClassifier(
        schedule="constant", eta0=1e-12, fit_intercept=False, class_weight="balanced"
    )
    blocks = pieces(X, y)
    osvm.dask.fit(model, blocks, rounds=rounds, client=client, verbose=True)
    assert model.t_ == model._learner.seen == rounds * N
    assert np.isclose(model._learner.loss_sum, rounds * N, rtol=1e-6)
    assert model._learner.error_sum <= rounds * N
    assert model._balance.counts.tolist() == [rounds * (y == -1).sum(), rounds * (y == 1).sum()]
    assert capsys.readouterr().err.count(f"{N} rows, average loss 1.000000") == rounds
    osvm.dask.fit(model, blocks, rounds=2, client=client)  # and it goes on from there
    assert np.isclose(model._learner.loss_sum, (rounds + 2) * N, rtol=1e-6)


def test_an_error_in_a_late_round_loses_no_round(client, tmp_path):
    """Three rounds were lost with the fourth; there was no checkpoint."""
    path, blocks = tmp_path / "run.osvm", pieces(X, y)

    def broken():
        calls = len(list(tmp_path.glob("call*")))
        (tmp_path / f"call{calls}").touch()
        if calls == 4:  # after the first pass and three rounds
            raise OSError("the disk is gone")
        return blocks[0]

    model = make()
    with pytest.raises(OSError, match="disk"):
        osvm.dask.fit(model, [broken, *blocks[1:]], client=client, checkpoint=path)
    assert not hasattr(model, "t_")
    assert osvm.load(path).t_ == 3 * N
    osvm.dask.fit(model, [broken, *blocks[1:]], client=client, checkpoint=path, resume=True)
    assert model.to_bytes() == expected(rounds=5)


def test_an_empty_block_aborts_nothing(client):
    """One empty block stopped everything."""
    dX, dy = array_of()
    keep = da.from_array(np.arange(N) >= 350, chunks=dy.chunks)  # the first two blocks
    model = osvm.dask.fit(make(), dX[keep], dy[keep], rounds=2, client=client)
    assert model.t_ == 2 * (N - 350)
    assert [figures["empty"] for figures in model.rounds_] == [2, 2]


@pytest.mark.parametrize("params", [{"average": True}, {"batch_size": 7}, {"batch_size": 11}])
def test_averages_and_mini_batches_of_any_size(client, params):
    """Averages were refused after a round; mini-batches depended on divisibility."""
    model = osvm.dask.fit(make(**params), *array_of(), rounds=2, client=client)
    assert model.to_bytes() == expected(make(**params))
    assert model._learner.pending_examples == 0
    assert model.score(X, y) > 0.85
    if "average" in params:
        assert model._learner.weights.averaged_count == 2 * N
        assert not np.array_equal(model.coef_, model.last_coef_)


def test_probabilities_are_those_of_all_blocks(client):
    """The sigmoid of the first block was kept; `record` too, which is refused."""
    model = osvm.dask.fit(make(probability=True), *array_of(), rounds=2, client=client)
    assert model._platt.state[0, 5] == 2 * N
    p = model.predict_proba(X)[:, 1]
    assert abs(p.mean() - (y == 1).mean()) < 0.05
    with pytest.raises(ValueError, match="no record"):
        osvm.dask.fit(make(record=True), *array_of(), client=client)


def test_driver_memory_does_not_grow_with_the_blocks():
    """It held the models of all blocks at once: 919 MB at 4 blocks, 1.4 GB at 8."""
    wide, rows = 200_000, sp.csr_matrix((np.ones(40), np.arange(40) * 999 % 40, np.arange(41)),
                                        shape=(40, 200_000))  # fmt: skip
    labels = np.arange(40) % 2
    peaks = []
    for n in (4, 64):
        tracemalloc.start()
        osvm.distributed.fit(make(), [(rows, labels)] * n, rounds=1, classes=[0, 1])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # in one process, workers included: some models per level of the tree
    assert peaks[0] > 8 * wide
    assert peaks[1] < 3 * peaks[0]


def test_wrong_input_is_named_before_work(client):
    """Frames, weights, column counts and `fit(dX, dy)` gave raw errors."""
    dX, dy = array_of()
    for bad, error, named in [
        ((dX, dy[:-1]), ValueError, "1200 rows and y 1199"),
        ((dX, dy, np.ones(3)), ValueError, "1200 rows and sample_weight 3"),
        ((X, y), TypeError, "give a dask collection"),
        ((pieces(X, y), y), TypeError, "bring their own y"),
        ((dX, dy[dy > 0]), ValueError, "block"),
        ((dX,), ValueError, "needs labels"),
    ]:
        with pytest.raises(error, match=named):
            osvm.dask.fit(make(), *bad, client=client)
    narrow = [*pieces(X, y), (X[:5, :7], y[:5])]
    with pytest.raises(ValueError, match="block 5 has 7 columns, block 4 30"):
        osvm.dask.fit(make(), narrow, client=client)
    with pytest.raises(ValueError, match="no blocks"):
        osvm.dask.fit(make(), [], client=client)
    with pytest.raises(ValueError, match="tokenizer is for bags"):
        osvm.dask.fit(make(), dX, dy, tokenizer={}, client=client)


def test_rounds_come_near_one_machine(client):
    X_text, y_text, X_test, y_test = osvm.datasets.make_rcv1_like(
        n_train=8000, n_test=4000, n_features=2000, nnz=30, random_state=0
    )
    blocks = [(X_text[k::8], y_text[k::8]) for k in range(8)]
    model = osvm.dask.fit(make(reg=1e-4), blocks, rounds=3, client=client)
    alone = make(reg=1e-4, epochs=3).fit(X_text, y_text)
    assert model.score(X_test, y_test) > alone.score(X_test, y_test) - 0.01


def test_blocks_that_are_mixed_do_not_warn(client):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        osvm.dask.fit(make(), pieces(X, y), rounds=1, client=client)
