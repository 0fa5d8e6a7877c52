"""`osvm.merge` against the mean of weights and the sum of counts, written out."""

import copy
import itertools
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm.stream import HashingTokenizer

rng = np.random.default_rng(5)
N, D = 360, 9
X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
SCORE = X @ rng.normal(size=D)
Y = {
    "binary": np.where(SCORE > 0, "yes", "no"),
    "multi": np.array(["a", "b", "c"])[np.digitize(SCORE, [-1, 1])],
    "number": SCORE,
}
LINEAR = [
    ("LinearClassifier", "binary", {"schedule": "bottou"}),
    ("LinearClassifier", "binary", {"average": True}),
    ("LinearClassifier", "binary", {"average": 100, "project": True}),
    ("LinearClassifier", "binary", {"batch_size": 7}),
    ("LinearClassifier", "binary", {"batch_size": 7, "average": True}),
    (
        "LinearClassifier",
        "binary",
        {"class_weight": "balanced", "reg": 1e-4, "loss": "squared_hinge"},
    ),
    ("LinearClassifier", "multi", {"average": True}),
    ("LinearClassifier", "multi", {"loss": "softmax", "probability": True, "reg": 1e-4}),
    ("LinearClassifier", "multi", {"batch_size": 5, "loss": "multiclass_hinge"}),
    ("LinearRegressor", "number", {"loss": "huber", "average": True}),
    ("LinearNovelty", None, {"average": True}),
]
EDGES = [0, 100, 130, 260, N]


def learnt(model, target, a, b, data=X, **kwargs):
    if target is None:
        return model.partial_fit(data[a:b])
    if target in ("binary", "multi"):
        kwargs.setdefault("classes", np.unique(Y[target]))
    return model.partial_fit(data[a:b], Y[target][a:b], **kwargs)


def copied(model):
    return osvm.from_bytes(model.to_bytes())


def split(cls, target, params, data=X, base_rows=0):
    """A base (or None) and four parts that went on from it."""
    make = lambda: getattr(osvm, cls)(**params)  # noqa: E731
    base = learnt(make(), target, 0, base_rows, data) if base_rows else None
    parts = [
        learnt(make() if base is None else copied(base), target, a, b, data)
        for a, b in itertools.pairwise(EDGES)
    ]
    return base, parts


class Reference:
    """What a linear model holds, as plain numbers; a mini-batch is closed."""

    def __init__(self, model, flush=True):
        learner = copied(model)._learner
        if flush:
            learner.flush()
        self.w = np.atleast_2d(learner.weights.array())
        self.b = learner.intercept.copy()
        self.count = learner.weights.averaged_count
        average = np.atleast_2d(learner.weights.array(averaged=True))
        self.sum = self.count * average
        self.b_sum = learner.intercept_sum.copy()
        self.t, self.seen = learner.t, learner.seen
        self.loss, self.error = learner.loss_sum, learner.error_sum


