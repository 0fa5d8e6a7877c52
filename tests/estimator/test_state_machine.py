"""Any sequence of calls keeps a model's invariants.

A model learns, is read, saved, loaded, pickled, copied, given other parameters and called
wrongly, in any order.  After each call

- what was refused has changed nothing, and so has everything that only reads;
- a block of n examples makes `t_` larger by n;
- scores and weights are finite, and the norm that a linear model keeps is that of its weights;
- at the end, a new model that makes the same learning calls alone has the same bits.
"""

import copy
import pickle
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from saved_models import KINDS, Y, fingerprint, learn, rows_of, scores

import osvm
from osvm._estimator.compat import clone

REFUSALS = (ValueError, TypeError, AttributeError, FloatingPointError)
FAMILIES = {
    "linear": [kind for kind in KINDS if kind.startswith("Linear")],
    "kernel": [kind for kind in KINDS if kind.startswith("Kernel")],
    "labels": [kind for kind in KINDS if kind.startswith(("Multilabel", "Alma"))],
    "fixed": [kind for kind in KINDS if kind.startswith(("SVC", "SVR", "OneClass"))],
    "recipes": [kind for kind in KINDS if kind.startswith("recipes.")],
}
# What may change in mid-stream; an estimator takes those that it has.
CHANGES = [
    ("reg", 0.05), ("reg", 0.002), ("average", True), ("average", False), ("epochs", 2),
    ("fit_intercept", False), ("shuffle", False), ("batch_size", 3), ("project", 1.5),
    ("budget", 8), ("record", True), ("normalize", True), ("class_weight", "balanced"),
    ("C", 0.3), ("gamma", 0.5), ("kernel", "linear"), ("max_iter", 2), ("probability", True),
    ("reg", -1.0), ("schedule", "nonsense"), ("loss", 3),
]  # fmt: skip
BAD_ROWS = {
    "nan": lambda X: _changed(X, np.nan),
    "inf": lambda X: _changed(X, np.inf),
    "narrow": lambda X: X[:, :-1],
    "text": lambda X: [["a"] * X.shape[1]] * X.shape[0],
    "flat": lambda X: np.zeros(X.shape[1]),
}


def _changed(X, value):
    X = X.copy()
    (X.data if hasattr(X, "indptr") else X)[-1:] = value
    return X


