"""Few rows: numbers by ridge regression, judged by rows left out; a rare class."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import osvm
from osvm.linear.few_rows import _SHRINKAGES, gradient_steps, left_out_ridge
from osvm.linear.narrow_rows import NarrowRows
from osvm.linear.newton import newton
from osvm.linear.strength import left_out_margins


def naive_ridge(X, y, weight, offset):
    """Every shrinkage, every row left out in turn; columns are standardized once, by all rows."""
    weight = weight / weight.sum()
    center = weight @ X if offset else np.zeros(X.shape[1])
    size = np.sqrt(weight @ (X - center) ** 2)
    Z = (X - center) / size

    def solve(rows, shrinkage):
        A = np.hstack([Z[rows], np.ones((len(rows), 1))]) if offset else Z[rows]
        D = np.diag(weight[rows])
        penalty = shrinkage * np.eye(A.shape[1])
        if offset:
            penalty[-1, -1] = 0.0
        u = np.linalg.solve(A.T @ D @ A + penalty, A.T @ D @ y[rows])
        return (u[:-1], u[-1]) if offset else (u, 0.0)

    n = len(y)
    best, chosen = np.inf, None
    for shrinkage in [1e12, *_SHRINKAGES * X.shape[1] / n]:  # the first is a constant
        error = 0.0
        for i in range(n):
            w, b = solve(np.delete(np.arange(n), i), shrinkage)
            error += weight[i] * (y[i] - Z[i] @ w - b) ** 2
        if error < best * (1 - 1e-9):
            best, chosen = error, shrinkage
    w, b = solve(np.arange(n), chosen)
    return w / size, b - center @ (w / size)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d"), [(12, 5), (9, 14)])
def test_rows_left_out_choose_the_shrinkage(n, d, weighted, offset):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 100.0, d) + 3.0 * offset
    y = X @ (rng.normal(size=d) / np.geomspace(0.1, 100.0, d)) + rng.normal(size=n)
    weight = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    w, b = left_out_ridge(X, y, weight, offset)
    naive_w, naive_b = naive_ridge(X, y, weight, offset)
    np.testing.assert_allclose(w, naive_w, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(b, naive_b, rtol=1e-6, atol=1e-8)


def test_columns_that_come_seldom_are_shrunk_within_the_standard_error():
    """By the definition, row after row; at n = d the least error was one of chance (R2 -.8)."""
    rng = np.random.default_rng(4)
    n, d = 14, 12
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3) * np.geomspace(0.1, 10.0, d)
    X[:, :6] /= 50.0
    y = X @ rng.normal(size=d) + 1.0 * rng.normal(size=n)
    size = X.std(axis=0)
    size = np.maximum(size, np.median(size[size > 0]))
    Z = X / size

    def solve(rows, shrinkage):
        center, mean = Z.mean(axis=0), y.mean()
        A = (Z[rows] - center).T @ (Z[rows] - center) / n + shrinkage * np.eye(d)
        w = np.linalg.solve(A, (Z[rows] - center).T @ (y[rows] - mean) / n)
        return w, mean - center @ w

    shrinkages = np.array([1e15, *_SHRINKAGES[::-1]]) * d / n
    errors = np.empty((len(shrinkages), n))
    for k, shrinkage in enumerate(shrinkages):
        w, b = solve(np.arange(n), shrinkage)
        centered = Z - Z.mean(axis=0)
        A = centered.T @ centered / n + shrinkage * np.eye(d)
        own = np.einsum("ij,jk,ik->i", centered, np.linalg.inv(A), centered) / n + 1 / n
        errors[k] = np.square((y - Z @ w - b) / (1 - own))
    more = errors - errors[errors.sum(axis=1).argmin()]
    chosen = int((more.sum(axis=1) <= np.sqrt(n) * more.std(axis=1)).argmax())
    assert chosen < errors.sum(axis=1).argmin()
    w, b = solve(np.arange(n), shrinkages[chosen])
    found_w, found_b = left_out_ridge(X, y, np.ones(n), True, seldom=True)
    np.testing.assert_allclose(found_w, w / size, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found_b, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_more_columns_than_rows(dtype, far):
    """Passes ended at R2 = -1 on noise and at -3.8 where few columns count."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 1000)) + far).astype(dtype)
    w = rng.normal(size=1000) * (rng.random(1000) < 0.05)
    y = X.astype(float) @ w
    y -= y.mean()
    model = osvm.LinearRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.1
    noise = osvm.LinearRegressor(random_state=0)
    noise.fit(X[:100], rng.normal(size=100))
    assert noise.score(X[100:], rng.normal(size=300)) > -0.2
    model.partial_fit(X[300:], y[300:])  # goes on from there
    assert model.t_ == 400
    assert model.score(X, y) > 0.1