def check(merged, base, parts, share):
    """The equations of `osvm/linear/merging.py`."""
    m, r = Reference(merged), [Reference(part) for part in parts]
    scale = 1e-10 if merged._learner.weights.v.dtype == np.float64 else 1e-5
    old = Reference(base, flush=False) if base is not None else None
    zero = lambda name: 0.0 if old is None else getattr(old, name)  # noqa: E731
    np.testing.assert_allclose(m.w, sum(s * p.w for s, p in zip(share, r)), rtol=0, atol=scale)
    np.testing.assert_allclose(m.b, sum(s * p.b for s, p in zip(share, r)), rtol=0, atol=1e-12)
    assert m.seen == zero("seen") + sum(p.seen - zero("seen") for p in r) == merged.t_
    for name in ("loss", "error"):
        total = zero(name) + sum(getattr(p, name) - zero(name) for p in r)
        assert np.isclose(getattr(m, name), total, rtol=1e-12)
    base_t = 0.0 if base is None else base._learner.t
    assert m.t == base_t + round(sum(s * (p.t - base_t) for s, p in zip(share, r)))
    counts = [p.count - zero("count") for p in r]
    assert m.count == zero("count") + sum(counts)
    if m.count:
        rows = [p.seen - zero("seen") for p in r]
        factor = [s * c / n for s, c, n in zip(share, counts, rows)]
        mean = sum(f * (p.sum - zero("sum")) / c for f, p, c in zip(factor, r, counts) if c) / sum(
            factor
        )
        np.testing.assert_allclose(
            m.sum, zero("sum") + sum(counts) * mean, rtol=0, atol=scale * m.count
        )
        b_mean = sum(
            f * (p.b_sum - zero("b_sum")) / c for f, p, c in zip(factor, r, counts) if c
        ) / sum(factor)
        np.testing.assert_allclose(m.b_sum, zero("b_sum") + sum(counts) * b_mean, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("base_rows", [0, 50])
@pytest.mark.parametrize(("cls", "target", "params"), LINEAR)
def test_linear_models_follow_the_equations(cls, target, params, base_rows, dtype):
    data = X.astype(dtype)
    base, parts = split(cls, target, params, data, base_rows)
    before = [part.to_bytes() for part in parts]
    merged = osvm.merge(parts, base)
    rows = np.array([part.t_ - base_rows for part in parts], float)
    check(merged, base, parts, rows / rows.sum())
    check(osvm.merge(parts, base, "equal"), base, parts, np.full(4, 0.25))
    given_ = np.array([1.0, 0.0, 3.0, 2.0])
    check(osvm.merge(parts, base, given_), base, parts, given_ / 6)
    assert [part.to_bytes() for part in parts] == before
    # it goes on, and can be saved
    again = copied(merged)
    for model in (merged, again):
        learnt(model, target, 0, 40, data)
    assert merged.to_bytes() == again.to_bytes()


@pytest.mark.parametrize(("cls", "target", "params"), LINEAR)
def test_the_same_bits_every_time_flat_and_as_a_tree(cls, target, params):
    base, parts = split(cls, target, params, sp.csr_matrix(X), 50)
    flat = [osvm.merge(parts, base).to_bytes() for _ in range(2)]
    assert flat[0] == flat[1]

    def tree():
        a, b, c, d = parts
        return osvm.merge([osvm.merge([a, b], base), osvm.merge([c, d], base)], base)

    assert tree().to_bytes() == tree().to_bytes()
    whole, halves = osvm.merge(parts, base), tree()
    scores = [getattr(m, "decision_function", m.predict)(X) for m in (whole, halves)]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-8 if not params.get("batch_size") else 1)
    assert whole.t_ == halves.t_ == 50 + N


def test_class_counts_and_sigmoids_count_the_base_once():
    params = {"class_weight": "balanced", "probability": True}
    base, parts = split("LinearClassifier", "multi", params, base_rows=60)
    merged = osvm.merge(parts, base)
    labels = np.concatenate([Y["multi"][:60], Y["multi"]])
    counted = [(labels == label).sum() for label in merged.classes_]
    assert merged._balance.counts.tolist() == counted
    assert merged._platt.state[:, 5].tolist() == [60 + N] * 3
    # the minimum of the quadratics that the sigmoids of the parts stand for
    rows = np.diff(EDGES)
    for k in range(3):
        H, slope = np.zeros((2, 2)), np.zeros(2)
        for n, part in zip(rows, parts):
            a, c, aa, ac, cc, _ = part._platt.state[k]
            own = np.array([[aa, ac], [ac, cc]])
            H += n / N * own
            slope += n / N * own @ [a, c]
        np.testing.assert_allclose(merged._platt.state[k, :2], np.linalg.solve(H, slope))
    assert np.allclose(merged.predict_proba(X).sum(axis=1), 1)