class Calls(RuleBasedStateMachine):
    """The calls; `kinds` are those that one of them is drawn from."""

    kinds: list[str]
    folder: object

    @initialize(data=st.data())
    def start(self, data):
        self.kind = data.draw(st.sampled_from(self.kinds))
        self.maker, self.target = KINDS[self.kind]
        self.rows = rows_of(self.kind)
        self.model = self.maker()
        self.learnt = []  # what a new model repeats
        params = self.model.get_params()
        self.may_refuse = bool(params.get("C")) or params.get("batch_size") == "full"
        self.looks_first = params.get("scale") in ("std", "maxabs")  # needs fit before streams

    @property
    def fitted(self):
        return "t_" in self.model.__dict__

    def _apply(self, model, step):
        name, given = step
        if name == "set_params":
            model.set_params(**given)
        elif name == "learn_one":
            row = self.rows[given : given + 1]
            row = row.tocsr() if hasattr(row, "tocsr") else osvm_row(row)
            y = Y[self.target]
            model.learn_one(
                row.indices, row.data, *(() if y is None else (y[given : given + 1][0],))
            )
        else:
            extra = {}
            if name == "partial_fit" and type(model).__name__ == "AlmaClassifier":
                extra = {"classes": np.unique(Y[self.target])}
            if extra:
                model.partial_fit(self.rows[given], Y[self.target][given], **extra)
            else:
                learn(model, self.target, name, given, self.rows)

    def _learn(self, step, n):
        before = fingerprint(self.model)
        t = self.model.__dict__.get("t_", 0)
        refusal = None
        try:
            self._apply(self.model, step)
        except REFUSALS as error:
            refusal = str(error)
        if refusal is not None:
            may = self.may_refuse or (self.looks_first and not self.fitted and step[0] != "fit")
            assert may, f"{self.kind} refuses {step}: {refusal}"
            assert refusal
            assert fingerprint(self.model) == before, f"{self.kind}: {step} changed the model"
            return
        self.learnt.append(step)
        if step[0] != "fit":
            assert self.model.t_ == t + n

    # -------------------------------------------------------------- learning

    @rule()
    def fit(self):
        self._learn(("fit", slice(None)), None)

    @precondition(lambda self: hasattr(self.model, "partial_fit"))
    @rule(start=st.integers(0, 59), n=st.sampled_from([1, 2, 7, 25]))
    def partial_fit(self, start, n):
        rows = slice(start, min(start + n, 60)) if self.fitted else slice(0, 40)
        self._learn(("partial_fit", rows), rows.stop - rows.start)

    @precondition(lambda self: self.fitted and hasattr(self.model, "learn_one"))
    @rule(row=st.integers(0, 59), times=st.integers(1, 3))
    def learn_one(self, row, times):
        for _ in range(times):
            self._learn(("learn_one", row), 1)

    @rule(change=st.sampled_from(CHANGES))
    def set_params(self, change):
        name, value = change
        if name not in self.model.get_params():
            return
        self.model.set_params(**{name: value})
        self.learnt.append(("set_params", {name: value}))
        self.may_refuse = True

    # --------------------------------------------------------------- reading

    @precondition(lambda self: self.fitted)
    @rule()
    def predict(self):
        before = fingerprint(self.model)
        try:
            first, again = (self.model.predict(self.rows) for _ in range(2))
        except REFUSALS:
            assert self.may_refuse
        else:
            assert np.array_equal(first, again)
        assert fingerprint(self.model) == before

    def _replace(self, other):
        assert other is not self.model
        assert fingerprint(other) == fingerprint(self.model), self.kind
        self.model = other

    @precondition(lambda self: self.fitted)
    @rule()
    def save_and_load(self):
        path = self.folder / "model.osvm"
        self.model.save(path)
        try:
            other = osvm.load(path)
        except osvm.io.ModelFileError:
            assert self.may_refuse  # parameters that no model can have
        else:
            self._replace(other)

    @rule(way=st.sampled_from(["pickle", "copy", "deepcopy"]))
    def copy(self, way):
        if way == "pickle":
            self._replace(pickle.loads(pickle.dumps(self.model)))
        else:
            self._replace(getattr(copy, way)(self.model))

    @rule()
    def clone(self):
        before = fingerprint(self.model)
        other = clone(self.model)
        assert repr(other.get_params()) == repr(self.model.get_params())
        assert "t_" not in other.__dict__
        assert fingerprint(self.model) == before

    # --------------------------------------------------------------- failing

    @rule(
        method=st.sampled_from(["fit", "partial_fit", "predict"]), bad=st.sampled_from([*BAD_ROWS])
    )
    def fail(self, method, bad):
        if not hasattr(self.model, method) or (bad == "narrow" and method == "fit"):
            return
        if bad == "narrow" and not self.fitted:
            return
        before = fingerprint(self.model)
        rows, y = BAD_ROWS[bad](self.rows), Y[self.target]
        given = (rows,) if method == "predict" or y is None else (rows, y)
        with pytest.raises(REFUSALS):
            getattr(self.model, method)(*given)
        assert fingerprint(self.model) == before, f"{self.kind}: {method} of {bad} rows"

    @precondition(lambda self: Y[self.target] is not None)
    @rule(method=st.sampled_from(["fit", "partial_fit"]))
    def fail_by_targets(self, method):
        if not hasattr(self.model, method):
            return
        before = fingerprint(self.model)
        with pytest.raises(REFUSALS):
            getattr(self.model, method)(self.rows, Y[self.target][:-1])
        assert fingerprint(self.model) == before

    # ------------------------------------------------------------ invariants

    @invariant()
    def numbers_are_finite(self):
        if not hasattr(self, "model") or not self.fitted:
            return
        try:
            found = scores(self.model, self.rows)
        except REFUSALS:
            assert self.may_refuse
        else:
            assert np.isfinite(found).all()
        weights = getattr(self.model.__dict__.get("_learner"), "weights", None)
        if weights is not None and hasattr(weights, "norm"):
            norm = np.linalg.norm(weights.array())
            tolerance = 1e-4 if weights.v.dtype == np.float32 else 1e-7
            assert abs(weights.norm - norm) <= tolerance * max(1.0, norm), self.kind

    def teardown(self):
        if not hasattr(self, "model"):
            return
        again = self.maker()
        for step in self.learnt:
            self._apply(again, step)
        assert fingerprint(again) == fingerprint(self.model), f"{self.kind}: {self.learnt}"


def osvm_row(row):
    """A dense row as CSR; zeros are left out, as `learn_one` gets them."""
    from scipy.sparse import csr_array

    return csr_array(row)


def run(family, tmp_path, examples, steps):
    machine = type("Machine", (Calls,), {"kinds": FAMILIES[family], "folder": tmp_path})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=examples < 100,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_any_sequence_of_calls(family, tmp_path):
    run(family, tmp_path, 40, 15)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_sequences_of_calls(family, tmp_path):
    run(family, tmp_path, 1000, 40)
