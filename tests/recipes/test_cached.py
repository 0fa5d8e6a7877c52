"""Recipes with cached outputs as estimators: parameters, classes, files, scikit-learn."""

import pickle
import time

import numpy as np
import pytest
import reference_cached as ref
import scipy.sparse as sp
from kernel.test_sequential import problem

import osvm
from osvm import recipes, solvers
from osvm.datasets import make_chessboard, make_two_normals
from osvm.linear.alma import AlmaClassifier
from osvm.model_selection import cached_grid_search

MAKERS = {
    "ol_svm": lambda **o: recipes.ol_svm(C=0.5, gamma=0.7, **o),
    "ol_svm_regularized": lambda **o: recipes.ol_svm(C=0.5, gamma=0.7, regularized=True, **o),
    "norma_cached": lambda **o: recipes.norma_cached(C=0.5, gamma=0.7, **o),
    "norma_printed": lambda **o: recipes.norma_cached(C=0.5, gamma=0.7, printed=True, **o),
    "pegaz": lambda **o: recipes.pegaz(C=0.5, gamma=0.7, **o),
    "kernel_perceptron": lambda **o: recipes.kernel_perceptron(gamma=0.7, **o),
    "voted_perceptron": lambda **o: recipes.voted_perceptron(gamma=0.7, **o),
    "averaged_perceptron": lambda **o: recipes.voted_perceptron(gamma=0.7, average=True, **o),
    "kernel_adatron": lambda **o: recipes.kernel_adatron(gamma=0.7, **o),
    "adatron_largest": lambda **o: recipes.kernel_adatron(gamma=0.7, selection="largest", **o),
    "adatron_order": lambda **o: recipes.kernel_adatron(gamma=0.7, selection="order", **o),
    "ballseptron": lambda **o: recipes.ballseptron(0.05, gamma=0.7, **o),
    "alma": lambda **o: recipes.alma(kernel="rbf", gamma=0.7, **o),
    "lasvm": lambda **o: recipes.lasvm(gamma=0.7, **o),
}


@pytest.fixture(scope="module")
def data():
    X, y = make_two_normals(600, random_state=0)
    return X[:400], y[:400], X[400:], y[400:]


@pytest.mark.parametrize("name", MAKERS)
def test_learns_two_normals(name, data):
    X, y, X_test, y_test = data
    model = MAKERS[name]().fit(X, y)
    assert model.score(X_test, y_test) > (0.8 if name == "ballseptron" else 0.85)
    assert model.support_vectors_.shape == (model.n_support_.sum(), 2)
    assert model.dual_coef_.shape == (1, model.n_support_.sum())
    assert np.allclose(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("name", MAKERS)
def test_sparse_rows_equal_dense_ones(name, data):
    X, y, X_test, _ = data
    dense = MAKERS[name](dtype="float64").fit(X, y)
    sparse = MAKERS[name](dtype="float64").fit(sp.csr_matrix(X), y)
    # solvers that stop at a tolerance may stop at another point of it
    atol = 5e-3 if "tol" in dense.solver.takes else 1e-6
    assert np.allclose(
        dense.decision_function(X_test), sparse.decision_function(sp.csr_array(X_test)), atol=atol
    )


@pytest.mark.parametrize("name", MAKERS)
def test_three_classes_share_columns(name):
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [4, 0], [0, 4]])
    y = rng.integers(0, 3, 300)
    X = centres[y] + rng.normal(size=(300, 2))
    labels = np.array(["a", "b", "c"])[y]
    model = MAKERS[name]().fit(X, labels)
    assert model.score(X, labels) > 0.85
    assert model.decision_function(X).shape == (300, 3)
    assert model.dual_coef_.shape[0] == 3


def test_three_classes_are_three_machines():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = rng.normal(size=(200, 2)) + y[:, None]
    for maker in (
        lambda: recipes.ol_svm(gamma=0.5, dtype="float64"),
        lambda: recipes.lasvm(gamma=0.5, dtype="float64"),
        lambda: recipes.kernel_adatron(gamma=0.5, dtype="float64", tol=1e-8),
    ):
        scores = maker().fit(X, y).decision_function(X)
        for k in range(3):
            one = maker().fit(X, y == k)
            assert np.allclose(scores[:, k], one.decision_function(X), atol=1e-6)


def test_columns_are_shared_between_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    X = rng.normal(size=(400, 10)) + y[:, None]
    model = recipes.ol_svm(C=0.1, gamma=0.05).fit(X, y)
    assert model.column_stats_["computed"] <= 200  # half of each at most, for all four classes
    for maker in (recipes.kernel_adatron, recipes.lasvm):
        stats = maker(C=1.0, gamma=0.05).fit(X, y).column_stats_
        assert stats["computed"] <= 400
        assert stats["hits"] > 0