@pytest.mark.parametrize("unit", [1e-90, 1e90])
def test_units_do_not_matter(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 10))
    y = X @ rng.normal(size=10)
    plain = osvm.LinearRegressor(random_state=0).fit(X, y)
    other = osvm.LinearRegressor(random_state=0).fit(X * unit, y)
    np.testing.assert_allclose(other.predict(X * unit), plain.predict(X), rtol=1e-6, atol=1e-6)


def test_more_rows_than_columns_and_nothing_to_learn():
    """The constant is the best answer: there are fewer directions than rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 16)).repeat(2, axis=0), np.arange(60) % 2 * 2.0 - 1.0
    w, b = left_out_ridge(X, y, np.ones(60), True)
    np.testing.assert_array_equal(w, np.zeros(16))
    assert b == pytest.approx(0.0, abs=1e-12)
    with pytest.warns(osvm.exceptions.ConvergenceWarning, match="no better"):
        osvm.LinearRegressor(random_state=0).fit(X, y)


@pytest.mark.parametrize("unit", [0.1, 1e-2, 1e-5, 1e-30, 1e30])
@pytest.mark.parametrize(
    ("make", "far"), [(np.asarray, 0.0), (np.asarray, 2.0), (sp.csr_matrix, 0.0)]
)
def test_units_of_few_rows_with_classes_do_not_matter(unit, far, make):
    """C = 1 learnt nothing of rows smaller than 0.03: the constant answer came, 29 % of 79 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 30)) + far
    y = (X @ rng.normal(size=(30, 4)) + rng.normal(size=(1400, 4))).argmax(axis=1)
    plain, other = (
        osvm.LinearClassifier(random_state=0)
        .fit(make(u * X[:400]), y[:400])
        .score(u * X[400:], y[400:])
        for u in (1.0, unit)
    )
    assert other > plain - 0.03


def test_few_rows_without_an_offset_are_solved():
    """It raised ZeroDivisionError."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X[:, 0] + 0.5 + rng.normal(size=200) > 0
    sign = np.where(y, 1.0, -1.0)
    model = osvm.LinearClassifier(fit_intercept=False, random_state=0).fit(X, y)

    def objective(w):
        return 0.5 * w @ w + np.square(np.maximum(0.0, 1.0 - sign * (X @ w))).sum()

    best = minimize(objective, np.zeros(5), tol=1e-10).x
    np.testing.assert_allclose(model.coef_[0], best, rtol=1e-3, atol=1e-4)
    assert model.intercept_[0] == 0.0


def test_epochs_ask_for_passes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60))
    y = X[:, 0]
    assert osvm.LinearRegressor(random_state=0).fit(X, y).n_iter_ == 1
    assert osvm.LinearRegressor(epochs=7, random_state=0).fit(X, y).n_iter_ == 7


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_of_several_sizes_reach_the_optimum(n_classes):
    """Coordinate ascent stopped far from it, and a fit was no better than a constant."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 6)) + rng.normal(size=6)
    X = 100.0 + Z * np.array([1.0, 3.0, 10.0, 20.0, 30.0, 40.0])
    scores = Z @ rng.normal(size=(6, n_classes)) + rng.normal(size=(300, n_classes))
    y = (scores - np.median(scores, axis=0)).argmax(axis=1)
    model = osvm.LinearClassifier(random_state=0).fit(X[:200], y[:200])
    exact = osvm.LinearSVC().fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) >= exact.score(X[200:], y[200:]) - 0.05


