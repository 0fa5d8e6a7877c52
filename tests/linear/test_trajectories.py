"""The linear algorithms follow their naive references step by step."""

import numpy as np
import pytest
import reference_linear as reference
import scipy.sparse as sp
from linear_problems import TREE, D, N, problem, signs

import osvm
from osvm import losses, recipes, schedules

FORMATS = {
    "dense": lambda X: X,
    "fortran": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csr-i64": lambda X: _int64(sp.csr_matrix(X)),
    "csr-array": sp.csr_array,
}


def _int64(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def follow(model, X, y, expected, classes=None, averaged=None, atol=1e-10):
    """Feed one row at a time and compare the weights (and b, if given) after each."""
    for i in range(len(expected)):
        model.partial_fit(X[i : i + 1], y[i : i + 1], **({} if classes is None else classes))
        coef = np.squeeze(model.coef_ if averaged is None else model.last_coef_)
        if expected.shape[-1] == D + 1:
            coef = np.append(coef, model.intercept_)
        assert np.allclose(coef, expected[i], rtol=1e-10, atol=atol), f"step {i + 1}"
        if averaged is not None:
            assert np.allclose(np.squeeze(model.coef_), averaged[i], rtol=1e-10, atol=atol)


BOTH = {"classes": [0, 1]}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("project", [True, False])
def test_pegasos_follows_its_reference(form, whole, project):
    X, y = problem(whole=whole)
    expected = reference.online_svm(X, signs(y), 0.25, project)
    follow(recipes.pegasos(0.25, project), FORMATS[form](X), y, expected, BOTH)


@pytest.mark.parametrize("average", [True, 0, 1, 20])
def test_averages_leave_out_as_many_iterates_as_they_say(average):
    X, y = problem(1)
    path = reference.online_svm(X, signs(y), 0.25, True)
    start = 0 if average is True else average
    mean = reference.average_of_iterates(path, start)
    follow(recipes.pegasos(0.25, average=average), sp.csr_matrix(X), y, path, BOTH, mean)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("n_out", [3, 20])
def test_averages_of_many_outputs_follow_their_reference(form, project, n_out):
    X, y = problem(1, classes=n_out)
    rows = FORMATS[form](X)
    paths = [reference.online_svm(X, np.where(y == k, 1.0, -1.0), 0.25, project)
             for k in range(n_out)]  # fmt: skip
    model = recipes.pegasos(0.25, project, average=20)
    follow(
        model,
        rows,
        y,
        np.stack(paths, axis=1),
        {"classes": range(n_out)},
        np.stack([reference.average_of_iterates(path, 20) for path in paths], axis=1),
    )
    whole = recipes.pegasos(0.25, project, average=20).partial_fit(rows, y, classes=range(n_out))
    assert np.array_equal(whole.coef_, model.coef_)


def test_online_svm_divides_rows_by_their_norm():
    X, y = problem(2)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    expected = reference.online_svm(unit, signs(y), 0.1)
    follow(recipes.online_svm(0.1), sp.csr_matrix(X), y, expected, BOTH)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", [2, 7])
def test_mini_batches_follow_their_reference(form, size):
    X, y = problem(3)
    expected = reference.mini_batches(X, signs(y), 0.5, size)
    rows = FORMATS[form](X)
    model = recipes.pegasos(0.5, project=False, batch_size=size)
    for step, w in enumerate(expected):
        for i in range(step * size, (step + 1) * size):
            model.partial_fit(rows[i : i + 1], y[i : i + 1], **BOTH)
        assert np.allclose(model.coef_[0], w, rtol=1e-10, atol=1e-12), f"step {step + 1}"
    assert model.t_ == len(expected) * size


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge", "softmax"])
def test_multi_output_mini_batches_match_between_dense_and_sparse_and_splits(loss):
    X, y = problem(4, classes=4)
    options = {
        "reg": 0.5,
        "schedule": "inverse_time",
        "batch_size": 5,
        "average": True,
        "project": True,
    }
    models = []
    for rows, cut in ((X, N), (sp.csr_matrix(X), N), (sp.csr_matrix(X), 3)):
        model = osvm.LinearClassifier(loss, **options)
        for i in range(0, N, cut):
            model.partial_fit(rows[i : i + cut], y[i : i + cut], classes=range(4))
        models.append(model)
    assert np.allclose(models[0].coef_, models[1].coef_, rtol=1e-10)
    assert np.array_equal(models[1].coef_, models[2].coef_)
    assert np.array_equal(models[1].last_coef_, models[2].last_coef_)


def test_sgd_with_intercept_follows_its_reference():
    X, y = problem(5)
    model = recipes.sgd_svm(reg=0.1, schedule=schedules.Bottou(t0=3.0))
    follow(model, sp.csr_matrix(X), y, reference.sgd_with_intercept(X, signs(y), 0.1, 3.0), BOTH)


def test_c_means_one_over_reg_n():
    X, y = problem(5)
    a = recipes.sgd_svm(C=2.0).fit(X, y)
    b = recipes.sgd_svm(reg=1 / (2.0 * N)).fit(X, y)
    assert np.array_equal(a.coef_, b.coef_)
    with pytest.raises(ValueError, match="give reg or C, not both"):
        osvm.LinearClassifier(reg=1.0, C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="C needs the number of examples"):
        osvm.LinearClassifier(C=1.0).partial_fit(X, y)


def test_batch_gradient_descent_follows_its_reference():
    X, y = problem(6)
    for epochs in (1, 2, 10):
        expected = reference.batch_gradient_descent(X, signs(y), 0.1, 0.5, epochs)[-1]
        model = recipes.batch_gd(reg=0.1, eta0=0.5, epochs=epochs).fit(sp.csr_matrix(X), y)
        assert np.allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-10)