def test_voted_perceptron_votes(data):
    X, y, X_test, _ = data
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    for bias in (False, True):
        model = recipes.voted_perceptron(
            gamma=0.7, max_iter=2, fit_intercept=bias, dtype="float64"
        ).fit(X, y)
        kernel = osvm.kernels.get("rbf", gamma=0.7)
        votes = ref.voted_perceptron(
            kernel(X), signs, [np.arange(400)] * model.n_iter_[0], kernel(X_test, X), bias
        )
        assert np.allclose(model.decision_function(X_test), votes / model.t_)


@pytest.mark.parametrize("name", MAKERS)
def test_files_and_pickle(name, data, tmp_path):
    X, y, X_test, _ = data
    model = MAKERS[name]().fit(X, y)
    scores = model.decision_function(X_test)
    model.save(tmp_path / "model.osvm")
    loaded = osvm.load(tmp_path / "model.osvm")
    assert (loaded.decision_function(X_test) == scores).all()
    assert loaded.get_params()["solver"] == model.get_params()["solver"]
    assert (pickle.loads(pickle.dumps(model)).decision_function(X_test) == scores).all()
    refit = loaded.fit(X, y)
    assert (refit.decision_function(X_test) == scores).all()


def test_names_give_the_default_solver(data):
    X, y, *_ = data
    for name in solvers.names():
        model = osvm.SVC(solver=name, gamma=0.7).fit(X, y)
        assert model.score(X, y) > 0.8
        assert solvers.from_config(solvers.get(name).config()) == solvers.get(name)


def test_same_seed_same_model(data):
    X, y, *_ = data
    for name in ("ol_svm", "adatron", "lasvm"):
        a, b = (
            osvm.SVC(solver=name, gamma=0.7, random_state=seed, max_iter=9).fit(X, y)
            for seed in (3, 3)
        )
        assert (a.dual_coef_ == b.dual_coef_).all()
        assert (a.support_ == b.support_).all()


@pytest.mark.parametrize("name", ["ol_svm", "norma_printed", "voted_perceptron", "alma"])
def test_a_single_epoch_with_and_without_outputs(name, data):
    X, y, X_test, _ = data
    for shuffle in (False, True):
        options = {"dtype": "float64", "shuffle": shuffle, "random_state": 0}
        quick = MAKERS[name](**options).fit(X, y)
        kept = MAKERS[name](**options, keep_outputs=True).fit(X, y)
        assert np.allclose(quick.decision_function(X_test), kept.decision_function(X_test))
        assert quick.column_stats_["computed"] < kept.column_stats_["computed"]
        assert kept.outputs_.shape == (1, 400)
        with pytest.raises(AttributeError, match="keep_outputs"):
            _ = quick.outputs_


def test_history(data):
    X, y, *_ = data
    model = recipes.ol_svm(C=0.5, gamma=0.7, max_iter=2, record=True).fit(X, y)
    history = model.history_
    t = np.arange(1, model.t_ + 1)
    assert np.allclose(history["eta"], 0.5 * np.sqrt(2 / t))
    assert history["support"][-1] == model.n_support_.sum()
    assert history["loss"][0] == 1.0
    assert history["error"].shape == t.shape


def test_early_stop_when_nothing_changes():
    X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]
    model = recipes.kernel_perceptron(gamma=1.0, max_iter=50).fit(X, y)
    assert model.n_iter_[0] < 10
    model = recipes.ol_svm(C=1.0, gamma=1.0, max_iter=1000).fit(X, y)
    assert model.n_iter_[0] < 1000