def test_rows_that_are_not_solved_are_learnt_by_passes(monkeypatch):
    from osvm.linear import strength

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) * np.geomspace(1.0, 90.0, 6)
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    monkeypatch.setattr(strength, "_MOST_EPOCHS", 1)
    monkeypatch.setattr(strength, "_TOL", 1e-15)
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert model.n_iter_ > 1
    assert model.score(X, y) > 0.65


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("flip", [1.0, -1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_rare_class_of_few_rows_counts_more(weighted, flip, sparse):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(300) < 0.07, flip, -flip)
    X = rng.normal(size=(300, 4)) + 1.2 * np.outer(y == flip, np.ones(4))
    weight = rng.choice([0.5, 1.0, 2.0], 300) if weighted else np.ones(300)
    rows = sp.csr_matrix(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # errs more than a constant, and is not like one
        model = osvm.LinearClassifier(random_state=0).fit(rows, y, sample_weight=weight)

    def optimum(c):
        def objective(u):
            loss = np.maximum(0.0, 1.0 - y * (X @ u[:-1] + u[-1]))
            grad = u - 2.0 * np.append((c * loss * y) @ X, c @ (loss * y))
            return 0.5 * u @ u + c @ loss**2, grad

        return minimize(objective, np.zeros(5), jac=True, tol=1e-12).x

    plain, rare = optimum(weight), y == flip
    missed = rare & ((X @ plain[:-1] + plain[-1] > 0) != (y > 0))
    assert 0 < missed.sum() < rare.sum()
    share = (weight[rare & ~missed].sum() + 1) / (weight[rare].sum() + 2)
    expected = optimum(np.where(rare, min(3.0, 2 / share - 1) * weight, weight))
    found = np.append(model.coef_, model.intercept_)
    assert np.linalg.norm(expected - plain) > 0.05 * np.linalg.norm(plain)
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)
    # a class that is found in full costs nothing
    X += 9.0 * np.outer(rare, np.ones(4))
    model = osvm.LinearClassifier(random_state=0).fit(X, y, sample_weight=weight)
    expected = optimum(weight)
    found = np.append(model.coef_, model.intercept_)
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)


@pytest.mark.parametrize("noise", [0.1, 0.5])
@pytest.mark.parametrize("n", [300, 1000])
def test_sparse_rows_as_many_as_columns(n, noise):
    """Passes stopped too soon without noise (R2 .74, Ridge .85), and more of them fit it."""
    rng = np.random.default_rng(n)
    X = sp.random(2 * n, n, 0.05, format="csr", random_state=n)
    y = X @ rng.normal(size=n)
    y = y / y.std() + noise * rng.normal(size=2 * n)
    gram = (X[:n].T @ X[:n]).toarray() + np.eye(n)  # Ridge of scikit-learn, but for the offset
    ridge = X[n:] @ np.linalg.solve(gram, X[:n].T @ (y[:n] - y[:n].mean())) + y[:n].mean()
    reference = 1.0 - np.square(ridge - y[n:]).mean() / y[n:].var()
    model = osvm.LinearRegressor(random_state=0).fit(X[:n], y[:n])
    assert model.score(X[n:], y[n:]) > reference - 0.02
    assert model.n_iter_ == 1  # solved
    if n <= 500:
        w, b = left_out_ridge(X[:n].toarray(), y[:n], np.ones(n), True, seldom=True)
        np.testing.assert_allclose(model.coef_, w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.intercept_, b, rtol=1e-9)
    else:
        assert osvm.LinearRegressor(epochs=7).fit(X[:n], y[:n]).n_iter_ == 7