@pytest.mark.parametrize("whole", [False, True])
def test_ogd_softsvm_and_perceptron_follow_their_references(whole):
    X, y = problem(7, whole=whole)
    rows = sp.csr_matrix(X)
    follow(recipes.ogd(0.25), rows, y, reference.online_subgradient(X, signs(y), 0.25), BOTH)
    expected = reference.online_subgradient(X, signs(y), 0.25, radius=0.75)
    follow(recipes.projected_ogd(0.75, 0.25), rows, y, expected, BOTH)
    follow(recipes.soft_svm(0.25), rows, y, reference.soft_svm(X, signs(y), 0.25), BOTH)
    follow(recipes.perceptron(), rows, y, reference.perceptron(X, signs(y)), BOTH)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("radius", [1e-6, 0.75, 1e3])
@pytest.mark.parametrize("n_out", [2, 4])
def test_lazy_projection_follows_the_lecture_as_printed(form, radius, n_out):
    """Average included; with the smallest radius the weights are folded at every step."""
    X, y = problem(7, classes=n_out)
    rows = FORMATS[form](X)
    labels = [1] if n_out == 2 else range(n_out)
    paths = [reference.lazy_subgradient(X, np.where(y == k, 1.0, -1.0), 0.25, radius)
             for k in labels]  # fmt: skip
    means = [reference.average_of_iterates(path, 20) for path in paths]
    expected, mean = np.squeeze(np.stack(paths, axis=1)), np.squeeze(np.stack(means, axis=1))
    model = recipes.projected_ogd(radius, 0.25, lazy=True, average=20)
    follow(model, rows, y, expected, {"classes": range(n_out)}, mean, atol=1e-10 * min(1, radius))
    narrow = recipes.projected_ogd(radius, 0.25, lazy=True)
    narrow.partial_fit(rows.astype(np.float32), y, classes=range(n_out))
    assert narrow._learner.weights.v.dtype == np.float32
    # the loss may decide otherwise in float32 where an output comes close to the margin
    if radius < 1:
        assert np.allclose(np.squeeze(narrow.coef_), expected[-1], rtol=1e-4, atol=1e-5 * radius)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("n_out", [2, 4])
