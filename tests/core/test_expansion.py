"""The public kernel expansions, orders and dual steps against a few lines of numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm import kernels
from osvm.linear.examples import full, windowed

RULES = {"oldest": 0, "coefficient": 1, "term": 2, "change": 3}
F64, SPARSE = 1, 2


def victim(rule, K, alpha):
    """Slot that leaves, of slots by age."""
    if rule == "oldest":
        return 0
    size = np.sum(alpha**2, axis=1)
    if rule == "term":
        size = size * np.diagonal(K)
    if rule == "change":
        size = size * np.sum(K**2, axis=1)
    return int(np.argmin(size))


def follow(k, X, alphas, factors, budget, rule):
    """Scores before each step, kept rows, coefficients, norms: one example after the other."""
    ids, coef = [], np.empty((0, alphas.shape[1]))
    scores, norms = [], []
    K = k(X)
    for i, (alpha, factor) in enumerate(zip(alphas, factors, strict=True)):
        scores.append(K[i, ids] @ coef)
        coef = coef * factor
        if np.any(alpha):
            if len(ids) == budget:
                s = victim(rule, K[np.ix_(ids, ids)], coef)
                ids, coef = ids[:s] + ids[s + 1 :], np.delete(coef, s, axis=0)
            ids, coef = [*ids, i], np.vstack([coef, alpha])
        norms.append(np.sum(coef * (K[np.ix_(ids, ids)] @ coef)))
    return np.array(scores), np.array(ids), coef, np.array(norms)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_expansion_follows_the_naive_buffer(inline_client, rule, sparse, outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6)) * (rng.random((90, 6)) < 0.6)
    alphas = rng.normal(size=(90, outputs)) * (rng.random((90, 1)) < 0.7)
    factors = rng.uniform(0.8, 1.0, 90)
    kernel = kernels.Polynomial(gamma=0.3, degree=2, coef0=1.0)
    expected = follow(kernel, X, alphas, factors, 12, rule)
    matrix = sp.csr_matrix(X) if sparse else X
    flags = F64 | (SPARSE if sparse else 0)
    for block in (1, 7, 90):
        scores, ids, coef, norms, outside = inline_client.expand(
            kernel.spec(), matrix, alphas, factors, 12, RULES[rule], flags, block, matrix[:5]
        )
        np.testing.assert_allclose(scores, expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(ids, expected[1])
        np.testing.assert_allclose(coef, expected[2], rtol=1e-10)
        np.testing.assert_allclose(norms, expected[3], rtol=1e-8)
        np.testing.assert_allclose(outside, kernel(X[:5], X[ids]) @ coef, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("sparse", [False, True])
def test_fixed_set_follows_all_outputs(inline_client, outputs, sparse):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    order = rng.permutation(300).astype(np.intp)
    deltas = rng.normal(size=(outputs, 300)) * (rng.random(300) < 0.4)
    kernel = kernels.RBF(gamma=0.5)
    K = kernel(X)
    alpha = np.zeros((outputs, 300))
    seen = np.empty((outputs, 300))
    for first in range(0, 300, 64):
        for k in range(first, min(first + 64, 300)):
            seen[:, k] = alpha @ K[:, order[k]]
            alpha[:, order[k]] += deltas[:, k]
        alpha *= 0.9
    got = inline_client.fixed_run(
        kernel.spec(), sp.csr_matrix(X) if sparse else X, order, deltas, 0.9, True
    )
    for mine, theirs in zip(got, (seen, alpha, alpha @ K), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("squared", [False, True])
def test_dual_step_maximizes_the_dual_in_one_variable(inline_client, squared):
    rng = np.random.default_rng(2)
    for _ in range(50):
        m, alpha, sq, U = rng.normal(), rng.random(), rng.random() + 0.1, 1.0 + rng.random()

        def value(a, m=m, alpha=alpha, sq=sq, U=U):
            quad = (a**2 - alpha**2) / (4 * U) if squared else 0.0
            return (a - alpha) * m - 0.5 * sq * (a - alpha) ** 2 - quad

        gradient, projected, new, gap = inline_client.dual_numbers(m, alpha, sq, U, squared)
        slope = (value(alpha + 1e-6) - value(alpha - 1e-6)) / 2e-6
        assert gradient == pytest.approx(-slope, abs=1e-6)
        assert projected == gradient
        assert 0.0 <= new <= (np.inf if squared else U)
        others = rng.uniform(0.0, 3.0 if squared else U, 100)
        assert value(new) >= max(map(value, others)) - 1e-12
        loss = max(m, 0.0) ** 2 if squared else max(m, 0.0)
        quad = alpha**2 / (4 * U) if squared else 0.0
        assert gap == pytest.approx(U * loss - alpha * m + quad)
        assert gap >= -1e-12


def test_orders_are_those_of_the_library(inline_client):
    for n in (1, 17, 3000):
        both = inline_client.orders(n, 7)
        np.testing.assert_array_equal(both[0], full(n, 7))
        np.testing.assert_array_equal(both[1], windowed(n, 7))


@pytest.mark.parametrize("integer", [np.intc, np.int_, np.longlong, np.intp])
def test_any_integers_of_a_csr_matrix(inline_client, integer):
    X = sp.random(20, 9, density=0.4, format="csr", random_state=0)
    w = np.arange(9.0)
    got = inline_client.csr_products(
        X.data, X.indices.astype(integer), X.indptr.astype(integer), w
    )
    np.testing.assert_allclose(got, X @ w, rtol=1e-12)
