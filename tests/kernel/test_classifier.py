"""Kernel estimators: streams, labels, state, kernels, errors."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import kernels, recipes, schedules, taxonomy

N, D = 300, 4


def make_data(n=N, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, D)) * 1.5
    y = rng.integers(n_classes, size=n)
    return centres[y] + rng.normal(size=(n, D)), y


def make_model(**options):
    options = {
        "gamma": 0.2, "eta0": 0.2, "mu": 0.05, "reg": 1e-3, "budget": 50, "random_state": 0,
        "eviction": "fifo", **options,
    }  # fmt: skip
    names = ("mu", "decay", "eta_min", "eta_max", "eta0_intercept")
    smd = {name: options.pop(name) for name in names if name in options}
    options.setdefault("schedule", osvm.schedules.SMD(**smd))
    return osvm.KernelClassifier(options.pop("loss", "multiclass_hinge"), **options)


def state_of(model):
    scalars, arrays = model._get_state()
    return scalars, {name: array.copy() for name, array in arrays.items()}


def assert_same_state(one, other, rtol=0.0):
    (s1, a1), (s2, a2) = one, other
    assert s1.keys() == s2.keys()
    assert a1.keys() == a2.keys()
    for name in a1:
        np.testing.assert_allclose(a1[name], a2[name], rtol=rtol, atol=rtol, err_msg=name)
    if rtol == 0.0:
        assert s1 == s2


# ------------------------------------------------------------------ streams


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge", "softmax"])
@pytest.mark.parametrize("sparse", [False, True])
def test_stream_may_be_cut_anywhere(loss, sparse):
    X, y = make_data()
    X = sp.csr_matrix(X) if sparse else X
    whole = make_model(loss=loss, record=True).partial_fit(X, y, classes=[0, 1, 2])
    parts = make_model(loss=loss, record=True)
    for low, high in ((0, 1), (1, 2), (2, 90), (90, 200), (200, N)):
        parts.partial_fit(X[low:high], y[low:high], classes=[0, 1, 2])
    assert parts.t_ == whole.t_ == N
    for name in whole.history_:
        np.testing.assert_allclose(parts.history_[name], whole.history_[name], rtol=1e-9)
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-12)


def test_dense_and_sparse_rows_agree():
    X, y = make_data()
    X[X < 0] = 0.0
    dense = make_model().partial_fit(X, y)
    sparse = make_model().partial_fit(sp.csr_matrix(X), y)
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), rtol=1e-9)
    np.testing.assert_allclose(sparse.support_vectors_.toarray(), dense.support_vectors_)


def test_unsorted_and_repeated_columns_mean_their_sum():
    X, y = make_data(60)
    rows = sp.csr_matrix(X)
    halves = sp.csr_matrix(
        (
            np.repeat(rows.data, 2) / 2,
            np.repeat(rows.indices, 2).reshape(60, -1)[:, ::-1].ravel(),
            2 * rows.indptr,
        ),
        shape=X.shape,
    )
    halves.data = np.repeat(rows.data.reshape(60, -1)[:, ::-1], 2, axis=1).ravel() / 2
    one = make_model().partial_fit(rows, y)
    two = make_model().partial_fit(halves, y)
    np.testing.assert_allclose(two.decision_function(X), one.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge", "softmax", "logistic"])
def test_new_labels_grow_the_model(loss):
    X, y = make_data(n_classes=4)
    late = np.sort(y)
    rows = X[np.argsort(y, kind="stable")]
    model = make_model(loss=loss, fit_intercept=True)
    for i in range(0, N, 25):
        before = None
        if i:
            before = model.decision_function(X[:20]).copy()
            known = len(model.classes_)
        model.partial_fit(rows[i : i + 25], late[i : i + 25])
        del before
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert known == 4
    assert model.decision_function(X).shape == (N, 4)
    assert model.dual_coef_.shape == (4, model.n_support_)


def test_binary_model_that_grows_predicts_as_before():
    X, y = make_data(n_classes=2)
    model = make_model(loss="hinge", fit_intercept=True).partial_fit(X, y)
    before = model.decision_function(X)
    sq, pi = model._machine.state.sq_norm, model._machine.state.pi
    from osvm.kernel.buffer.solver import _grow

    plan = model._machine._plan
    _grow(model._machine.state, 3, plan)
    scores = model._machine.decision(osvm._input.rows.RowSource.dense(X))
    np.testing.assert_allclose(scores[:, 1], before, rtol=1e-12)
    np.testing.assert_allclose(scores[:, 0], -before, rtol=1e-12)
    assert model._machine.state.sq_norm == pytest.approx(2 * sq)
    assert model._machine.state.pi == pytest.approx(2 * pi)


def test_another_label_kernel_in_mid_stream_is_heeded():
    X, y = make_data()
    first, second = np.eye(3) + 0.2, np.diag([1.0, 2.0, 3.0])
    model = make_model(label_kernel=first).partial_fit(X[:150], y[:150], classes=[0, 1, 2])
    dual, vectors = model.dual_coef_.T, model.support_vectors_
    model.set_params(label_kernel=second).partial_fit(X[:1], y[:1], sample_weight=[0.0])
    gram = kernels.RBF(gamma=0.2)(vectors)
    shrunk = np.abs(model.dual_coef_).max() / np.abs(dual).max()  # by reg, also with weight 0
    state = model._machine.state
    expected = np.sum(gram * (dual @ second @ dual.T)) * shrunk**2
    assert state.sq_norm == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(state.label_kernel, second)


# ------------------------------------------------------------------ state


@pytest.mark.parametrize("eviction", ["fifo", "term", "change", "merge", "project"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_resumed_stream_is_the_same_bit_for_bit(eviction, sparse):
    X, y = make_data()
    X = X.astype(np.float32)
    X = sp.csr_matrix(X) if sparse else X
    model = make_model(eviction=eviction, record=True)
    model.partial_fit(X[:170], y[:170], classes=[0, 1, 2])
    twin = make_model(eviction=eviction, record=True)
    twin._set_state(*state_of(model))
    copied = pickle.loads(pickle.dumps(model))
    for other in (model, twin, copied):
        other.partial_fit(X[170:], y[170:])
    assert_same_state(state_of(twin), state_of(model))
    assert_same_state(state_of(copied), state_of(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def test_saved_file_goes_on(tmp_path):
    pytest.importorskip("osvm.io")
    X, y = make_data()
    tree = taxonomy.from_paths(["a/x", "a/y", "b"])
    names = np.array(["a/x", "a/y", "b"])[y]
    model = make_model(loss="graph_hinge", taxonomy=tree, label_kernel="taxonomy")
    model.partial_fit(X[:200], names[:200])
    model.save(tmp_path / "model.osvm")
    twin = osvm.load(tmp_path / "model.osvm")
    model.partial_fit(X[200:], names[200:])
    twin.partial_fit(X[200:], names[200:])
    assert_same_state(state_of(twin), state_of(model))


def test_bad_state_is_refused():
    X, y = make_data()
    model = make_model().partial_fit(X, y)
    for spoil in (
        lambda s, a: a.update(A=a["A"][:-1]),
        lambda s, a: a.update(A=a["A"] * np.nan),
        lambda s, a: s["machine"].update(n=999),
        lambda s, a: s["machine"].update(head=999),
        lambda s, a: a.update(X=a["X"][:, :2]),
    ):
        scalars, arrays = state_of(model)
        scalars["machine"] = dict(scalars["machine"])
        spoil(scalars, arrays)
        with pytest.raises((ValueError, KeyError)):
            make_model()._set_state(scalars, arrays)


# ------------------------------------------------------------------ errors


def test_an_error_leaves_the_model_as_it_was():
    X, y = make_data()
    model = make_model(kernel="polynomial", degree=9, gamma=1.0, mu=0.0, record=True)
    model.partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    before = state_of(model)
    bad = X[100:130].copy()
    bad[20] *= 1e30
    with pytest.raises(ValueError, match="row 20"):
        model.partial_fit(bad, y[100:130])
    assert_same_state(state_of(model), before)
    with pytest.raises(ValueError, match="row 0"):
        model.partial_fit(bad[20:21], y[:1])
    assert_same_state(state_of(model), before)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="row 20"):
        model.partial_fit(bad, np.where(np.arange(30) == 3, 7, y[100:130]))
    assert_same_state(state_of(model), before)
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nu": 0.1, "reg": 0.5}, "nu-trick fixes reg"),
        ({"nu": 0.1, "loss": "softmax"}, "needs a loss with a margin"),
        ({"loss": "squared"}, "loss must be one of"),
        ({"eviction": "lru"}, "eviction must be one of"),
        ({"budget": 0}, "budget"),
        ({"schedule": "kecman", "C": 1.0, "eta0": 0.3}, "eta0 is read with a schedule with eta0"),
        ({"schedule": osvm.schedules.SMD(per_coordinate=True)}, "linear models"),
        ({"eta0_intercept": 0.1}, "needs fit_intercept=True"),
        ({"taxonomy": taxonomy.from_paths(["a/b", "a/c"])}, "taxonomy is read with"),
        ({"nu": 1.5, "loss": "hinge"}, "nu must be"),
        ({"nu": osvm.losses.NuTrick(0.1, eta0=0.5), "schedule": "constant"}, "takes that of f"),
        ({"loss": "graph_hinge"}, "taxonomy"),
        ({"loss": "hinge", "label_kernel": np.eye(2)}, "shape"),
        ({"label_kernel": -np.eye(3)}, "positive semi-definite"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_parameters_are_checked(options, text):
    X, y = make_data()
    options = {"reg": None, **options}
    with pytest.raises((ValueError, TypeError), match=text):
        make_model(**options).fit(X, y)


def test_what_a_stream_cannot_change():
    X, y = make_data()
    model = make_model().partial_fit(X, y)
    for change in ({"budget": 10}, {"gamma": 2.0}, {"schedule": "constant"}):
        other = pickle.loads(pickle.dumps(model)).set_params(**change)
        with pytest.raises(ValueError, match="use fit"):
            other.partial_fit(X, y)
    model.set_params(schedule=osvm.schedules.SMD(mu=0.5)).partial_fit(X, y)
    assert model.t_ == 2 * N


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupt_is_prompt_and_harmless():
    code = """
        import os, signal, threading, time, numpy as np, osvm
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40000, 400)); y = rng.integers(2, size=40000)
        model = osvm.KernelClassifier(gamma=1e-3, budget=2000).partial_fit(X[:500], y[:500])
        before = model.dual_coef_
        sent = []
        def stop():
            time.sleep(0.5); sent.append(time.perf_counter()); os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=stop).start()
        try:
            model.partial_fit(X, y)
        except KeyboardInterrupt:
            late = time.perf_counter() - sent[0]
            assert np.array_equal(model.dual_coef_, before) and model.t_ == 500
            print("late", late)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, timeout=120,
    )  # fmt: skip
    assert "late" in out.stdout, out.stderr
    assert float(out.stdout.split()[1]) < 1.0  # 0.1 s on an idle machine