def grown(part, labels):
    """Weights and intercepts of a part for all labels: zero where it knows none."""
    w, b = np.zeros((len(labels), D)), np.zeros(len(labels))
    coef, intercept = part.last_coef_, part._learner.intercept
    if len(coef) == 1:
        coef, intercept = np.vstack([-coef, coef]), np.append(-intercept, intercept)
    for k, label in enumerate(part.classes_.tolist()):
        w[labels.index(label)], b[labels.index(label)] = coef[k], intercept[k]
    return w, b


def test_labels_are_united():
    y = np.array(["a", "b", "c", "d"])[np.digitize(SCORE, [-1, 0, 1])]
    parts = []
    for known in (["a", "b", "c"], ["d", "a"], ["b", "d", "c"]):
        rows = np.isin(y, known)
        parts.append(osvm.LinearClassifier(average=True).partial_fit(X[rows], y[rows]))
    merged = osvm.merge(parts)
    assert merged.classes_.tolist() == ["a", "b", "c", "d"]
    share = np.array([part.t_ for part in parts]) / sum(part.t_ for part in parts)
    pairs = [grown(part, ["a", "b", "c", "d"]) for part in parts]
    np.testing.assert_allclose(
        merged.last_coef_, sum(s * w for s, (w, _) in zip(share, pairs)), atol=1e-12
    )
    np.testing.assert_allclose(
        merged._learner.intercept, sum(s * b for s, (_, b) in zip(share, pairs)), atol=1e-12
    )
    assert merged.score(X, y) > 0.5


def test_one_class_a_part_makes_two():
    y = (SCORE > 0).astype(int)
    plain = partial(osvm.LinearClassifier, schedule="bottou")
    parts = [plain().partial_fit(X[y == k], y[y == k]) for k in (0, 1)]
    merged = osvm.merge(parts)
    assert merged.classes_.tolist() == [0, 1]
    share = [np.mean(y == 0), np.mean(y == 1)]
    w = share[0] * parts[0].coef_[0] - share[1] * parts[1].coef_[0]
    np.testing.assert_allclose(merged.coef_[0], w, atol=1e-12)
    turned = osvm.merge([plain().partial_fit(X, y, classes=[0, 1])] * 2)
    stream = plain().partial_fit(X[y == 1][:1], y[y == 1][:1]).partial_fit(X, y)
    assert stream.classes_.tolist() == [1, 0]
    both = osvm.merge([turned, stream], weights="equal")
    assert both.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(both.coef_, (turned.coef_ - stream.coef_) / 2, atol=1e-12)


def test_a_base_keeps_its_order_of_labels():
    base = osvm.LinearClassifier().partial_fit(X[:10], ["z"] * 10)
    base.partial_fit(X[:20], ["b", "z"] * 10)
    parts = [copied(base).partial_fit(X[:40], ["b", "z"] * 20) for _ in range(2)]
    parts[1].partial_fit(X[:3], ["c", "a", "c"])
    assert osvm.merge(parts, base).classes_.tolist() == ["z", "b", "a", "c"]


def sets_of(scores):
    return [tuple(k for k, s in zip("pqr", row) if s > 0) for row in scores]


