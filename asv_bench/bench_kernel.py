"""Kernel machines with a buffer, as ratios to BLAS and to peers in the same run.

The yardstick is one sgemm of a block of examples with the buffer plus exp in place: what
kernel values alone must cost.  ``python -m asv_bench.bench_kernel`` prints every ratio.
Times are processor times of one thread (``OPENBLAS_NUM_THREADS=1``), which other
processes on the machine disturb less than the clock on the wall.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np
import scipy.sparse as sp

import osvm
from asv_bench.report import scaled

D = 256
KERNLAB_ROWS = 836  # a second: kernlab's onlearn on USPS, buffer 512; not timed here


def make_stream(n, d=D, seed=0, dtype=np.float32):
    """Ten noisy prototypes, five to a class, and a twentieth of the labels wrong."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(10, d))
    label = rng.integers(10, size=n)
    X = centres[label] + rng.normal(size=(n, d))
    y = (label >= 5) ^ (rng.random(n) < 0.05)
    return X.astype(dtype), y.astype(np.int32)


def make_text(n, d=47_000, nnz=76, seed=0):
    """Unit-norm sparse rows with word frequencies like a text's."""
    rng = np.random.default_rng(seed)
    rank = np.arange(1, d + 1)
    p = 1.0 / (rank + 20.0)
    p /= p.sum()
    label = rng.integers(2, size=n)
    columns = rng.choice(d, size=(n, nnz), p=p)
    topic = rng.integers(200, 1200, size=(n, 8))
    columns[:, :8] = topic + 1000 * label[:, None]
    values = rng.random((n, nnz)).astype(np.float32) + 0.1
    X = sp.csr_matrix(
        (values.ravel(), columns.ravel().astype(np.int32), np.arange(0, n * nnz + 1, nnz)),
        shape=(n, d),
    )
    X.sum_duplicates()
    norm = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    X = sp.csr_matrix(sp.diags(1.0 / norm).astype(np.float32) @ X)
    return X, label.astype(np.int32)


def yardstick(X, buffer, block):
    """Seconds for kernel values of all rows of X with the buffer."""
    out = np.empty((block, len(buffer)), np.float32)
    transposed = buffer.T
    start = time.process_time()
    for i in range(0, len(X) - block + 1, block):
        np.dot(X[i : i + block], transposed, out=out)
        np.multiply(out, -0.01, out=out)
        np.exp(out, out=out)
    return time.process_time() - start


def make_model(budget, schedule="smd", kernel="rbf", gamma=1.0 / (2 * D), loss="hinge", **more):
    # mu = 0: both schedules take the same steps, so the same rows move the model
    if schedule == "smd":
        schedule = osvm.schedules.SMD(mu=0.0)
    more = {"eviction": "fifo", **more}
    return osvm.KernelClassifier(
        loss, kernel=kernel, gamma=gamma, budget=budget, schedule=schedule, eta0=0.5, reg=1e-5,
        **more,
    )  # fmt: skip


def fill(model, X, y, budget):
    """Random labels fill the buffer at once; the true ones then settle the model."""
    noise = np.random.default_rng(7).integers(2, size=len(y)).astype(np.int32)
    n = 2 * budget
    model.partial_fit(X[:n], noise[:n], classes=[0, 1])
    model.partial_fit(X[n:], y[n:])
    assert model.n_support_ == budget


def seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def compare_blocks(budget, n=8000, repeats=5):
    """SVMD's and NORMA's share of the yardstick; both take the same steps."""
    budget, n = scaled(budget, 64), scaled(n, 512)
    X, y = make_stream(8 * budget)
    models = {"svmd": make_model(budget), "norma": make_model(budget, "constant")}
    for model in models.values():
        fill(model, X, y, budget)
    Z, label = make_stream(n, seed=1)
    buffer = np.ascontiguousarray(models["svmd"].support_vectors_)
    best = {"yardstick": np.inf, "svmd": np.inf, "norma": np.inf}
    moved = 0
    for _ in range(repeats):
        best["yardstick"] = min(
            best["yardstick"], *(yardstick(Z, buffer, block) for block in (64, 128, 256))
        )
        for name, model in models.items():
            before = model._machine.state.get_state()[0]["births"]
            best[name] = min(best[name], seconds(lambda m=model: m.partial_fit(Z, label)))
            moved = model._machine.state.get_state()[0]["births"] - before
    return {
        "share": best["yardstick"] / best["svmd"],
        "norma_share": best["yardstick"] / best["norma"],
        "svmd_over_norma": best["svmd"] / best["norma"],
        "rows_per_second": n / best["svmd"],
        "moved": moved / n,
    }