# ------------------------------------------------------------------ kernels


def test_precomputed_kernel_is_the_same_model():
    X, y = make_data()
    K = kernels.RBF(0.2)(X)
    by_kernel = make_model(epochs=2).fit(X, y)
    by_matrix = make_model(epochs=2, kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(by_matrix.decision_function(K), by_kernel.decision_function(X))
    np.testing.assert_allclose(X[by_matrix.support_vectors_], by_kernel.support_vectors_)


def test_callable_kernel_is_the_same_model():
    X, y = make_data(60)

    def function(A, B):
        return (A @ B.T + 1.0) ** 2

    ours = make_model(kernel="polynomial", degree=2, coef0=1.0, gamma=1.0, mu=0.0, eta0=0.01)
    theirs = make_model(kernel=function, mu=0.0, eta0=0.01)
    ours.partial_fit(X, y)
    theirs.partial_fit(X, y)
    np.testing.assert_allclose(theirs.decision_function(X), ours.decision_function(X))

    def broken(A, B):
        raise RuntimeError("no kernel today")

    with pytest.raises(RuntimeError, match="no kernel today"):
        make_model(kernel=broken).fit(X, y)


# ------------------------------------------------------------------ learning


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities(loss, n_classes):
    X, y = make_data(n_classes=n_classes)
    model = make_model(loss=loss, epochs=5).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (N, n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    assert not hasattr(make_model(loss="hinge"), "predict_proba")


def test_weights_scale_the_loss():
    X, y = make_data(n_classes=2)
    plain = make_model(loss="hinge", mu=0.0, class_weight={0: 2.0}).partial_fit(X, y)
    rows = make_model(loss="hinge", mu=0.0)
    rows.partial_fit(X, y, sample_weight=np.where(y == 0, 2.0, 1.0))
    np.testing.assert_array_equal(plain.decision_function(X), rows.decision_function(X))
    whole = make_model(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    parts = make_model(class_weight="balanced")
    for i in range(0, N, 7):
        parts.partial_fit(X[i : i + 7], y[i : i + 7], classes=[0, 1])
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), rtol=1e-8)


def test_graph_loss_uses_the_taxonomy():
    X, y = make_data(n_classes=4)
    names = np.array(["a/x", "a/y", "b/x", "b/y"])
    tree = taxonomy.from_paths(names.tolist())
    model = recipes.svmd(
        loss="graph_hinge", taxonomy=tree, label_kernel="taxonomy", gamma=0.2, reg=1e-3
    ).partial_fit(X, names[y])
    np.testing.assert_array_equal(model._machine.state.label_kernel, tree.kernel(names.tolist()))
    assert model.score(X, names[y]) > 0.5


def test_floor_and_cap_of_the_step_size():
    X, y = make_data(n_classes=2)
    model = make_model(
        loss="hinge", reg=0.5, eta0=10.0, mu=50.0, decay=1.0, eta_min=1e-3, record=True
    ).partial_fit(X, y)
    eta = model.history_["eta"]
    assert eta.max() <= 2.0
    assert eta.min() >= 1e-3
    norma = make_model(loss="hinge", reg=0.5, eta0=10.0, schedule="constant", record=True)
    assert norma.partial_fit(X, y).history_["eta"].max() == 2.0


def test_unbounded_buffer_keeps_every_row_that_moved_f():
    X, y = make_data(n_classes=2)
    model = make_model(loss="logistic", budget=None).partial_fit(X, y)
    assert model.n_support_ == N
    np.testing.assert_array_equal(model.support_vectors_, X)


def test_warm_start_goes_on():
    X, y = make_data()
    once = make_model(epochs=2, shuffle=False).fit(X, y)
    twice = make_model(epochs=1, shuffle=False, warm_start=True).fit(X, y).fit(X, y)
    np.testing.assert_allclose(twice.decision_function(X), once.decision_function(X))
    assert twice.t_ == once.t_ == 2 * N


def test_verbose_prints_and_changes_nothing(capsys):
    X, y = make_data()
    quiet = make_model().partial_fit(X, y)
    loud = make_model(verbose=True).partial_fit(X, y)
    assert "256" in capsys.readouterr().err
    np.testing.assert_allclose(loud.decision_function(X), quiet.decision_function(X), rtol=1e-9)


def test_float32_stays_float32():
    X, y = make_data()
    model = make_model().fit(X.astype(np.float32), y)
    assert model.support_vectors_.dtype == np.float32
    model.partial_fit(X, y)  # float64 rows are rounded to the buffer's type
    assert model.support_vectors_.dtype == np.float32


def test_regressor_and_novelty_stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(2000, 1))
    y = np.sin(X[:, 0])
    model = osvm.KernelRegressor("squared", gamma=1.0, reg=1e-4, record=True)
    for i in range(0, 2000, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
    assert model.score(X, y) > 0.9
    assert model.history_["error"][-1] < 0.2
    usual = rng.normal(size=(2000, 2))
    detector = osvm.KernelNovelty(nu=0.1, gamma=0.5).partial_fit(usual)
    assert detector.predict([[8.0, 8.0]]).tolist() == [-1]
    assert (detector.predict(usual) == 1).mean() > 0.7


def test_plots_draw():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = make_data(n_classes=2)
    model = make_model(loss="hinge", record=True).partial_fit(X[:, :2], y)
    fig, axes = plt.subplots(1, 5)
    osvm.plot.running_error({"a": model, "b": model.history_["error"]}, axes[0])
    osvm.plot.step_size(model, axes[1])
    osvm.plot.learning_curve(model, axes[2])
    osvm.plot.margins(model, X[:, :2], y, axes[3])
    osvm.plot.decision_regions(model, X[:, :2], y, axes[4], resolution=20)
    assert len(axes[0].lines) == 2
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), model.history_["error"])
    np.testing.assert_allclose(axes[1].lines[0].get_ydata(), model.history_["eta"])
    plt.close(fig)