@pytest.mark.parametrize(
    "params", [{}, {"average": True}, {"batch_size": 4}, {"loss": "logistic"}], ids=str
)
def test_label_sets(params):
    V = rng.normal(size=(D, 3))
    sets = sets_of(X @ V)
    make = lambda: osvm.MultilabelClassifier(schedule="bottou", **params)  # noqa: E731
    base = make().partial_fit(X[:50], sets[:50], classes=list("pqr"))
    parts = [copied(base).partial_fit(X[a:b], sets[a:b]) for a, b in itertools.pairwise(EDGES)]
    merged = osvm.merge(parts, base)
    assert merged.t_ == 50 + N
    share = np.diff(EDGES) / N
    single = [osvm.merge([part], base) for part in parts]  # mini-batches closed
    if "average" not in params:
        np.testing.assert_allclose(
            merged.coef_, sum(s * p.coef_ for s, p in zip(share, single)), atol=1e-10
        )
    for k, model in enumerate(merged._label_models()):
        check_label = Reference(model)
        own = [Reference(part._label_models()[k]) for part in single]
        w = sum(s * p.w for s, p in zip(share, own))
        np.testing.assert_allclose(check_label.w, w, atol=1e-10)
        assert check_label.t == round(sum(s * p.t for s, p in zip(share, own)))
    assert (merged._joined is not None) == ("batch_size" not in params)  # still in one pass
    again = copied(merged)
    for model in (merged, again):
        model.partial_fit(X[:30], sets[:30])
    assert merged.to_bytes() == again.to_bytes()
    assert osvm.merge(parts, base).to_bytes() == osvm.merge(parts, base).to_bytes()


def test_a_label_that_one_part_knows_is_its_own():
    parts = [
        osvm.MultilabelClassifier(schedule="bottou").partial_fit(
            X[:60], [("p",), ("q", "p")] * 30
        ),
        osvm.MultilabelClassifier(schedule="bottou").partial_fit(X[60:180], [("r",), ("q",)] * 60),
    ]
    merged = osvm.merge(parts)
    assert merged.classes_.tolist() == ["p", "q", "r"]
    np.testing.assert_allclose(merged.coef_[0], parts[0].coef_[0])
    np.testing.assert_allclose(merged.coef_[1], (parts[0].coef_[1] + 2 * parts[1].coef_[0]) / 3)
    np.testing.assert_allclose(merged.coef_[2], parts[1].coef_[1])


KERNEL = [
    ("KernelClassifier", "binary", {"budget": None}),
    ("KernelClassifier", "multi", {"budget": None, "schedule": "inverse_sqrt"}),
    ("KernelClassifier", "binary", {"budget": None, "nu": 0.2, "fit_intercept": True}),
    ("KernelRegressor", "number", {"budget": None}),
    ("KernelNovelty", None, {"budget": None}),
]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("base_rows", [0, 50])
@pytest.mark.parametrize(("cls", "target", "params"), KERNEL)
def test_expansions_are_the_mean_of_functions(cls, target, params, base_rows, kind):
    data = kind(X)
    params = {"gamma": 0.2, **params}
    base, parts = split(cls, target, params, data, base_rows)
    merged = osvm.merge(parts, base)
    share = np.diff(EDGES) / N
    raw = [part._machine.decision(part._check_X(data)[0]) for part in (merged, *parts)]
    mean = sum(s * f for s, f in zip(share, raw[1:]))
    np.testing.assert_allclose(raw[0], mean, rtol=0, atol=1e-8)
    assert merged.t_ == base_rows + N
    start = 0.0 if base is None else base._machine.state.loss_sum
    total = start + sum(part._machine.state.loss_sum - start for part in parts)
    assert np.isclose(merged._machine.state.loss_sum, total)
    if base is not None:  # rows of the base are there once
        assert merged.n_support_ < sum(part.n_support_ for part in parts)
    state = merged._machine.state
    if state.trace:
        alpha, K = state.alpha(), merged._machine.kernel(state.support_vectors(), None)
        assert np.isclose(state.sq_norm, np.sum(alpha * (K @ alpha)), rtol=1e-6)
    again = copied(merged)
    for model in (merged, again):
        learnt(model, target, 0, 40, data)
    assert merged.to_bytes() == again.to_bytes()


def survivors(gram, alpha, k_self, rule, budget):
    """Rows that stay, one victim at a time; the first of equals goes."""
    left = list(range(len(alpha)))
    while len(left) > budget:
        size = (alpha[left] ** 2).sum(axis=1)
        if rule == "fifo":
            size = np.arange(len(left))
        elif rule == "term":
            size = size * k_self[left]
        elif rule == "change":
            size = size * (gram[np.ix_(left, left)] ** 2).sum(axis=1)
        left.pop(int(np.argmin(size)))
    return left


