"""The compiled kernel machine against the naive reference."""

import itertools

import numpy as np
import pytest
import reference_kernel as ref
import scipy.sparse as sp

from osvm import kernels, losses, schedules
from osvm._input.rows import RowSource
from osvm.kernel.buffer.loop import learn
from osvm.kernel.buffer.state import KernelState, merge_tables

D, K, N = 5, 4, 120
TREE = np.array([[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1.5], [2, 2, 1.5, 0]], dtype=float)
ROOT = np.linalg.cholesky(np.array([[3, 2, 1, 1], [2, 3, 1, 1], [1, 1, 3, 1.5], [1, 1, 1.5, 4.0]]))
KAPPA = ROOT @ ROOT.T

# name, our loss, the reference's, outputs, task
LOSSES = [
    ("hinge", losses.get("hinge"), ref.hinge, 1, "classify"),
    ("logistic", losses.get("logistic"), ref.logistic, 1, "classify"),
    ("novelty", losses.get("novelty"), ref.novelty, 1, "novelty"),
    ("squared", losses.get("squared"), ref.squared, 1, "regress"),
    (
        "epsilon_insensitive",
        losses.get("epsilon_insensitive", epsilon=0.1),
        ref.epsilon_insensitive(0.1),
        1,
        "regress",
    ),
    ("huber", losses.get("huber", delta=0.5), ref.huber(0.5), 1, "regress"),
    ("multiclass_hinge", losses.get("multiclass_hinge"), ref.multiclass_hinge, K, "classify"),
    ("graph_hinge", losses.get("graph_hinge"), ref.graph_hinge(TREE), K, "classify"),
    ("softmax", losses.get("softmax"), ref.softmax, K, "classify"),
    ("one_vs_rest", losses.get("hinge"), ref.one_vs_rest(ref.hinge), K, "classify"),
    (
        "one_vs_rest_logistic",
        losses.get("logistic"),
        ref.one_vs_rest(ref.logistic),
        K,
        "classify",
    ),
]
WITH_MARGIN = {"hinge", "novelty", "multiclass_hinge", "graph_hinge", "one_vs_rest"}
IDS = [case[0] for case in LOSSES]