def test_weights_equal_to_a_larger_C(data):
    X, y, X_test, _ = data
    heavy = recipes.kernel_adatron(C=1.0, gamma=0.7, tol=1e-6, dtype="float64").fit(
        X, y, sample_weight=np.full(400, 2.0)
    )
    plain = recipes.kernel_adatron(C=2.0, gamma=0.7, tol=1e-6, dtype="float64").fit(X, y)
    assert np.allclose(heavy.decision_function(X_test), plain.decision_function(X_test), atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "ol_svm", "tol": 0.1}, "to no tolerance"),
        ({"solver": "ol_svm", "C": -1}, "C must be"),
        ({"solver": "perceptron", "C": 2.0}, "has no C"),
        ({"solver": "nonsense"}, "solver"),
        ({"decision_function_shape": "ovo", "multi_class": "ovr"}, "decision_function_shape"),
        ({"max_iter": 0}, "max_iter"),
        ({"cache_size": -1}, "cache_size"),
        ({"probability": "yes"}, "probability"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message, data):
    X, y, *_ = data
    model = osvm.SVC(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_solvers_check_their_parameters():
    for make, message in (
        (lambda: solvers.Adatron(average=True), "selection='order'"),
        (lambda: solvers.Adatron(eta=0.1), "selection='order'"),
        (lambda: solvers.VotedPerceptron(average=True), "vote"),
        (lambda: solvers.OlSvm(shuffle="yes"), "shuffle"),
        (lambda: solvers.LaSvm(finish="never"), "finish"),
        (lambda: solvers.get("ballseptron", fit_intercept=True), "no parameter 'fit_intercept'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("name", ["kernel_adatron", "adatron_largest", "adatron_order"])
def test_what_stops_short_of_its_tolerance_warns(name, data):
    X, y, *_ = data
    with pytest.warns(osvm.ConvergenceWarning, match="max_iter=1"):
        model = MAKERS[name](tol=1e-9, max_iter=1).fit(X, y)
    assert model.fit_status_ == 1
    assert MAKERS[name]().fit(X, y).fit_status_ == 0


def test_precomputed(data):
    X, y, X_test, _ = data
    kernel = osvm.kernels.get("rbf", gamma=0.7)
    for name in ("ol_svm", "adatron", "lasvm"):
        maker = {"ol_svm": recipes.ol_svm, "lasvm": recipes.lasvm}.get(
            name, recipes.kernel_adatron
        )
        plain = maker(gamma=0.7, dtype="float64").fit(X, y)
        given = maker(kernel="precomputed", dtype="float64").fit(kernel(X), y)
        assert np.allclose(
            plain.decision_function(X_test), given.decision_function(kernel(X_test, X)), atol=1e-6
        )


# ------------------------------------------------------------------- grid search


def test_grid_scores_are_those_of_single_fits():
    X, y = make_chessboard(300, random_state=0)
    rng = np.random.default_rng(1)
    fold = rng.integers(0, 3, 300)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    for solver, options in (
        (solvers.OlSvm(dtype="float64", shuffle=False), {"max_iter": 2}),
        (
            solvers.OlSvm(dtype="float64", shuffle=False, average=True, fit_intercept=True),
            {"max_iter": 2},
        ),
        (solvers.Pegaz(dtype="float64", shuffle=False), {"max_iter": 1}),
        (solvers.Adatron(dtype="float64"), {"tol": 1e-6}),
        (solvers.Adatron(selection="largest", dtype="float64"), {"tol": 1e-6}),
    ):
        found = cached_grid_search(
            X, y, C=[0.5, 20.0], gamma=[0.5, 5.0], cv=pairs, solver=solver, refit=False,
            **options,
        )  # fmt: skip
        for g, gamma in enumerate([0.5, 5.0]):
            for c, C in enumerate([0.5, 20.0]):
                for k, (train, test) in enumerate(pairs):
                    model = osvm.SVC(solver=solver, C=C, gamma=gamma, **options)
                    model.fit(X[train], y[train])
                    assert found.scores[g, c, k] == pytest.approx(model.score(X[test], y[test]))


def test_grid_refits_the_best(capsys):
    X, y = make_chessboard(400, random_state=0)
    found = cached_grid_search(
        X, y, C=[1.0, 100.0], gamma=[0.01, 3.0], cv=3, solver="adatron",
        random_state=0, verbose=True,
    )  # fmt: skip
    assert found.best_params_ == {"C": 100.0, "gamma": 3.0}
    assert found.predict(X).shape == (400,)
    assert found.best_estimator_.score(X, y) > 0.9
    assert "kernel 2/2" in capsys.readouterr().err
    results = found.cv_results_
    assert results["mean_test_score"].max() == found.best_score_
    assert results["rank_test_score"].min() == 1


def test_grid_three_classes_and_sparse():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    X = sp.csr_matrix(np.maximum(0, rng.normal(size=(240, 5)) + 2 * np.eye(3, 5)[y]))
    found = cached_grid_search(X, y, C=[1.0], gamma=[0.1], cv=4, random_state=0)
    assert found.best_score_ > 0.7
    assert found.best_estimator_.classes_.tolist() == [0, 1, 2]


def test_grid_refusals():
    X, y = make_chessboard(100, random_state=0)
    with pytest.raises(ValueError, match="no C"):
        cached_grid_search(X, y, solver="perceptron")
    with pytest.raises(ValueError, match="no gamma"):
        cached_grid_search(X, y, kernel="linear")
    with pytest.raises(ValueError, match="among its training rows"):
        cached_grid_search(X, y, cv=[(range(60), range(50, 100))])


def test_scikit_learn_grid_works_too():
    search = pytest.importorskip("sklearn.model_selection")
    X, y = make_chessboard(200, random_state=0)
    grid = search.GridSearchCV(recipes.ol_svm(), {"C": [1.0, 10.0], "gamma": [0.1, 3.0]}, cv=3)
    assert grid.fit(X, y).best_params_["gamma"] == 3.0


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_scikit_learn_grid_over_solvers_and_classes(n_jobs):
    search = pytest.importorskip("sklearn.model_selection")
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 240)]
    X = rng.normal(size=(240, 2)) + 3 * np.stack([y == "a", y == "b"], axis=1)
    grid = search.GridSearchCV(
        osvm.SVC(random_state=0, gamma=0.5),
        {
            "solver": ["ol_svm", "adatron", solvers.OlSvm(regularized=True)],
            "C": [0.1, 10.0],
        },
        cv=3,
        n_jobs=n_jobs,
    )
    grid.fit(X, y)
    assert len(grid.cv_results_["mean_test_score"]) == 6
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    assert grid.best_estimator_.score(X, y) > 0.85
    assert (grid.predict(X) == grid.best_estimator_.predict(X)).all()


def test_grid_stops_when_an_epoch_changes_nothing():
    X = np.array([[0.0], [0.2], [5.0], [5.2]] * 5)
    y = np.array([0, 0, 1, 1] * 5)
    shared = {"C": [1.0, 3.0], "gamma": [1.0], "cv": 2, "random_state": 0, "refit": False}
    begin = time.perf_counter()
    found = cached_grid_search(X, y, max_iter=20_000, **shared)
    assert time.perf_counter() - begin < 5  # all epochs would take minutes
    assert found.best_score_ == 1.0


# ---------------------------------------------------------------------- linear ALMA


@pytest.mark.parametrize("p", [2.0, 3.0, 6.5])
@pytest.mark.parametrize("slack", [0.3, 0.9, 1.0])
def test_linear_alma(p, slack):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8)) * (rng.random((200, 8)) < 0.5)
    y = np.where(X @ [2, -1, 0, 0, 0, 1, 0, 0] > 0.1, 1, -1)
    w = ref.alma_linear(X, y, [np.arange(200)] * 2, p, slack)
    for rows in (X, sp.csr_matrix(X)):
        model = AlmaClassifier(p, slack=slack, epochs=2).fit(rows, y)
        assert np.abs(model.coef_[0] - w).max() < 1e-10
        streamed = AlmaClassifier(p, slack=slack)
        for part in (slice(0, 70), slice(70, 200), slice(0, 200)):
            streamed.partial_fit(rows[part], y[part], classes=[-1, 1])
        assert np.abs(streamed.coef_[0] - w).max() < 1e-10
    assert model.score(X, y) > 0.8