@pytest.mark.parametrize("rule", ["fifo", "coefficient", "term", "change"])
def test_the_budget_is_kept_by_the_eviction_rule(rule):
    params = {"kernel": "polynomial", "gamma": 0.3, "budget": 30, "eviction": rule}
    params["average"] = False  # rows go by the coefficients of the last step
    _, parts = split("KernelClassifier", "multi", params)
    merged = osvm.merge(parts)
    assert merged.n_support_ == 30
    share = np.diff(EDGES) / N
    # newest rows last, by turns
    rows, alpha, age = [], [], []
    for s, part in zip(share, parts):
        n = part.n_support_
        rows.append(part.support_vectors_)
        alpha.append(s * part.dual_coef_.T)
        age.append(np.arange(n)[::-1])
    order = np.argsort(-np.concatenate(age), kind="stable")
    rows, alpha = np.concatenate(rows)[order], np.concatenate(alpha)[order]
    gram = merged._machine.kernel(rows, rows)
    left = survivors(gram, alpha, np.diag(gram), rule, 30)
    np.testing.assert_array_equal(merged.support_vectors_, rows[left])
    np.testing.assert_allclose(merged.dual_coef_.T, alpha[left])
    assert osvm.merge(parts).to_bytes() == merged.to_bytes()
    merged.partial_fit(X[:50], Y["multi"][:50])


def test_kernel_labels_are_united():
    y = np.array(["a", "b", "c", "d"])[np.digitize(SCORE, [-1, 0, 1])]
    parts = []
    for known in (["a", "b", "c"], ["d", "a"]):
        rows = np.isin(y, known)
        parts.append(osvm.KernelClassifier(gamma=0.2).partial_fit(X[rows], y[rows]))
    merged = osvm.merge(parts, weights="equal")
    assert merged.classes_.tolist() == ["a", "b", "c", "d"]
    one, two = parts[0].decision_function(X), parts[1].decision_function(X)
    expected = np.column_stack([one, np.zeros(N)]) / 2
    expected[:, 0] -= two / 2  # of its two classes "a" is the first
    expected[:, 3] += two / 2
    np.testing.assert_allclose(merged.decision_function(X), expected, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from(["hinge", "logistic"]),
)
def test_merging_copies_changes_nothing(rows, average, loss):
    """However many copies, whatever their weights: the mean of equals is the same model."""
    model = osvm.LinearClassifier(loss, average=average)
    model.partial_fit(X[: rows[0]], Y["binary"][: rows[0]], classes=["no", "yes"])
    merged = osvm.merge([copied(model) for _ in rows], weights=rows)
    np.testing.assert_allclose(merged.coef_, model.coef_, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(merged.intercept_, model.intercept_, rtol=1e-12, atol=1e-14)
    assert merged.t_ == len(rows) * model.t_
    # rates follow the sum of all gradients, a step size the mean number of steps
    n = len(rows) if model._plan.schedule.name == "auto" else 1
    assert merged._learner.t == n * model._learner.t


def test_what_cannot_be_merged_is_named():
    fitted = lambda **params: osvm.LinearClassifier(**params).partial_fit(X, Y["binary"])  # noqa: E731
    one = fitted()
    with pytest.raises(ValueError, match="no models"):
        osvm.merge([])
    with pytest.raises(TypeError, match="part 1 is a LinearRegressor"):
        osvm.merge([one, osvm.LinearRegressor().partial_fit(X, SCORE)])
    with pytest.raises(TypeError, match="not dict"):
        osvm.merge([{}])
    with pytest.raises(ValueError, match=r"part 1 has reg=0\.5"):
        osvm.merge([one, fitted(reg=0.5)])
    with pytest.raises(ValueError, match="part 2 has 3 columns, part 0 9"):
        osvm.merge([one, one, osvm.LinearClassifier().partial_fit(X[:, :3], Y["binary"])])
    with pytest.raises(ValueError, match="part 1: new labels"):
        osvm.merge([one, osvm.LinearClassifier().partial_fit(X, (SCORE > 0).astype(int))])
    with pytest.raises(ValueError, match="fewer than the base"):
        osvm.merge([one, osvm.LinearClassifier().partial_fit(X[:9], Y["binary"][:9])], one)
    with pytest.raises(ValueError, match="3 weights for 2 models"):
        osvm.merge([one, one], weights=[1, 2, 3])
    for weights in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], "columns"):
        with pytest.raises(ValueError, match="weights must be"):
            osvm.merge([one, one], weights=weights)
    with pytest.raises(ValueError, match="schedule='smd' cannot be merged"):
        osvm.merge([fitted(schedule="smd")] * 2)
    with pytest.raises(ValueError, match="give reg, not C"):
        osvm.merge([osvm.LinearClassifier(C=1.0).fit(X[:n], Y["binary"][:n]) for n in (100, 200)])
    with pytest.raises(TypeError, match="of streams, not SVC"):
        osvm.merge([osvm.SVC(solver="ol_svm").fit(X, Y["binary"])] * 2)
    with pytest.raises(ValueError, match="part 1 has the kernel"):
        osvm.merge(
            [osvm.KernelClassifier(gamma="scale").partial_fit(c * X, Y["binary"]) for c in (1, 2)]
        )
    with pytest.raises(Exception, match="not fitted"):
        osvm.merge([one, osvm.LinearClassifier()])