def test_lazy_projection_of_mini_batches_follows_its_reference(form, n_out):
    X, y = problem(7, classes=n_out)
    labels = [1] if n_out == 2 else range(n_out)
    ends = [reference.lazy_subgradient(X, np.where(y == k, 1.0, -1.0), 0.5, 0.3, 7)[-1]
            for k in labels]  # fmt: skip
    model = recipes.projected_ogd(0.3, 0.5, lazy=True, batch_size=7)
    model.fit(FORMATS[form](X), y)
    assert np.allclose(model.coef_, ends, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("options", [{}, {"average": True}, {"batch_size": 7}])
def test_a_lazy_stream_is_cut_saved_and_loaded_anywhere(form, options, tmp_path):
    """The third label comes at row 3: two outputs of one score become three."""
    X, y = problem(7, classes=3)
    y[:3], y[3] = [0, 1, 0], 2
    rows = FORMATS[form](X)
    whole = recipes.projected_ogd(0.4, 0.25, lazy=True, **options).partial_fit(rows, y)
    model = recipes.projected_ogd(0.4, 0.25, lazy=True, **options)
    for start, stop in zip([0, 2, 3, 20, 21], [2, 3, 20, 21, N]):
        model.partial_fit(rows[start:stop], y[start:stop])
        model.save(tmp_path / "model.osvm")
        model = osvm.load(tmp_path / "model.osvm")
    assert np.array_equal(model.coef_, whole.coef_)
    assert np.array_equal(model._learner.lift, whole._learner.lift)
    assert whole._learner.lift.max() > 1


def test_lazy_and_plain_projection_may_take_turns():
    """Lazy steps begin at the weights of the plain ones, and plain ones at the projection."""
    X, y = problem(7)
    model = recipes.projected_ogd(0.4, 0.25, lazy=True).partial_fit(X[:20], y[:20])
    start = model.coef_.ravel().copy()
    model.set_params(schedule="constant").partial_fit(X[20:21], y[20:21])
    target = signs(y)[20]
    step = start + 0.25 * target * X[20] * (target * (start @ X[20]) < 1)
    assert np.allclose(model.coef_, step * min(1, 0.4 / np.linalg.norm(step)), rtol=1e-10)
    model.set_params(schedule=schedules.Constant(lazy=True))
    theta = model.coef_.ravel().copy()
    w = theta
    for x, target in zip(X[21:], signs(y)[21:]):
        theta = theta + 0.25 * target * x * (target * (w @ x) < 1)
        w = theta * min(1, 0.4 / np.linalg.norm(theta))
    assert np.allclose(model.partial_fit(X[21:], y[21:]).coef_, w, rtol=1e-10)


def test_lazy_projection_is_refused_where_it_means_nothing():
    X, y = problem(7)
    lazy = schedules.Constant(lazy=True)
    for wrong in ({"reg": 0.0}, {"reg": 0.1, "project": 1.0}):
        with pytest.raises(ValueError, match="lazy=True needs a radius"):
            osvm.LinearClassifier(schedule=lazy, eta0=0.1, **wrong).fit(X, y)
    with pytest.raises(ValueError, match="lazy is for linear models"):
        osvm.KernelClassifier(schedule=lazy).fit(X, y)
    with pytest.raises(TypeError, match="lazy must be True or False"):
        schedules.Constant(lazy=1)
    model = recipes.projected_ogd(0.4, lazy=True).fit(X, y)
    with pytest.raises(ValueError, match="lazy projection cannot be merged"):
        osvm.merge([model, model])
    with pytest.raises(ValueError, match="has no lazy"):
        osvm.model_selection.one_pass_search(model, X, y, {"eta0": [0.1, 1.0]})


MULTI = {
    "hinge": reference.one_vs_rest_hinge,
    "multiclass_hinge": reference.crammer_singer,
    "softmax": reference.softmax,
    "graph_hinge": lambda f, k: reference.crammer_singer(f, k, TREE.distances()),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("loss", MULTI)
@pytest.mark.parametrize("ties", [False, True])
def test_multi_output_losses_follow_their_references(form, loss, ties):
    """With ties: whole numbers and dyadic steps, so that scores are exact and often equal."""
    X, codes = problem(8, classes=4, whole=ties)
    names = np.array(["a/0", "a/1", "b/2", "b/3"])
    reg, schedule, eta_of = 0.25, "inverse_time", lambda t: 4 / t
    if ties:
        reg, schedule, eta_of = 0.0, "constant", lambda t: 0.25
    model = osvm.LinearClassifier(
        loss,
        reg=reg,
        schedule=schedule,
        eta0=0.25,
        fit_intercept=False,
        taxonomy=TREE if loss == "graph_hinge" else None,
    )
    expected = reference.multi_output(X, codes, 4, reg, MULTI[loss], eta_of)
    follow(model, FORMATS[form](X), names[codes], expected, {"classes": names})


SCALAR = [losses.SquaredHinge(), losses.Logistic(), losses.ModifiedHuber(), losses.Perceptron()]


@pytest.mark.parametrize("loss", SCALAR, ids=lambda part: part.name)
def test_scalar_losses_follow_the_update_rule(loss):
    X, y = problem(9)
    model = osvm.LinearClassifier(loss, reg=0.1, schedule=schedules.InverseSqrt(eta0=0.3, tau=5.0))
    expected = reference.scalar_loss_descent(X, signs(y), 0.1, 0.3, 5.0, loss.dloss)
    follow(model, sp.csr_matrix(X), y, expected, BOTH)


@pytest.mark.parametrize(
    "loss",
    [losses.EpsilonInsensitive(0.1), losses.Huber(0.5), losses.Squared()],
    ids=lambda part: part.name,
)
def test_regression_losses_follow_the_update_rule(loss):
    X, _ = problem(10)
    y = X @ np.arange(D) / D
    model = osvm.LinearRegressor(loss, reg=0.01, schedule=schedules.InverseSqrt(eta0=0.1, tau=5.0))
    expected = reference.scalar_loss_descent(X, y, 0.01, 0.1, 5.0, loss.dloss)
    follow(model, sp.csr_matrix(X), y, expected)


def test_novelty_follows_the_update_rule():
    X, _ = problem(11)
    model = osvm.LinearNovelty(reg=0.1, schedule=schedules.InverseSqrt(eta0=0.1, tau=5.0))
    w = np.zeros(D)
    for t in range(1, N + 1):
        x, eta = X[t - 1], 0.1 * np.sqrt(5 / (5 + t))
        w = (1 - eta * 0.1) * w + (eta * x if w @ x < 1 else 0)
        model.partial_fit(X[t - 1 : t])
        assert np.allclose(model.coef_, w, rtol=1e-10, atol=1e-12)
    assert set(model.predict(X)) <= {-1, 1}
    assert np.array_equal(model.predict(X) == 1, model.score_samples(X) >= model.offset_)