def one_by_one(budget=512, n=3000, repeats=3):
    """Examples a second, one to a partial_fit."""
    budget, n = scaled(budget, 64), scaled(n, 300)
    X, y = make_stream(8 * budget)
    model = make_model(budget)
    fill(model, X, y, budget)
    Z, label = make_stream(n, seed=1)
    rows = [(Z[i : i + 1], label[i : i + 1]) for i in range(n)]

    def run():
        learn = model.partial_fit
        for x, target in rows:
            learn(x, target)

    return n / min(seconds(run) for _ in range(repeats))


def calls_of_one(budget=512, n=2000, d=20, repeats=3):
    """Microseconds a call: one example through a matrix of one row and by itself."""
    budget, n = scaled(budget, 64), scaled(n, 200)
    X, y = make_stream(n, d, dtype=np.float64)
    columns, labels = np.arange(d, dtype=np.int32), y.tolist()
    rows, sparse = (
        [X[i : i + 1] for i in range(n)],
        [sp.csr_matrix(X[i : i + 1]) for i in range(n)],
    )
    numbered = [dict(enumerate(x.tolist())) for x in X]
    named = [{f"feature {j}": value for j, value in x.items()} for x in numbered]
    dense, wide, hashed = (
        osvm.KernelClassifier(gamma=1.0 / d, budget=budget, random_state=0) for _ in range(3)
    )
    dense.partial_fit(X, y)
    wide.partial_fit(sp.csr_matrix(X), y)
    for x, label in zip(named, labels):
        hashed.learn_one(x, label)
    calls = {
        "partial_fit, dense": lambda i: dense.partial_fit(rows[i], y[i : i + 1]),
        "learn_one, dense": lambda i: dense.learn_one(X[i], labels[i]),
        "partial_fit, CSR": lambda i: wide.partial_fit(sparse[i], y[i : i + 1]),
        "learn_one, columns and values": lambda i: wide.learn_one(columns, X[i], labels[i]),
        "learn_one, dict of columns": lambda i: wide.learn_one(numbered[i], labels[i]),
        "learn_one, dict of names": lambda i: hashed.learn_one(named[i], labels[i]),
        "predict, dense": lambda i: dense.predict(rows[i]),
        "predict_one, dense": lambda i: dense.predict_one(X[i]),
        "predict, CSR": lambda i: wide.predict(sparse[i]),
        "predict_one, columns and values": lambda i: wide.predict_one(columns, X[i]),
        "predict_one, dict of names": lambda i: hashed.predict_one(named[i]),
    }

    def run(call):
        for i in range(n):
            call(i)

    return {
        name: 1e6 / n * min(seconds(lambda call=call: run(call)) for _ in range(repeats))
        for name, call in calls.items()
    }


def text(kernel, budget=512, n=1500, peer_rows=300):
    """How many times a loop over sklearn's pairwise_kernels takes."""
    from sklearn.metrics.pairwise import pairwise_kernels

    budget, n, peer_rows = scaled(budget, 64), scaled(n, 300), scaled(peer_rows, 30)
    X, y = make_text(8 * budget)
    model = make_model(budget, kernel=kernel, gamma=1.0)
    fill(model, X, y, budget)
    Z, label = make_text(n, seed=1)
    buffer = sp.csr_matrix(model.support_vectors_)
    alpha = model.dual_coef_[0]
    options = {"gamma": 1.0} if kernel == "rbf" else {}

    def peer():
        for i in range(peer_rows):
            pairwise_kernels(Z[i], buffer, metric=kernel, **options) @ alpha

    ours = min(seconds(lambda: model.partial_fit(Z, label)) for _ in range(3)) / n
    theirs = min(seconds(peer) for _ in range(2)) / peer_rows
    return theirs / ours, 1.0 / ours


def usps():
    """Times kernlab's onlearn on USPS; None without the data."""
    path = os.path.join(os.environ.get("OSVM_DATA", "../shared/data"), "usps.npz")
    if not os.path.exists(path):
        return None
    data = np.load(path)
    X = (2 * data["X_train"] - 1).astype(np.float32)
    y = (data["y_train"] >= 5).astype(np.int32)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]

    def run():
        osvm.recipes.nu_svmd(gamma=1 / 128, budget=512).partial_fit(X, y)

    return len(X) / min(seconds(run) for _ in range(3)) / KERNLAB_ROWS