def test_names_of_columns_must_agree():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(X[:, :3], columns=list(names)) for names in ("abc", "abd")]
    parts = [osvm.LinearClassifier().partial_fit(frame, Y["binary"]) for frame in frames]
    with pytest.raises(ValueError, match="part 1 and part 0 differ in the names"):
        osvm.merge(parts)
    assert list(osvm.merge(parts[:1] * 2).feature_names_in_) == list("abc")


def test_models_of_text_count_the_documents_of_all_parts():
    """And those of the model they went on from once."""
    texts = ["good film", "bad film", "good plot", "bad plot and bad film", "fine film", "good"]
    y = np.array([1, 0, 1, 0, 1, 1])

    def trained(start, rows):
        model = (
            copy.deepcopy(start) if start is not None else osvm.LinearClassifier(random_state=0)
        )
        if start is None:
            model.tokenizer_ = HashingTokenizer(bits=10)
        documents = [texts[i] for i in rows]
        X = model.tokenizer_.partial_fit(documents).transform(documents)
        return model.partial_fit(X, y[rows], classes=[0, 1])

    base = trained(None, [0, 1])
    parts = [trained(base, [2, 3]), trained(base, [4, 5])]
    merged = osvm.merge(parts, base=base)
    whole = HashingTokenizer(bits=10).fit(texts)
    assert merged.tokenizer_.n_documents_ == 6
    for ours, want in zip(merged.tokenizer_.hasher.get_counts(), whole.hasher.get_counts()):
        np.testing.assert_array_equal(ours, want)
    assert set(merged.predict(["good film", "bad plot"]).tolist()) <= {0, 1}
    alone = osvm.merge([trained(None, [0, 1]), trained(None, [2, 3])])
    assert alone.tokenizer_.n_documents_ == 4
    del parts[1].tokenizer_
    with pytest.raises(ValueError, match="only some of the models hold a tokenizer"):
        osvm.merge(parts)


def test_weights_whose_sum_overflows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    parts = [osvm.LinearClassifier(random_state=k).fit(X, X[:, k] > 0) for k in range(2)]
    want = osvm.merge(parts, weights=[1.0, 1.0])
    found = osvm.merge(parts, weights=[1.5e308, 1.5e308])
    assert np.array_equal(found.coef_, want.coef_)
    assert np.abs(found.coef_).max() > 0