@pytest.mark.parametrize("size", [1e10, 1e100, 1e300])
def test_offsets_that_would_overflow_are_refused(size):
    """A step of the offset is looked at before it is made: no model ends infinite."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), size * rng.normal(size=60)
    model = osvm.KernelRegressor(gamma=1.0, random_state=0)
    for i in range(60):
        before = None if i == 0 else model.predict(X)
        try:
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        except ValueError as refusal:
            text = str(refusal)
        else:
            assert np.isfinite(model.predict(X)).all()
            continue
        assert "diverged" in text or (size > 1e150 and "targets must be at most 1e+150" in text)
        assert before is None or np.array_equal(model.predict(X), before)
        break


@pytest.mark.parametrize("n_classes", [2, 4])
def test_partial_fit_after_fit_leaves_the_offset_to_predictions(n_classes):
    """f was learnt against the offset that `fit` had set, and undid it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    cuts = [0.9] if n_classes == 2 else [0.6, 0.9, 0.97]
    noisy = X[:, 0] + 0.8 * rng.normal(size=1500)
    y = np.searchsorted(np.quantile(noisy, cuts), noisy)
    model = osvm.KernelClassifier(budget=100, random_state=0, record=True).fit(X[:1000], y[:1000])
    offset = model.intercept_
    assert (offset != 0.0).any()
    bare = osvm.KernelClassifier(budget=100, random_state=0, record=True).fit(X[:1000], y[:1000])
    bare._machine.state.intercept[:] = 0.0
    for some in (slice(1000, 1001), slice(1001, 1500)):
        before = model.predict(X[some][:1])  # of the last f or its mean
        model.partial_fit(X[some], y[some])
        bare.partial_fit(X[some], y[some])
        if some.start == 1000:  # no mean has begun
            assert model.history_["prediction"][-1] == before[0]
    assert np.array_equal(model.intercept_, offset)
    assert np.array_equal(model.dual_coef_, bare.dual_coef_)
    assert np.abs(model._scores(X) - bare._scores(X) - offset).max() < 1e-12
    # a third or fifth label: the offsets of the others stay
    model.partial_fit(X[:1], [9])
    assert np.allclose(
        model.intercept_[:n_classes], offset if n_classes > 2 else [-offset[0], offset[0]]
    )