def merge_over_removal(n=4000, repeats=5):
    """Time of a merging pass over one that removes the smallest, every row a step; d 256."""
    n, best = scaled(n, 600), {"merge": np.inf, "coefficient": np.inf}
    X = np.random.default_rng(0).normal(size=(n, D))
    y = np.random.default_rng(1).integers(2, size=n)
    for _ in range(repeats):
        for rule in best:
            model = make_model(min(512, n // 2), "bottou", eviction=rule)
            best[rule] = min(best[rule], seconds(lambda m=model: m.partial_fit(X, y)))
    return best["merge"] / best["coefficient"]


def stream(n=1_000_000, d=10, block=50_000):
    """Rows a CPU second of a merging stream, and the growth of memory after its first block."""
    import resource

    n, block = scaled(n, 4000), scaled(block, 1000)
    model = osvm.KernelClassifier(gamma=0.1)
    rng = np.random.default_rng(0)
    spent, sizes = 0.0, []
    for _ in range(n // block):
        X = rng.normal(size=(block, d))
        y = X[:, 0] * X[:, 1] > 0
        spent += seconds(lambda X=X, y=y: model.partial_fit(X, y))
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return n // block * block / spent, (sizes[-1] - sizes[1]) / 1024


class Blocks:
    """Share of the yardstick, in blocks."""

    params = (512, 4096)
    param_names = ("budget",)
    timeout = 300

    def setup_cache(self):
        return {budget: compare_blocks(budget) for budget in self.params}

    def track_share_of_gemm_and_exp(self, cache, budget):
        return cache[budget]["share"]

    def track_svmd_over_norma(self, cache, budget):
        return cache[budget]["svmd_over_norma"]


class Grid:
    """One pass by buffer size, dimension, form of the rows and loss, and its running error."""

    params = (
        [64, 512, 4096],
        [2, 64, 784],
        ["dense", "sparse"],
        ["hinge", "multiclass_hinge", "softmax"],
    )
    param_names = ["budget", "columns", "rows", "loss"]

    def setup(self, budget, columns, rows, loss):
        n = scaled(2000, 200)
        self.X, self.y = make_stream(n, columns)
        if rows == "sparse":
            if columns < 10:
                raise NotImplementedError("two columns are never sparse")
            self.X[np.random.default_rng(1).random(self.X.shape) < 0.9] = 0
            self.X = sp.csr_matrix(self.X)

    def run(self, budget, columns, loss, **more):
        model = make_model(budget, gamma=1 / (2 * columns), loss=loss, **more)
        return model.partial_fit(self.X, self.y)

    def time_partial_fit(self, budget, columns, rows, loss):
        self.run(budget, columns, loss)

    def track_running_error(self, budget, columns, rows, loss):
        return 100 * self.run(budget, columns, loss, record=True).history_["error"][-1]

    track_running_error.unit = "%"


class OneByOne:
    def track_examples_per_second(self):
        return one_by_one()

    track_examples_per_second.unit = "1/s"

    def track_learn_one_over_partial_fit(self):
        times = calls_of_one()
        return times["learn_one, dense"] / times["partial_fit, dense"]


class Merging:
    timeout = 300

    def track_merge_over_removal(self):
        return merge_over_removal()

    def track_stream_rows_per_second(self):
        return stream(200_000)[0]

    track_stream_rows_per_second.unit = "1/s"


class Text:
    params = ("linear", "rbf")
    param_names = ("kernel",)

    def track_times_pairwise_kernels(self, kernel):
        return text(kernel)[0]


class USPS:
    def track_times_kernlab(self):
        ratio = usps()
        if ratio is None:
            raise NotImplementedError("USPS is not at hand")
        return ratio


def main():
    for budget in (512, 4096):
        r = compare_blocks(budget)
        print(
            f"budget {budget:5d}: SVMD {r['share']:.0%} of sgemm + exp "
            f"({r['rows_per_second']:,.0f} rows/s, {r['moved']:.0%} move the model), NORMA "
            f"{r['norma_share']:.0%}, SVMD/NORMA {r['svmd_over_norma']:.2f}"
        )
    print(f"one example per partial_fit, budget 512: {one_by_one():,.0f} a second")
    for name, microseconds in calls_of_one().items():
        print(f"one example, budget 512, d 20: {name}: {microseconds:.1f} us")
    for kernel in ("linear", "rbf"):
        ratio, rate = text(kernel)
        print(f"sparse text, {kernel}: {ratio:.0f} x pairwise_kernels ({rate:,.0f} rows/s)")
    print(f"merging over removing, budget 512, d 256: {merge_over_removal():.2f}")
    rate, grown = stream()
    print(f"a million rows of d 10, merging: {rate:,.0f} rows/s, memory grows by {grown:.1f} MB")
    ratio = usps()
    if ratio is not None:
        print(f"USPS, nu-SVMD, budget 512: {ratio:.0f} x kernlab onlearn")


if __name__ == "__main__":
    main()