def test_linear_alma_files(tmp_path):
    X, y, *_ = problem(60)
    model = recipes.alma(p=4, epochs=3).fit(X, y)
    model.save(tmp_path / "a.osvm")
    loaded = osvm.load(tmp_path / "a.osvm")
    assert (loaded.coef_ == model.coef_).all()
    again = pickle.loads(pickle.dumps(model))
    for other in (loaded, again):
        other.partial_fit(X, y)
    model.partial_fit(X, y)
    assert (loaded.coef_ == model.coef_).all()
    assert (again.coef_ == model.coef_).all()


def test_linear_alma_repeated_columns():
    X = sp.csr_matrix(([1.0, 1.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    model = AlmaClassifier(3.0).fit(X, [0, 1])
    plain = AlmaClassifier(3.0).fit(X.toarray(), [0, 1])
    assert np.allclose(model.coef_, plain.coef_)


def test_scikit_learn_checks():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    # a weight is not a repetition for learners that take rows in turn, and equal to one only
    # within tol for the others
    known = {
        "check_sample_weight_equivalence_on_dense_data": "see above",
        "check_sample_weight_equivalence_on_sparse_data": "see above",
    }
    for model in (recipes.ol_svm(), recipes.lasvm(), AlmaClassifier()):
        weighted = known if model.__class__ is osvm.SVC else {}
        checks.check_estimator(model, on_fail="raise", expected_failed_checks=weighted)


@pytest.mark.data
@pytest.mark.slow
def test_mnist_within_two_gibibytes():
    """One digit against the rest, 60,000 rows, in a process of its own."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    folder = Path(
        os.environ.get("OSVM_DATA", Path(__file__).parents[3] / "shared" / "data")
    ).resolve()
    if not (folder / "mnist.npz").exists():
        pytest.skip("no MNIST")
    program = (
        "import resource, sys, numpy as np\n"
        "from osvm import recipes\n"
        "data = np.load(sys.argv[1])\n"
        "X, X_test = (np.float32(data[k]) / 255 for k in ('X_train', 'X_test'))\n"
        "model = recipes.ol_svm(10, gamma=0.02).fit(X, data['y_train'] == 8)\n"
        "print(model.score(X_test, data['y_test'] == 8))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, folder / "mnist.npz"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads of a busy machine only wait
        capture_output=True,
        text=True,
        check=True,
    )
    score, gibibytes = map(float, done.stdout.split())
    assert score > 0.98
    assert gibibytes < 2
