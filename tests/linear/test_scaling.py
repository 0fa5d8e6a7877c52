"""Columns in units of their own, `scale=`: the model is that of the scaled matrix."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from reference_linear import online_svm

import osvm
from osvm import schedules
from osvm._input.rows import RowSource
from osvm.linear import scaling
from osvm.linear.examples import column_moments
from osvm.linear.scaling import Scaling

RNG = np.random.default_rng(5)
N, D = 400, 9
DENSE = RNG.normal(size=(N, D)) * 10.0 ** np.arange(-4, 5)
DENSE[:, 1:8] *= RNG.random((N, 7)) < 0.7
DENSE[:, 2] += 2e-2
Y = (DENSE[:, 0] * 1e4 + DENSE[:, 8] * 1e-4 + 0.2 * RNG.normal(size=N) > 0).astype(int)
MULTI = np.digitize(DENSE[:, 0] * 1e4 + DENSE[:, 8] * 1e-4, [-0.5, 0.5])
SETS = [[k for k in range(3) if x[3 * k] * 10.0 ** (4 - 3 * k) > 0.1] for x in DENSE]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Several blocks, also of few rows."""
    monkeypatch.setattr(scaling, "_BLOCK_VALUES", 7 * D)


def factors(X, kind):
    """What columns are multiplied by, from the definition."""
    if kind == "maxabs":
        size = np.abs(X).max(axis=0)
    else:
        size = np.maximum(X.std(axis=0), np.abs(X.mean(axis=0)) / 10)
    return 1 / np.where(size > 0, size, 1.0)


def forms(X):
    doubled = sp.csr_matrix(X)  # each value in two parts, columns unsorted
    doubled = sp.csr_matrix(
        (
            np.repeat(doubled.data / 2, 2),
            np.repeat(doubled.indices, 2)[::1],
            doubled.indptr * 2,
        ),
        shape=X.shape,
    )
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return [X, np.asfortranarray(X), sp.csr_matrix(X), wide, doubled]


@pytest.mark.parametrize("kind", ["std", "maxabs"])
@pytest.mark.parametrize("form", range(5))
def test_factors(kind, form):
    X = DENSE.copy()
    X[:, 4], X[:, 6] = 0.0, -7.5
    source, _ = osvm.LinearClassifier()._open(forms(X)[form])
    found = Scaling.of(kind, source).factors
    np.testing.assert_allclose(found, factors(X, kind), rtol=1e-12)
    assert found[4] == 1.0
    assert found[6] == pytest.approx(10 / 7.5 if kind == "std" else 1 / 7.5)


@given(
    st.lists(st.floats(-1e150, 1e150, allow_subnormal=False), min_size=1, max_size=30),
    st.integers(0, 5),
    st.booleans(),
)
def test_moments(values, zeros, sparse):
    x = np.array([*values, *[0.0] * zeros])[:, None]
    X = sp.csr_matrix(x) if sparse else x
    source = RowSource.csr(X.data, X.indices, X.indptr, 1) if sparse else RowSource.dense(X)
    size, mean, deviation = column_moments(source)
    top = np.abs(x).max()
    unit = top or 1.0
    assert size[0] == top
    np.testing.assert_allclose(mean[0] / unit, (x / unit).mean(), atol=1e-14)
    np.testing.assert_allclose(deviation[0] / unit, (x / unit).std(), rtol=1e-10, atol=1e-14)


OPTIONS = [
    {},
    {"reg": 1e-3},
    {"loss": "logistic", "average": True},
    {"loss": "squared_hinge"},
    {"reg": 1e-2, "project": True, "schedule": "inverse_time"},
    {"batch_size": 7, "average": 10},
    {"batch_size": "full", "epochs": 3},
    {"schedule": "adaptive", "loss": "modified_huber"},
    {"schedule": "coin_betting"},
    {"schedule": "smd"},
    {"schedule": schedules.SMD(per_coordinate=True)},
    {"probability": True, "class_weight": "balanced"},
    {"shuffle": False, "tol": 1e-3},
    {"normalize": True, "epochs": 4},  # passes: few rows are solved only without it
    {"n_jobs": 2},
]