@pytest.mark.parametrize("informative", [20_000, 200])
def test_columns_that_come_a_few_times_are_not_worse_than_a_constant(informative):
    """R2 was -.18 and -.44, of passes that fit the noise; Ridge of scikit-learn .08 and .14."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = sp.random(4000, 20_000, 0.005, format="csr", random_state=seed)
        X.data = np.random.default_rng(seed + 50).lognormal(size=X.nnz)
        w = np.where(np.arange(20_000) < informative, rng.normal(size=20_000), 0.0)
        y = X @ w
        y += 0.3 * y.std() * rng.normal(size=4000)
        model = osvm.LinearRegressor(random_state=seed).fit(X[:3000], y[:3000])
        assert model.score(X[3000:], y[3000:]) > 0.0


def sparse_numbers(kind, n, d, density, noise):
    """Rows, standardized by their columns' deviations alone, and targets; a third is for tests."""
    rng = np.random.default_rng(0)
    X = sp.random(3 * n // 2, d, density, format="csr", random_state=0)
    if kind == "binary":
        X.data[:] = 1.0
    Z = X @ sp.diags(1.0 / np.sqrt(X.power(2).mean(axis=0).A1 + 1e-300))
    if kind == "units":
        X = X @ sp.diags(10.0 ** rng.uniform(-3, 3, d))
    y = Z @ rng.normal(size=d)
    y = y / y.std() + noise * rng.normal(size=len(y))
    return X.tocsr(), Z, y + 5.0


@pytest.mark.parametrize(
    ("kind", "n", "d", "density", "noise"),
    [
        ("units", 10_000, 1500, 0.003, 0.3),  # one pass after another: R2 .39
        ("binary", 2500, 450, 0.02, 3.0),  # -.11
        ("binary", 3000, 40, 0.1, 1.0),
    ],
)
def test_sparse_rows_many_times_as_many_as_columns(kind, n, d, density, noise):
    X, Z, y = sparse_numbers(kind, n, d, density, noise)
    model = osvm.LinearRegressor(random_state=0).fit(X[:n], y[:n])
    center = Z[:n].mean(axis=0).A1
    A = Z[:n].toarray() - center
    w = np.linalg.solve(A.T @ A + np.eye(d), A.T @ (y[:n] - y[:n].mean()))
    r2 = 1.0 - np.square(Z[n:] @ w - center @ w + y[:n].mean() - y[n:]).mean() / y[n:].var()
    assert model.score(X[n:], y[n:]) > max(r2, 0.0) - 0.01
    assert model.n_iter_ == 1


@pytest.mark.parametrize("d", [80, 600])
def test_units_of_sparse_rows_do_not_matter(d):
    X = sp.random(600, d, 0.1, format="csr", random_state=0)
    y = X @ np.random.default_rng(0).normal(size=d)
    plain = osvm.LinearRegressor(random_state=0).fit(X, y)
    bound = {"rtol": 1e-6, "atol": 1e-6}
    for unit in (1e-90, 1e90):  # squares of 1e180 were not a number, and no one said so
        other = osvm.LinearRegressor(random_state=0).fit(X * unit, y)
        np.testing.assert_allclose(other.predict(X * unit), plain.predict(X), **bound)
    for unit in (1e-20, 1e20):
        other = osvm.LinearRegressor(random_state=0).fit(X, y * unit)
        np.testing.assert_allclose(other.predict(X) / unit, plain.predict(X), **bound)


@pytest.mark.parametrize("offset", [True, False])
def test_conjugate_gradients_end_at_least_squares(offset):
    rng = np.random.default_rng(0)
    X, weight = sp.random(40, 6, 0.5, format="csr", random_state=0), rng.uniform(0.5, 2.0, 40)
    y = rng.normal(size=40) + 3.0
    *_, (w, b) = gradient_steps(X, y, weight, offset)
    A = np.hstack([X.toarray(), np.full((40, 1), float(offset))])
    root = np.sqrt(weight)
    expected = np.linalg.lstsq(root[:, None] * A, root * y)[0]
    np.testing.assert_allclose(np.append(w, b), expected, rtol=1e-6, atol=1e-8)


def test_numbers_without_a_signal_get_the_constant():
    """Passes had R2 -1.07 where nothing is to be learnt, Ridge -.68."""
    rng = np.random.default_rng(3)
    X = sp.random(2000, 3000, 0.01, format="csr", random_state=3)
    y = rng.normal(size=2000) + 5.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = osvm.LinearRegressor(random_state=0).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > -0.1


def test_texts_of_some_thousand_rows_are_solved():
    """Passes without a regularizer lost 2 to 3 points to LinearSVC, in twice the time."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = sp.random(3000, 8000, 0.004, format="csr", random_state=seed)
        X = sp.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1 + 1e-12)) @ X
        score = X @ rng.normal(size=8000)
        y = score + 0.5 * score.std() * rng.normal(size=3000) > 0.0
        A, B = X.tocsr()[:2000], X.tocsr()[2000:]
        model = osvm.LinearClassifier(random_state=seed).fit(A, y[:2000])
        other = osvm.LinearSVC(random_state=seed).fit(A, y[:2000])
        assert model.n_iter_ == 1
        assert model.score(B, y[2000:]) > other.score(B, y[2000:]) - 0.005
        again = osvm.LinearClassifier(random_state=seed).fit(3.0 * A, y[:2000])
        assert again.n_iter_ > 1  # C = 1 suits rows of norm 1


def texts(n, flipped, K=2, d=400, length=30, seed=0):
    """Rows of norm 1 of a topic each; a share of the labels is drawn anew."""
    rng = np.random.default_rng(seed)
    words = rng.zipf(1.3, size=(n, length)) % d
    y = rng.integers(0, K, n)
    topic = rng.random((n, length)) < 0.3
    words[topic] = (y[:, None] * (d // K) + rng.integers(0, d // K, (n, length)))[topic]
    X = sp.csr_matrix((np.ones(n * length), words.ravel(), np.arange(0, n * length + 1, length)))
    X.resize(n, d)
    X.sum_duplicates()
    X = sp.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1)).A1) @ X
    return X.tocsr(), np.where(rng.random(n) < flipped, rng.integers(0, K, n), y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("flipped", [0.0, 0.3])
def test_noisy_labels_of_texts_are_learnt_with_a_smaller_strength(flipped, K, dtype):
    """C = 1 fits the noise: 5 points less on seeds like this one."""
    X, y = texts(1500, flipped, K)
    T, t = texts(2000, 0.0, K, seed=1)
    model = osvm.LinearClassifier(random_state=0).fit(X.astype(dtype), y)
    exact = [
        osvm.LinearSVC(C=C, intercept_scaling=1.0, tol=1e-5).fit(X, y).coef_
        for C in ((0.3, 0.1) if flipped else (1.0,))
    ]
    assert model.coef_.shape == exact[0].shape
    assert min(np.abs(model.coef_ - coef).max() for coef in exact) < 0.03
    plain = osvm.LinearSVC(C=1.0, intercept_scaling=1.0).fit(X, y)
    assert model.score(T, t) >= plain.score(T, t) + (0.02 if flipped else -1e-3)


def test_a_weight_of_two_counts_twice_among_rows_left_out():
    """Clean rows of weight 0 do not hide that the others are noisy."""
    X, y = texts(1500, 0.3)
    clean, sure = texts(1500, 0.0, seed=2)
    weight = np.repeat([1.0, 0.0], 1500)
    both = sp.vstack([X, clean]).tocsr()
    model = osvm.LinearClassifier(random_state=0).fit(both, np.append(y, sure), weight)
    C1 = osvm.LinearSVC(C=1.0, intercept_scaling=1.0).fit(X, y)
    assert np.linalg.norm(model.coef_) < 0.7 * np.linalg.norm(C1.coef_)


def test_columns_that_no_row_stores_have_no_weight():
    X, y = texts(600, 0.1)
    wide = sp.csr_matrix((X.data, 3 * X.indices + 5, X.indptr), (600, 10**6))
    model, same = (osvm.LinearClassifier(random_state=0).fit(Z, y) for Z in (wide, X))
    np.testing.assert_allclose(model.coef_[:, 5 : 5 + 3 * 400 : 3], same.coef_, atol=1e-5)
    assert np.count_nonzero(model.coef_) <= 400


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("offset", [True, False])
def test_margins_of_rows_left_out_are_those_of_fits_without_them(free, offset):
    rng = np.random.default_rng(1)
    n, penalty = 30, 0.0 if free else 1.0
    X = rng.normal(size=(n, 4)) + 2.0
    y = np.where(X @ rng.normal(size=4) + rng.normal(size=n) > 0, 1.0, -1.0)
    U = 0.003 * rng.uniform(0.5, 2.0, n)  # so little that all rows stay within the margin
    options = {"penalty": penalty, "tol": 1e-12, "max_steps": 50}

    def solve(rows):
        A = NarrowRows(X[rows], y[rows], offset, centered=offset and free)
        return A, newton(A, U[rows], np.zeros(4 + offset), **options)[1]

    A, u = solve(np.arange(n))
    assert (A.times(u) < 1.0).all()
    expected = []
    for i in range(n):
        others, found = solve(np.delete(np.arange(n), i))
        w, b = others.solution(found)
        expected.append(y[i] * (X[i] @ w + b))
    np.testing.assert_allclose(left_out_margins(A, u, U, penalty), expected, rtol=1e-9)
    no_row = left_out_margins(A, np.append(np.zeros(4), [0.0] * offset), 0.0 * U, penalty)
    assert (no_row == 0.0).all()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_noisy_dense_rows_are_learnt_with_a_smaller_strength(K, dtype):
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2120, 30)).astype(dtype)
        scores = X @ rng.normal(size=(30, K)) + 15.0 * rng.normal(size=(2120, K))
        y = (scores + np.linspace(25.0, 0.0, K)).argmax(axis=1)
        model = osvm.LinearClassifier(random_state=0).fit(X[:120], y[:120])
        usual = osvm.LinearSVC(random_state=0, intercept_scaling=1.0).fit(X[:120], y[:120])
        gains.append(model.score(X[120:], y[120:]) - usual.score(X[120:], y[120:]))
    assert np.mean(gains) > 0.05
    assert min(gains) > -0.03
    # where few rows err they stay as they are
    y = (X[:120] @ rng.normal(size=(30, K))).argmax(axis=1)
    easy = np.eye(K, 30)[y] * 5.0 + X[:120]
    model, usual = (
        one.fit(easy, y)
        for one in (
            osvm.LinearClassifier(random_state=0),
            osvm.LinearSVC(random_state=0, intercept_scaling=1.0),
        )
    )
    assert np.abs(model.coef_ - usual.coef_).max() < 0.02 * np.abs(usual.coef_).max()


@pytest.mark.parametrize("changed", [{"fit_intercept": False}, {"class_weight": "balanced"}])
def test_few_noisy_dense_rows_in_other_forms(changed):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 40))
    y = rng.random(80) < 0.3
    model = osvm.LinearClassifier(random_state=0, **changed).fit(X, y)
    usual = osvm.LinearClassifier(random_state=0, C=1.0, loss="squared_hinge").fit(X, y)
    assert np.linalg.norm(model.coef_) < 0.7 * np.linalg.norm(usual.coef_)
    assert (model.intercept_ == 0.0).all() == ("fit_intercept" in changed)