def make_data(outputs, task, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    if task == "regress":
        return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    if outputs == 1:
        return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(np.int32)
    centres = rng.normal(size=(outputs, D))
    return X, np.argmax(X @ centres.T + 0.3 * rng.normal(size=(n, outputs)), 1).astype(np.int32)


def make_machine(kernel, outputs, smd=True, sparse=False, float64=True, **options):
    return KernelState(
        kernel.spec(D), D, outputs, float64=float64, sparse=sparse, trace=smd, **options
    )


def spec_of(loss):
    return loss.spec(TREE) if isinstance(loss, losses.GraphHinge) else loss.spec()


def source(X, sparse=False, dtype=np.float64):
    X = X.astype(dtype)
    if sparse:
        X = sp.csr_matrix(X)
        return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    return RowSource.dense(X)


def run(machine, X, y, loss, step, task, reg, block, sparse=False, dtype=np.float64, **options):
    n = len(X)
    history = {name: np.zeros(n) for name in ("eta", "loss", "error", "epsilon", "prediction")}
    history["support"] = np.zeros(n, dtype=np.intp)
    kind = {"labels": y} if task == "classify" else {"targets": y.astype(float)}
    kind = {} if task == "novelty" else kind
    learn(
        machine, source(X, sparse, dtype), loss, step, task=task, reg=reg, block=block,
        history=history, **kind, **options,
    )  # fmt: skip
    return history


def start(machine, eta0, eta_b=0.1, epsilon0=1.0, eta_eps=1.0):
    machine.eta = eta0
    machine.eta_intercept[:] = eta_b
    machine.epsilon, machine.eta_epsilon = epsilon0, eta_eps


def label_for(task, outputs, y):
    return [2.0 * v - 1 for v in y] if task == "classify" and outputs == 1 else y


def follow(reference, X, y):
    path = []
    for x, label in zip(X, y, strict=True):
        reference.step(x, label)
        path.append(reference.eta)
    return np.array(path)


def assert_same(machine, reference, X, tolerance=1e-10):
    probe = X[:40]
    f = np.array([reference.values(x)[0] + reference.b for x in probe])
    z = np.array([reference.values(x)[1] for x in probe])
    near = {"rtol": tolerance, "atol": tolerance}
    np.testing.assert_allclose(machine.decision(RowSource.dense(probe)), f, **near)
    np.testing.assert_allclose(machine.intercept, reference.b, **near)
    np.testing.assert_allclose(machine.alpha(), reference.alpha, **near)
    np.testing.assert_allclose(machine.support_vectors_dense(), np.array(reference.rows), **near)
    if reference.schedule is None:
        np.testing.assert_allclose(machine.decision(RowSource.dense(probe), trace=True), z, **near)
        np.testing.assert_allclose(machine.beta(), reference.beta, **near)
        np.testing.assert_allclose(machine.eta, reference.eta, **near)
        np.testing.assert_allclose(machine.pi, reference.pi, **near)
        np.testing.assert_allclose(machine.sq_norm, reference.sq_f, **near)
        np.testing.assert_allclose(machine.eta_intercept, reference.eta_b, **near)
    np.testing.assert_allclose(
        [machine.epsilon, machine.eta_epsilon, machine.z_epsilon],
        [reference.eps, reference.eta_eps, reference.z_eps],
        **near,
    )


def joining(eviction, kernel="rbf"):
    """Only the Gaussian kernel has merged rows."""
    return ref.merging(merge_tables()) if (eviction, kernel) == ("merge", "rbf") else None


GRID = [
    (offset, nu, decay, label)
    for offset, nu, decay, label in itertools.product(
        (False, True), (None, 0.2), (0.0, 0.5, 0.95, 1.0), (False, True)
    )
]


@pytest.mark.parametrize("case", LOSSES, ids=IDS)
def test_svmd_follows_the_reference(case):
    """f, z, eta, pi, ||f||^2, epsilon and b, without eviction."""
    name, loss, reference_loss, outputs, task = case
    X, y = make_data(outputs, task)
    kernel, reference_kernel = kernels.get("rbf", gamma=0.3), ref.rbf(0.3)
    for offset, nu, decay, label in GRID:
        if (nu is not None and name not in WITH_MARGIN) or (label and outputs == 1):
            continue
        kappa = KAPPA if label else None
        reg = 1.0 if nu is not None else 0.05
        reference = ref.Reference(
            reference_loss, reference_kernel, reg, outputs, kappa, eta0=0.3, mu=0.2, decay=decay,
            eta_min=1e-3, offset=offset, nu=nu, epsilon0=0.8, epsilon_eta0=0.7,
        )  # fmt: skip
        path = follow(reference, X, label_for(task, outputs, y))
        machine = make_machine(kernel, outputs, label_kernel=kappa)
        start(machine, 0.3, 0.1, 0.8 if nu is not None else 1.0, 0.7)
        if nu is None:
            reference.eps, reference.eta_eps = 1.0, 0.7
            if name in WITH_MARGIN:
                reference = ref.Reference(
                    reference_loss, reference_kernel, reg, outputs, kappa, eta0=0.3, mu=0.2,
                    decay=decay, eta_min=1e-3, offset=offset, epsilon_eta0=0.7,
                )  # fmt: skip
                path = follow(reference, X, label_for(task, outputs, y))
        step = schedules.SMD(mu=0.2, decay=decay, eta_min=1e-3).spec(reg=reg, eta0=0.3)
        history = run(
            machine, X, y, spec_of(loss), step, task, reg, 32, offset=offset, nu=nu
        )  # fmt: skip
        np.testing.assert_allclose(history["eta"], path, rtol=1e-10)
        assert_same(machine, reference, X)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("case", LOSSES, ids=IDS)
def test_capped_steps_follow_the_reference(case, offset):
    """min(eta, loss / (|xi|^2 k(x, x))); k(x, x) differs from row to row."""
    _, loss, reference_loss, outputs, task = case
    X, y = make_data(outputs, task)
    kernel, reference_kernel = kernels.Polynomial(0.2, 1.0, 2), ref.polynomial(0.2, 1.0, 2)
    kappa = KAPPA if outputs > 1 else None
    schedule = schedules.InverseSqrt(1.0, 10.0, capped=True)
    reference = ref.Reference(
        reference_loss, reference_kernel, 0.05, outputs, kappa, schedule=schedule, offset=offset,
        budget=20, capped=True,
    )  # fmt: skip
    steps = []
    for x, label in zip(X, label_for(task, outputs, y), strict=True):
        reference.step(x, label)
        steps.append(reference.tau)
    machine = make_machine(kernel, outputs, smd=False, budget=20, label_kernel=kappa)
    start(machine, 1.0)
    step = schedule.spec(reg=0.05)
    history = run(machine, X, y, spec_of(loss), step, task, 0.05, 16, offset=offset)
    np.testing.assert_allclose(history["eta"], steps, rtol=1e-10)
    assert np.mean(history["eta"] < 0.9 * schedule(np.arange(1, N + 1))) > 0.02
    reference.eta_eps = 1.0  # there is no nu-trick
    assert_same(machine, reference, X)


def test_nothing_depends_on_small_scales():
    """Steps that shrink f to nothing, and eta at its cap, where dec is exactly 0.

    The last two shrink to a tenth each time, which the scale of 120 rows cannot hold.
    """
    X, y = make_data(1, "classify")
    cases = [(1.0, 1.0, 5.0, 0.95), (2.0, 0.5, 0.0, 1.0), (9.0, 0.1, 1.0, 0)]
    for reg, eta0, mu, decay in [*cases, (1.0, 0.9, 0.0, 1.0), (1.0, 0.9, 0.0, 0.95)]:
        reference = ref.Reference(ref.hinge, ref.rbf(0.3), reg, eta0=eta0, mu=mu, decay=decay)
        path = follow(reference, X, label_for("classify", 1, y))
        machine = make_machine(kernels.get("rbf", gamma=0.3), 1)
        start(machine, eta0)
        step = schedules.SMD(mu=mu, decay=decay, eta_min=0.0).spec(reg=reg, eta0=eta0)
        history = run(machine, X, y, losses.get("hinge").spec(), step, "classify", reg, 16)
        np.testing.assert_allclose(history["eta"], path, rtol=1e-10)
        reference.eta_b[:] = 0.1
        assert_same(machine, reference, X)


@pytest.mark.parametrize("case", [LOSSES[i] for i in (0, 1, 6, 7, 8)], ids=lambda c: c[0])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("eviction", ref.VICTIMS)
def test_eviction_keeps_the_inner_products(case, eviction, sparse):
    """With a full buffer, against inner products computed afresh at each step."""
    _, loss, reference_loss, outputs, task = case
    X, y = make_data(outputs, task)
    kappa = KAPPA if outputs > 1 else None
    victim = ref.VICTIMS[eviction]
    for kernel, reference_kernel in (
        (kernels.get("rbf", gamma=0.3), ref.rbf(0.3)),
        (
            kernels.get("polynomial", gamma=0.2, coef0=1.0, degree=2),
            ref.polynomial(0.2, 1.0, 2),
        ),
    ):
        reference = ref.Reference(
            reference_loss, reference_kernel, 0.05, outputs, kappa, eta0=0.1, mu=0.05, decay=0.95,
            budget=20, victim=victim, join=joining(eviction, kernel.name),
        )  # fmt: skip
        path = follow(reference, X, label_for(task, outputs, y))
        machine = make_machine(
            kernel, outputs, sparse=sparse, budget=20, eviction=eviction, label_kernel=kappa
        )
        start(machine, 0.1)
        step = schedules.SMD(mu=0.05, decay=0.95, eta_min=0.0).spec(reg=0.05, eta0=0.1)
        history = run(machine, X, y, spec_of(loss), step, task, 0.05, 16, sparse=sparse)
        np.testing.assert_allclose(history["eta"], path, rtol=1e-10)
        assert_same(machine, reference, X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("eviction", ref.VICTIMS)
def test_outputs_that_grow_under_a_label_kernel(eviction, sparse):
    """The larger label kernel changes the old inner products as well."""
    X, y = make_data(K, "classify")
    victim = ref.VICTIMS[eviction]
    small = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
    few = y < 3
    reference = ref.Reference(
        ref.multiclass_hinge, ref.rbf(0.3), 0.05, 3, small, eta0=0.1, mu=0.05, decay=0.95,
        budget=20, victim=victim, join=joining(eviction),
    )  # fmt: skip
    machine = make_machine(
        kernels.get("rbf", gamma=0.3), 3, sparse=sparse, budget=20, eviction=eviction,
        label_kernel=small,
    )  # fmt: skip
    start(machine, 0.1)
    step = schedules.SMD(mu=0.05, decay=0.95, eta_min=0.0).spec(reg=0.05, eta0=0.1)
    loss = losses.get("multiclass_hinge").spec()
    follow(reference, X[few], y[few])
    run(machine, X[few], y[few], loss, step, "classify", 0.05, 16, sparse=sparse)
    machine.grow_outputs(np.eye(3, K), KAPPA, 0.1)
    reference.K, reference.kappa = K, KAPPA
    for name in ("alpha", "beta"):
        setattr(reference, name, getattr(reference, name) @ np.eye(3, K))
    reference.b, reference.z_b, reference.eta_b = np.zeros(K), np.zeros(K), np.full(K, 0.1)
    assert_same(machine, reference, X)
    path = follow(reference, X, y)
    history = run(machine, X, y, loss, step, "classify", 0.05, 16, sparse=sparse)
    np.testing.assert_allclose(history["eta"], path, rtol=1e-10)
    assert_same(machine, reference, X)


@pytest.mark.parametrize("eviction", ref.VICTIMS)
def test_norma_follows_the_reference(eviction):
    """A schedule of t, offset, nu and eviction, without a trace."""
    victim = ref.VICTIMS[eviction]
    X, y = make_data(K, "classify")
    for nu in (None, 0.3):
        reference = ref.Reference(
            ref.multiclass_hinge, ref.rbf(0.3), 1.0, K, offset=True, nu=nu, budget=25,
            victim=victim, join=joining(eviction), schedule=lambda t: 0.4 * np.sqrt(10 / (10 + t)),
            decay=0.0,
        )  # fmt: skip
        follow(reference, X, y)
        machine = make_machine(
            kernels.get("rbf", gamma=0.3), K, smd=False, budget=25, eviction=eviction
        )
        start(machine, 0.4)
        step = schedules.InverseSqrt(eta0=0.4, tau=10.0).spec(reg=1.0)
        loss = losses.get("multiclass_hinge").spec()
        run(machine, X, y, loss, step, "classify", 1.0, 16, nu=nu, offset=True)
        reference.z_eps = machine.z_epsilon
        reference.eta_eps = machine.eta_epsilon
        assert_same(machine, reference, X)


@pytest.mark.parametrize("case", LOSSES, ids=IDS)
def test_trace_is_the_derivative_by_log_eta(case):
    """With mu = 0 and decay = 1, z = df / d log eta; away from the kinks."""
    _, loss, _, outputs, task = case
    X, y = make_data(outputs, task, n=40)
    probe = RowSource.dense(X[:10].copy())
    values = {}
    for shift in (-1e-6, 0.0, 1e-6):
        eta = 0.2 * np.exp(shift)
        machine = make_machine(kernels.get("rbf", gamma=0.3), outputs)
        start(machine, eta)
        step = schedules.SMD(mu=0.0, decay=1.0).spec(reg=0.05, eta0=eta)
        run(machine, X, y, spec_of(loss), step, task, 0.05, 7)
        values[shift] = machine.decision(probe)
        if shift == 0.0:
            z = machine.decision(probe, trace=True)
    slope = (values[1e-6] - values[-1e-6]) / 2e-6
    np.testing.assert_allclose(z, slope, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial", "sigmoid", "cosine"])
@pytest.mark.parametrize("outputs", [1, K])
def test_blocks_give_the_sequential_result(outputs, kernel, sparse, dtype):
    """Same mistakes, same step sizes, whatever the size of the blocks."""
    X, y = make_data(outputs, "classify", n=400)
    loss = losses.get("hinge" if outputs == 1 else "multiclass_hinge").spec()
    kernel = kernels.get(kernel)
    if hasattr(kernel, "gamma"):
        kernel = kernels.get(kernel, gamma=0.2)
    results = []
    for block in (1, 7, 64, 400):
        machine = make_machine(
            kernel, outputs, budget=60, sparse=sparse, float64=dtype == np.float64
        )
        start(machine, 0.05)
        step = schedules.SMD(mu=0.01, decay=0.95).spec(reg=1e-3, eta0=0.05)
        results.append(run(machine, X, y, loss, step, "classify", 1e-3, block, sparse, dtype))
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    for other in results[1:]:
        np.testing.assert_array_equal(other["error"], results[0]["error"])
        np.testing.assert_array_equal(other["support"], results[0]["support"])
        np.testing.assert_allclose(other["eta"], results[0]["eta"], rtol=tolerance)