@pytest.mark.parametrize("kind", ["std", "maxabs"])
@pytest.mark.parametrize("params", OPTIONS, ids=str)
@pytest.mark.parametrize("target", [Y, MULTI], ids=["two", "three"])
def test_the_model_is_that_of_the_scaled_matrix(kind, params, target):
    """Bit for bit, for CSR and dense rows; and goes on so in a stream."""
    own = {"random_state": 3, **params}
    if not params.get("normalize"):
        times = Scaling.of(kind, RowSource.dense(DENSE)).factors
        scaled = DENSE * times
    else:
        times = Scaling.of(kind, osvm.LinearClassifier(normalize=True)._open(DENSE)[0]).factors
        scaled = DENSE / np.linalg.norm(DENSE, axis=1, keepdims=True) * times
        own = {**own, "normalize": False}
    expected = osvm.LinearClassifier(**own).fit(scaled, target)
    close = 1e-9 if params.get("normalize") else 1e-12
    for X in (DENSE, sp.csr_matrix(DENSE)):
        Z = sp.csr_matrix(scaled) if sp.issparse(X) else scaled
        expected = osvm.LinearClassifier(**own).fit(Z, target)
        model = osvm.LinearClassifier(scale=kind, random_state=3, **params).fit(X, target)
        if "batch_size" not in params:
            expected.partial_fit(Z[:50], target[:50])
            model.partial_fit(X[:50], target[:50])
        if not params.get("normalize"):
            arrays, others = (one._learner.get_state()[1] for one in (model, expected))
            assert all(np.array_equal(arrays[name], others[name]) for name in others)
            scores = np.reshape(model.decision_function(X), (N, -1))
            np.testing.assert_allclose(
                DENSE @ model.coef_.T + model.intercept_, scores, rtol=1e-9, atol=1e-9
            )
        np.testing.assert_allclose(
            model.decision_function(X), expected.decision_function(Z), rtol=close, atol=close
        )
        np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=close)
        np.testing.assert_allclose(model.coef_, expected.coef_ * times, rtol=1e-12 + close)
        np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-12)
        if params.get("probability"):
            np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(Z))


FAR = np.array([0.0, 1e6, 0.0, -50.0, 1e4, 7.5, 2.0])  # deviations
FAR_X = RNG.normal(size=(600, 7)) + FAR
FAR_X[:, 5] = 7.5
FAR_Y = (FAR_X - FAR) @ [1.0, 2.0, 0.0, -1.0, 1.0, 0.0, 0.5] + 0.1 * RNG.normal(size=600) - 0.3


@pytest.mark.parametrize(
    ("estimator", "target"),
    [
        (osvm.LinearClassifier, FAR_Y > 0),
        (osvm.LinearClassifier, np.digitize(FAR_Y, [-1, 1])),
        (osvm.LinearRegressor, FAR_Y),
    ],
)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"scale": "std"},
        {"scale": "std", "reg": 1e-3, "average": True},
        {"scale": "std", "schedule": "adaptive"},
        {"scale": "std", "schedule": "smd"},
        {"scale": "std", "shuffle": False, "tol": 1e-3},
    ],
    ids=str,
)
def test_columns_far_from_0_are_learnt_as_if_around_it(estimator, target, params):
    """As from the centered columns, with an offset for those that are not; and in a stream."""
    X = FAR_X
    _, mean, size = column_moments(RowSource.dense(X))
    center = np.where(np.abs(mean) > 3 * size, mean, 0.0)
    times = np.ones(7)
    if "scale" in params:
        size[5] = 1.0
        times = 1 / np.where(center != 0, size, np.maximum(size, np.abs(mean) / 10))
    own = {k: v for k, v in params.items() if k != "scale"}
    expected = estimator(random_state=1, **own).fit((X - center) * times, target)
    seen = []
    model = estimator(
        random_state=1, **params, callback=lambda m, e: seen.append(m.predict(X[:9]))
    ).fit(X, target)
    scores = (
        estimator.predict if estimator is osvm.LinearRegressor else estimator.decision_function
    )
    wanted = scores(expected, (X - center) * times)
    np.testing.assert_allclose(scores(model, X), wanted, rtol=1e-9, atol=1e-9)
    shown = X @ np.atleast_2d(model.coef_).T + model.intercept_
    np.testing.assert_allclose(np.reshape(wanted, (len(X), -1)), shown, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.coef_, expected.coef_ * times, rtol=1e-9)
    np.testing.assert_array_equal(seen[-1], model.predict(X[:9]))
    copied = estimator(**params)
    copied.__setstate__(model.__getstate__())
    np.testing.assert_array_equal(scores(copied, X), scores(model, X))
    if not own:
        before = model.score(X, target)
        assert model.partial_fit(X[:300], target[:300]).score(X, target) > before - 0.1
    warm = estimator(random_state=1, warm_start=True, **params).fit(X, target).fit(X, target)
    again = estimator(random_state=1, warm_start=True, **own)
    again.fit((X - center) * times, target).fit((X - center) * times, target)
    np.testing.assert_allclose(
        scores(warm, X), scores(again, (X - center) * times), rtol=1e-5, atol=1e-5
    )