@pytest.mark.parametrize("kind", ["KernelClassifier", "KernelRegressor", "KernelNovelty"])
def test_weights_that_would_overflow_are_refused(kind):
    """They were taken, and `predict` raised."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    targets = [] if kind == "KernelNovelty" else [(X[:, 0] > 0).astype(int)]
    model = getattr(osvm, kind)(random_state=0).fit(X, *targets)
    before = model.predict(X)
    heavy = np.ones(80)
    heavy[7] = 1e300
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="sample_weight at row 7"):
            method(X, *targets, sample_weight=heavy)
        assert np.array_equal(model.predict(X), before)
    assert np.isfinite(model.fit(X, *targets, sample_weight=heavy.clip(max=1e50)).predict(X)).all()


def test_steps_are_capped_where_rows_have_kernels_of_their_own_size():
    """Rows of large norm threw a polynomial f about (balanced accuracy .66, now .8 and more)."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(2000, 8))
    y = np.log(X) @ rng.normal(size=8) > 0.0
    free = schedules.Bottou(capped=False)
    for learn in ("fit", "partial_fit"):
        scores = {}
        for name, schedule in (("usual", "bottou"), ("object", schedules.Bottou()), ("no", free)):
            model = osvm.KernelClassifier(kernel="poly", schedule=schedule, random_state=0)
            getattr(model, learn)(X[:1000], y[:1000])
            scores[name] = model.score(X[1000:], y[1000:])
        assert scores["usual"] == scores["object"]
        assert scores["usual"] > scores["no"] + 0.03
    plain, capped = (
        recipes.norma(kernel="poly", capped=cap).fit(X[:300], y[:300]) for cap in (False, True)
    )
    assert not np.array_equal(plain.dual_coef_, capped.dual_coef_)
    with pytest.raises(ValueError, match="capped is for kernel estimators"):
        osvm.LinearClassifier(schedule=schedules.Bottou(capped=True)).fit(X, y)
    with pytest.raises(TypeError, match="capped"):
        schedules.Constant(capped=2)