def test_parts_of_other_centers_are_merged():
    """In the units of the user, and in those of the first part."""
    target = FAR_Y > 0
    parts = [
        osvm.LinearClassifier(random_state=0).fit(FAR_X[rows], target[rows])
        for rows in (slice(0, 300), slice(300, 600))
    ]
    parts.append(osvm.LinearClassifier(random_state=0).fit(FAR_X - FAR, target))
    for order in ([0, 1], [1, 0], [0, 2], [2, 0]):
        some = [parts[k] for k in order]
        merged = osvm.merge(some)
        weights = [part.t_ / sum(one.t_ for one in some) for part in some]
        wanted = sum(w * part.decision_function(FAR_X) for w, part in zip(weights, some))
        # each weight is merged by what its part has learnt of it, so not by rows exactly
        found = merged.decision_function(FAR_X)
        np.testing.assert_allclose(found, wanted, atol=0.05 * np.abs(wanted).max())
        scores = FAR_X @ merged.coef_[0] + merged.intercept_
        np.testing.assert_allclose(scores, found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "warns"),
    [
        ({}, False),
        ({"scale": "std"}, False),
        ({"scale": "maxabs"}, True),
        ({"fit_intercept": False}, True),
        ({"schedule": "inverse_time"}, True),
    ],
    ids=str,
)
def test_a_column_that_stays_far_from_0_is_named(params, warns):
    X, y = FAR_X[:, [0, 1, 2]], FAR_Y > 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        osvm.LinearClassifier(random_state=0, **params).fit(X, y)
    assert any("column 1 has mean 1e+06" in str(w.message) for w in caught) == warns
    with pytest.warns(osvm.exceptions.ConvergenceWarning, match="column 1 .* subtract its mean"):
        osvm.LinearClassifier().partial_fit(X, y)


def test_follows_the_equations():
    """Pegasos on x / s, in plain numpy."""
    params = {"schedule": "inverse_time", "reg": 0.1, "project": True, "fit_intercept": False}
    model = osvm.LinearClassifier(scale="std", epochs=1, shuffle=False, **params).fit(DENSE, Y)
    times = factors(DENSE, "std")
    w = online_svm(DENSE * times, 2 * Y - 1, 0.1)[-1]
    np.testing.assert_allclose(model.coef_[0], w * times, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_other_estimators(dtype):
    X = DENSE.astype(dtype)
    times = factors(DENSE, "std")
    numbers = DENSE @ times
    for make, y in (
        (lambda **kw: osvm.LinearRegressor(schedule="bottou", random_state=0, **kw), numbers),
        (lambda **kw: osvm.LinearRegressor(random_state=0, **kw), numbers),
        (lambda **kw: osvm.LinearNovelty(random_state=0, **kw), None),
    ):
        model = make(scale="std").fit(X, y)
        expected = make().fit((DENSE * times).astype(dtype), y)
        assert model.coef_.dtype == expected.coef_.dtype
        rough = 2e-3 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(model.coef_ / times, expected.coef_, rtol=rough, atol=rough)
        if y is None:
            assert model.offset_ == pytest.approx(expected.offset_, rel=rough)


@pytest.mark.parametrize(
    "params", [{}, {"average": True, "loss": "logistic"}, {"batch_size": 7}, {"probability": True}]
)
def test_label_sets(params):
    times = factors(DENSE, "maxabs")
    make = osvm.MultilabelClassifier
    expected = make(random_state=0, **params).fit(DENSE * times, SETS)
    for X in (DENSE, sp.csr_matrix(DENSE)):
        model = make(scale="maxabs", random_state=0, **params).fit(X, SETS)
        np.testing.assert_allclose(model.coef_, expected.coef_ * times, rtol=1e-9)
        more = [*SETS[:40], [7]]  # and a label that is new
        model.partial_fit(X[:41], more)
        other = make(random_state=0, **params).fit(DENSE * times, SETS)
        other.partial_fit((DENSE * times)[:41], more)
        np.testing.assert_allclose(
            model.decision_function(X), other.decision_function(DENSE * times), atol=1e-9
        )


def test_one_example_at_a_time():
    model = osvm.LinearClassifier(scale="std", random_state=0).fit(DENSE, Y)
    other = osvm.LinearClassifier(scale="std", random_state=0).fit(DENSE, Y)
    rows = sp.csr_matrix(DENSE)
    model.partial_fit(rows[:30], Y[:30])
    for x, y in zip(rows[:30], Y[:30]):
        other.learn_one(x.indices, x.data, int(y))
        assert other.score_one(x.indices, x.data) == other.decision_function(x)[0]
        assert other.predict_one(x.indices, x.data) == other.predict(x)[0]
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_merge():
    """Parts have other factors: the mean is that of the weights in the user's units."""
    for params in ({"reg": 1e-2}, {"reg": 1e-2, "average": True}, {}):
        parts = [
            osvm.LinearClassifier(scale="std", random_state=0, **params).fit(
                DENSE[k::2], MULTI[k::2]
            )
            for k in range(2)
        ]
        merged = osvm.merge(parts, weights="equal")
        if params:  # or each weight counts by what its part has learnt
            mean = (parts[0].coef_ + parts[1].coef_) / 2
            np.testing.assert_allclose(merged.coef_, mean, rtol=1e-9)
        merged.partial_fit(DENSE, MULTI)
        assert merged.t_ == parts[0].t_ + parts[1].t_ + N


def test_refusals():
    make = osvm.LinearClassifier
    with pytest.raises(ValueError, match=r"all rows.*running"):
        make(scale="std").partial_fit(DENSE, Y)
    with pytest.raises(ValueError, match="scale"):
        make(scale="nonsense").fit(DENSE, Y)
    with pytest.raises(ValueError, match="adaptive"):
        make(scale="running", schedule="bottou").fit(DENSE, Y)
    with pytest.raises(ValueError, match="adaptive"):
        make(scale="running", schedule="coin_betting").fit(DENSE, Y)
    model = make(scale="std", random_state=0).fit(DENSE, Y)
    scores = model.decision_function(DENSE)
    model.set_params(scale="maxabs")
    with pytest.raises(ValueError, match="cannot change"):
        model.partial_fit(DENSE, Y)
    np.testing.assert_array_equal(model.decision_function(DENSE), scores)
    with pytest.raises(ValueError, match="cannot change"):
        model.set_params(warm_start=True).fit(DENSE, Y)
    model.set_params(scale="std").fit(DENSE[::-1], Y[::-1])  # with the factors of the first
    labels = osvm.MultilabelClassifier(scale="std", random_state=0).fit(DENSE, SETS)
    with pytest.raises(ValueError, match="cannot change"):
        labels.set_params(scale=None).partial_fit(DENSE, SETS)


def test_an_error_names_the_row_and_leaves_the_model_as_it_was():
    params = {"loss": "squared", "schedule": "constant", "eta0": 0.5, "scale": "maxabs"}
    model = osvm.LinearRegressor(random_state=0, **params).fit(DENSE, np.zeros(N))
    before = model.coef_.copy()
    X = DENSE.copy()
    X[333] = 1e160
    with pytest.raises(FloatingPointError, match="row 333"):
        model.partial_fit(X, np.ones(N))
    np.testing.assert_array_equal(model.coef_, before)
    assert model.t_ == 5 * N


def test_callbacks_see_the_scaled_model():
    seen = []
    osvm.LinearClassifier(
        scale="std",
        random_state=0,
        epochs=3,
        callback=lambda model, epoch: seen.append(model.score(DENSE, Y)),
    ).fit(DENSE, Y)
    assert min(seen) > 0.9


def test_running_is_normalized_online_learning():
    """A stream's steps are those of the normalized rates, and its model has no unit."""
    model = osvm.LinearClassifier(scale="running").partial_fit(DENSE, Y)
    plain = osvm.LinearClassifier(
        schedule="adaptive", scale="running", reg=0.0, eta0=10.0, average=True
    )
    plain.partial_fit(DENSE, Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    normalized = schedules.Adaptive(eta0=10.0, normalized=True)
    other = osvm.LinearClassifier(schedule=normalized, reg=0.0, average=True)
    np.testing.assert_array_equal(other.partial_fit(DENSE, Y).coef_, model.coef_)
    units = 10.0 ** RNG.integers(-6, 7, D)
    again = osvm.LinearClassifier(scale="running").partial_fit(DENSE * units, Y)
    np.testing.assert_allclose(again.coef_ * units, model.coef_, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ["std", "maxabs", "running"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_raw_units_are_learnt(kind, loss):
    """Where the rows as they are give hardly more than a constant answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"loss": loss, "random_state": 0}
        raw = osvm.LinearClassifier(schedule="bottou", **params).fit(DENSE, Y)
        model = osvm.LinearClassifier(scale=kind, **params).fit(DENSE, Y)
    assert model.score(DENSE, Y) > max(0.9, raw.score(DENSE, Y) + 0.05)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [osvm.LinearClassifier, osvm.LinearRegressor])
def test_sparse_rows_go_to_a_model_of_dense_rows_that_are_centered(estimator, dtype):
    """One row, many rows and a stream; they were refused with a message from inside."""
    target = FAR_Y > 0 if estimator is osvm.LinearClassifier else FAR_Y
    X = FAR_X.astype(dtype)
    model = estimator(random_state=0).fit(X[:500], target[:500])
    S = sp.csr_matrix(X)
    np.testing.assert_allclose(model.predict(S), model.predict(X), rtol=1e-6, atol=1e-6)
    one = model.predict_one(np.arange(X.shape[1]), X[0])
    np.testing.assert_allclose(float(one), float(model.predict(X[:1])[0]), rtol=1e-6)
    again = estimator(random_state=0).fit(X[:500], target[:500])
    model.partial_fit(S[500:], target[500:])
    again.partial_fit(X[500:], target[500:])
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-5, atol=1e-5)
    model.learn_one(np.arange(X.shape[1]), X[0], target[0])
    assert model.t_ == again.t_ + 1


def _text_with_far_columns(n, dtype):
    """Sparse rows, a column far from 0 that some rows lack, one of dates, one that is constant."""
    rng = np.random.default_rng(n)
    words = sp.random(n, 60, 0.1, random_state=1, format="csr")
    z = rng.standard_normal((n, 2))
    numbers = np.c_[200 + z[:, 0], np.full(n, 1e5), 3000 + 10 * z[:, 1]]
    numbers[::50, 0] = 0.0
    y = np.where(words @ rng.standard_normal(60) + z @ [1.0, -1.0] > 0, 1, 0)
    return sp.csr_matrix(sp.hstack([numbers[:, :1], words, numbers[:, 1:]]), dtype=dtype), y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize("estimator", [osvm.LinearClassifier, osvm.LinearRegressor])
def test_sparse_columns_far_from_0_are_learnt_as_if_around_it(estimator, n, dtype):
    """As from sparse rows that were centered by hand, and sparse, unsorted, dense rows alike."""
    X, y = _text_with_far_columns(n, dtype)
    dense = X.toarray().astype(np.float64)
    mean, size = dense.mean(axis=0), dense.std(axis=0)
    far = np.where((np.abs(mean) > 3 * size) & ((size > 0) | (np.abs(mean) > 3)), mean, 0.0)
    assert np.count_nonzero(far) == 3
    model = estimator(random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    expected = estimator(random_state=1).fit(sp.csr_matrix((dense - far).astype(dtype)), y)
    name = "predict" if estimator is osvm.LinearRegressor else "decision_function"
    wanted = getattr(expected, name)(sp.csr_matrix((dense - far).astype(dtype)))
    bound = 1e-3 if dtype == np.float32 else 1e-7
    unsorted = X.copy()
    for start, stop in zip(X.indptr, X.indptr[1:]):
        unsorted.indices[start:stop] = X.indices[start:stop][::-1]
        unsorted.data[start:stop] = X.data[start:stop][::-1]
    unsorted.has_sorted_indices = False
    for rows in (X, unsorted, X.toarray()):
        np.testing.assert_allclose(getattr(model, name)(rows), wanted, rtol=bound, atol=bound)
    one = X[7]
    np.testing.assert_allclose(
        model.score_one(one.indices, one.data), wanted[7], rtol=bound, atol=bound
    )
    if dtype == np.float64:
        by_hand = X @ np.ravel(model.coef_) + model.intercept_
        np.testing.assert_allclose(by_hand, wanted, rtol=1e-6, atol=1e-6)
        model.partial_fit(unsorted[:50], y[:50])
        expected.partial_fit(sp.csr_matrix(dense - far)[:50], y[:50])
        wanted = getattr(expected, name)(sp.csr_matrix(dense - far))
        np.testing.assert_allclose(getattr(model, name)(X), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("estimator", [osvm.LinearClassifier, osvm.LinearRegressor])
def test_a_stream_of_sparse_rows_with_a_column_far_from_0_warns(estimator):
    X, y = _text_with_far_columns(300, np.float64)
    with pytest.warns(osvm.exceptions.ConvergenceWarning, match="column 62 has mean 3e"):
        estimator().partial_fit(X, y)
    with pytest.warns(osvm.exceptions.ConvergenceWarning, match="column 62 has mean 3e"):
        estimator(fit_intercept=False).fit(X, y)
