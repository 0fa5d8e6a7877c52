"""`merge`: many models of one kind into one.

What an estimator adds to its learner (labels, class counts, sigmoids, the resolved parameters)
is merged here; weights in `osvm.linear.merging`, expansions in
`osvm.kernel.buffer.merge_machines`.  The result enters an estimator by the door that model
files use.

Invariants
- the models that go in are not changed;
- the same models in the same order give the same bits.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from osvm._estimator.compat import clone
from osvm._input.labels import LabelIndex
from osvm._input.types import Array, State
from osvm.io.encoding import encode
from osvm.kernel.base import KernelEstimator
from osvm.kernel.buffer.merge_machines import merge_machines
from osvm.linear import MultilabelClassifier
from osvm.linear.adaptive_merging import in_units, merge_adaptive
from osvm.linear.adaptive_state import AdaptiveLearner
from osvm.linear.base import LinearEstimator
from osvm.linear.learner import SGDLearner
from osvm.linear.merging import Outputs, merge_sigmoids, merge_states
from osvm.linear.plan import is_chosen
from osvm.linear.scaling import Scaling, same_center

# Parameters that say nothing about what is learnt.
_FREE = ("callback", "n_jobs", "random_state", "record", "verbose")


def merge(models: Sequence[Any], base: Any = None, weights: Any = "rows") -> Any:
    """One model out of many that have learnt different rows.

    Weights, intercepts and kernel expansions are the weighted mean of the parts';
    examples, losses, errors and class counts are added up; an average of iterates is that of
    all iterates made anywhere.  The schedule goes on as after the mean number of steps.
    Where each weight has a rate of its own ("auto", "adaptive", "coin_betting"), the mean of a
    weight is by what each part has learnt of it: its share times the squared gradients that it
    has added, so that a word which one part alone has seen keeps its weight.  Of the settings
    that "auto" lets compete those stay which all parts still have.

    Parameters
    ----------
    models : sequence of fitted estimators of one class
        `LinearClassifier`, `LinearRegressor`, `LinearNovelty`, `MultilabelClassifier`,
        or kernel estimators of streams.  They have the same parameters and columns.
    base : estimator, optional
        The model that all of them went on from: what it had counted counts once, and its
        rows have no share in the weights.
    weights : {"rows", "equal"} or array, default "rows"
        The share of each model: by the rows that it has seen (since `base`), the same for
        all, or as given.

    Returns
    -------
    estimator
        New; the models stay as they are.  `history_` is not merged.

    Notes
    -----
    Labels are united: sorted, unless all parts agree on another order or `base` begins
    one.  A class that a part does not know has zero weights there; a label of a
    `MultilabelClassifier` is averaged over the parts that know it.

    The same models in the same order give the same bits, on any machine with the same
    arithmetic.  Merging by pairs, ``merge([merge([a, b], base), merge([c, d], base)], base)``,
    gives the same bits every time too, but equals ``merge([a, b, c, d], base)`` to
    rounding only, and another order of the models differs by rounding as well.  Kernel
    expansions beyond their budget depend on the order and on the tree, since rows are
    evicted at each merge.  With ``weights="equal"`` or given weights a tree has other
    shares than a flat merge.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> parts = [
    ...     osvm.LinearClassifier(reg=0.1).partial_fit(X[k::4], y[k::4], classes=[0, 1])
    ...     for k in range(4)
    ... ]
    >>> merged = osvm.merge(parts)
    >>> merged.t_
    400
    >>> bool(np.allclose(merged.coef_, np.mean([part.coef_ for part in parts], axis=0)))
    True
    """
    models = list(models)
    if not models:
        raise ValueError("there are no models to merge")
    _check_alike(models, base)
    rows = np.array([float(model.t_ - _count(base)) for model in models])
    for number in np.flatnonzero(rows < 0).tolist():
        raise ValueError(
            f"part {number} has seen {models[number].t_} examples, fewer than the base "
            f"({base.t_}): it did not go on from there"
        )
    shares = _shares(weights, rows)
    if len(models) == 1:
        with models[0]._lock:
            return _flushed(copy.deepcopy(models[0]))
    merged = clone(models[0])
    if isinstance(merged, KernelEstimator):
        state = _merge_kernel(models, base, shares)
    elif isinstance(merged, MultilabelClassifier):
        state = _merge_label_sets(models, base, shares)
    else:
        state = _merge_linear(merged, models, base, shares)
    merged._set_state(*state)
    if isinstance(merged, KernelEstimator):
        merged._machine.refresh()
    if any("tokenizer_" in model.__dict__ for model in models):
        merged.tokenizer_ = _merged_tokenizer(models, base)
    return merged


def _merged_tokenizer(models: list[Any], base: Any) -> Any:
    """It has counted the documents of all parts, and those of the base once."""
    first, *others = (model.__dict__.get("tokenizer_") for model in models)
    if first is None or any(other is None for other in others):
        raise ValueError("only some of the models hold a tokenizer: they have other columns")
    start = None if base is None else base.__dict__.get("tokenizer_")
    return copy.deepcopy(first).merge(*others, base=start)


# ---------------------------------------------------------------------- checks


def _count(base: Any) -> int:
    return 0 if base is None else int(base.t_)


def _check_alike(models: list[Any], base: Any) -> None:
    """Raise unless all parts are of one kind, with the same parameters and columns."""
    first = models[0]
    if not isinstance(first, LinearEstimator | MultilabelClassifier | KernelEstimator):
        raise TypeError(
            f"merge takes linear and kernel estimators of streams, not {type(first).__name__}"
        )
    params = comparable(first)
    for number, model in enumerate([*models, *([] if base is None else [base])]):
        name = f"part {number}" if number < len(models) else "the base"
        if type(model) is not type(first):
            raise TypeError(f"{name} is a {type(model).__name__}, part 0 {type(first).__name__}")
        model._check_fitted()
        for key, value in comparable(model).items():
            if value != params[key]:
                raise ValueError(f"{name} has {key}={value!r:.60}, part 0 {params[key]!r:.60}")
        if model.n_features_in_ != first.n_features_in_:
            raise ValueError(
                f"{name} has {model.n_features_in_} columns, part 0 {first.n_features_in_}"
            )
        own, other = (m.__dict__.get("feature_names_in_", [None]) for m in (model, first))
        if list(own) != list(other):
            raise ValueError(f"{name} and part 0 differ in the names of their columns")


def comparable(model: Any) -> dict[str, Any]:
    """Parameters in a form that can be compared."""
    out = {}
    for key, value in model.get_params(deep=False).items():
        if key not in _FREE:
            try:
                out[key] = encode(value, key)
            except ValueError:  # an object that no file can hold
                out[key] = value
    return out


def _shares(weights: Any, rows: Array) -> Array:
    if isinstance(weights, str):
        if weights not in ("rows", "equal"):
            raise ValueError(f"weights must be 'rows', 'equal' or numbers, got {weights!r}")
        given = np.ones(len(rows)) if weights == "equal" or not rows.any() else rows
    else:
        given = np.array(weights, np.float64)
        if given.shape != rows.shape:
            raise ValueError(f"{given.size} weights for {len(rows)} models")
        if not np.isfinite(given).all() or given.min() < 0 or given.max() <= 0:
            raise ValueError("weights must be finite, not negative, and not all zero")
        given /= given.max()  # or their sum may overflow
    return given / given.sum()


# ---------------------------------------------------------------------- labels


def _united(indices: list[LabelIndex], base: LabelIndex | None) -> LabelIndex:
    """The labels of all parts; an order that all share, or the base's, stays."""
    if base is None and all(index == indices[0] for index in indices):
        return indices[0]
    found = base
    labels = [index.classes for index in indices]
    for number, part in enumerate(labels):
        try:
            if found is None:
                found = LabelIndex.of(part)
            found, _ = found.grown(part)
        except ValueError as error:
            raise ValueError(f"part {number}: {error}") from None
    assert found is not None
    n = 0 if base is None else len(base)
    tail = LabelIndex.of(found.classes[n:]).classes if len(found) > n else found.classes[n:]
    return LabelIndex(np.concatenate([found.classes[:n], tail]))


def _outputs(index: LabelIndex, union: LabelIndex, n_old: int, n_new: int) -> Outputs:
    """Which outputs of the union a part's outputs are; two classes may have one output."""
    codes = union.encode(index.classes).tolist()
    if n_old > 1:
        if n_new == 1:
            raise ValueError("a model of several outputs cannot become one of one output")
        return codes, list(range(len(codes))), [1.0] * len(codes)
    signs = [-1.0, 1.0][: len(codes)]
    if n_new > 1:
        return codes, [0] * len(codes), signs
    return [0], [0], [signs[0] if codes[0] == 1 else -signs[0]]


def _added_counts(parts: list[Any], codes: list[list[int]], base: Any, n: int) -> list[int]:
    """Class counts of the parts, those of the base once; `codes` are the base's at the end."""
    total = np.zeros(n, np.int64)
    for counts, code in zip(parts, codes):
        np.add.at(total, code[: len(counts)], np.asarray(counts, np.int64))
    if base is not None:
        np.add.at(total, codes[-1][: len(base)], -(len(parts) - 1) * np.asarray(base, np.int64))
    return total.tolist()


# ---------------------------------------------------------------------- linear


def _flushed(model: Any) -> Any:
    """The model, a copy of it where a mini-batch must be closed first."""
    inner = model.__dict__.get("_models") or [model]
    if not any(getattr(m.__dict__.get("_learner"), "pending_examples", 0) for m in inner):
        return model
    model = copy.deepcopy(model)
    for one in model.__dict__.get("_models") or [model]:
        one._learner.flush()
    return model


def _state(model: Any, plain: bool = True) -> State:
    """The state; with `plain` of what `Auto` chose the weights that answer, as `Bottou`'s."""
    with model._lock:
        model = _flushed(model)
        if not isinstance(model, LinearEstimator) or not plain:
            return model._get_state()
        if not isinstance(model._learner, SGDLearner) and not is_chosen(model._plan):
            raise ValueError(
                f"models with schedule={model._plan.schedule.name!r} cannot be merged with "
                "others, or without their traces: use another schedule"
            )
        if model._plan.lazy:
            raise ValueError("models with a lazy projection cannot be merged: leave lazy at False")
        return model._get_plain_state()


def _adapt_alike(models: list[Any]) -> bool:
    """Whether all of them are learners of adaptive steps with the same settings."""
    plan = models[0]._plan
    return all(
        isinstance(model._learner, AdaptiveLearner)
        and model._plan.schedule == plan.schedule
        and model._plan.average_from == plan.average_from
        for model in models
    )


def _split(state: State, factors: Array | None) -> tuple[dict[str, Any], State, Array | None]:
    """The model's scalars, the learner's state, and the sigmoids.

    Weights are brought into the units of a model whose columns have these factors.
    """
    scalars, arrays = state
    arrays = dict(arrays)
    own = arrays.pop("column_factors", None)
    arrays.pop("column_center", None)
    if own is not None and factors is not None and not np.array_equal(own, factors):
        for name in {"w_v", "w_u"} & arrays.keys():
            weights = arrays[name]
            times = (own / factors).reshape(-1, *[1] * (weights.ndim - 1))
            arrays[name] = (weights * times).astype(weights.dtype)
        if "cells" in arrays:
            arrays["cells"] = in_units(arrays["cells"], arrays["offsets"], own / factors)
    arrays.pop("delta", None)
    arrays.pop("recent", None)
    platt = arrays.pop("platt", None)
    return scalars, (scalars["learner"], arrays), platt


def _around(model: Any, scaling: Scaling | None) -> Any:
    """The model, a copy of it where columns must be moved to the center of another model."""
    own = model._scaling
    center, other = (None if one is None else one.center for one in (own, scaling))
    if same_center(center, other):
        return model
    d = model.n_features_in_
    factors = np.ones(d) if own is None else own.factors
    gap = (np.zeros(d) if center is None else center) - (np.zeros(d) if other is None else other)
    with model._lock:
        moved = copy.copy(model)
        moved._learner = model._learner.copy()
    moved._learner.move_origin(factors * gap)
    return moved


def _merge_linear(merged: Any, models: list[Any], base: Any, shares: Array) -> State:
    """The state of the merged model; parts are opened one after the other."""
    union, outputs, n_out = None, None, 1
    everyone = [*models, *([] if base is None else [base])]
    if "_index" in models[0].__dict__:
        indices = [model._index for model in everyone]
        union = _united(indices[: len(models)], None if base is None else base._index)
        n_out = merged._n_out(len(union), models[0]._plan)
        if any(index != union for index in indices):
            outputs = [
                _outputs(index, union, model._learner.weights.n_out, n_out)
                for index, model in zip(indices, everyone)
            ]
    adapts = _adapt_alike(everyone)
    opened: list[tuple[dict[str, Any], Array | None]] = []
    scaling = (models[0] if base is None else base)._scaling
    factors = None if scaling is None else scaling.factors

    def parts() -> Any:
        for number, model in enumerate(models):
            state = _state(_around(model, scaling), not adapts)
            scalars, learner, platt = _split(state, factors)
            given = model.reg is not None or model.C is not None or "offset" not in scalars
            if given and opened and scalars["reg"] != opened[0][0]["reg"]:
                raise ValueError(
                    f"part {number} has learnt with reg={scalars['reg']!r}, part 0 with "
                    f"{opened[0][0]['reg']!r}: give reg, not C"
                )
            opened.append((scalars, platt))
            yield learner

    start, sigmoids = None, None
    if base is not None:
        base_scalars, start, sigmoids = _split(_pending_dropped(base, not adapts), factors)
    if adapts:
        layout = models[0]._plan.layout()
        known = [{"alive": model._learner.alive} for model in models]
        settings = layout.common(known, shares)
        learner, arrays = merge_adaptive(parts(), shares, layout, settings, start, outputs, n_out)
    else:
        learner, arrays = merge_states(parts(), shares, start, outputs, n_out)
    scalars = dict(opened[0][0] if base is None else base_scalars)
    scalars |= {"learner": learner, "n_out": n_out, "t": int(learner["seen"])}
    scalars["dtype"] = str(arrays["cells" if adapts else "w_v"].dtype)
    if base is None:  # each part has found a first step of its own
        plans = [part for part, _ in opened]
        if plans[0]["t0"] is not None:
            scalars["t0"] = _mean([part["t0"] for part in plans], shares)
        steps = [part["plan"]["intercept_step"] for part in plans]
        scalars["plan"] = {**plans[0]["plan"], "intercept_step": _mean(steps, shares)}
    if scaling is not None:
        arrays |= scaling.arrays()
    if opened[0][1] is not None:
        states: Any = [platt for _, platt in opened]
        arrays["platt"] = merge_sigmoids(states, shares, sigmoids, outputs, n_out)
    if "offset" in scalars:
        scalars["offset"] = _mean([part["offset"] for part, _ in opened], shares)
        if base is None:  # which each part has found from its rows
            scalars["reg"] = _mean([part["reg"] for part, _ in opened], shares)
    if union is not None:
        scalars["classes"] = union.get_state()
        codes = [union.encode(index.classes).tolist() for index in indices]
        scalars["class_counts"] = _added_counts(
            [part["class_counts"] for part, _ in opened],
            codes,
            None if base is None else base_scalars["class_counts"],
            len(union),
        )
        delta = merged._distances(union)
        if delta is not None:
            arrays["delta"] = delta
    return scalars, arrays


def _mean(values: list[float], shares: Array) -> float:
    """Exactly the value that all have, if they have one."""
    if all(value == values[0] for value in values):
        return values[0]
    return float(sum(share * value for share, value in zip(shares, values)))


def _pending_dropped(base: Any, plain: bool) -> State:
    """The base's state; the parts have taken its open mini-batch on and closed it."""
    with base._lock:
        scalars, arrays = base._get_plain_state() if plain else base._get_state()
    if plain:
        scalars["learner"] = {**scalars["learner"], "pending": 0.0}
    return scalars, arrays


def _merge_label_sets(models: list[Any], base: Any, shares: Array) -> State:
    """Label by label, over the parts that know it."""
    union = _united([model._index for model in models], None if base is None else base._index)
    apart = [_flushed(model)._label_models() for model in models]
    old = [] if base is None else base._label_models()
    names = [model._index.classes.tolist() for model in models]
    old_names = [] if base is None else base._index.classes.tolist()
    label_models = []
    for label in union.classes.tolist():
        known = [k for k, part in enumerate(names) if label in part]
        own = [apart[k][names[k].index(label)] for k in known]
        start = old[old_names.index(label)] if label in old_names else None
        weights = shares[known] if shares[known].sum() > 0 else np.ones(len(known))
        one = own[0] if len(own) == 1 else _merged_label(own, start, weights / weights.sum())
        label_models.append(one)
    whole = clone(models[0])
    for name in ("n_features_in_", "feature_names_in_"):
        if name in models[0].__dict__:
            setattr(whole, name, models[0].__dict__[name])
    whole._index = union
    whole._keep_models(label_models, models[0]._joined is not None)
    whole.t_ = _count(base) + sum(int(model.t_) - _count(base) for model in models)
    return whole._get_state()


def _merged_label(models: list[Any], base: Any, shares: Array) -> Any:
    """The model of one label.

    Its examples count as its steps do: only then can the labels go on in one pass.
    """
    merged = clone(models[0])
    scalars, arrays = _merge_linear(merged, models, base, shares)
    if all(m._learner.t == m._learner.seen for m in models):
        scalars["learner"]["seen"] = scalars["learner"]["t"]
        scalars["t"] = int(scalars["learner"]["t"])
    merged._set_state(scalars, arrays)
    return merged


# ---------------------------------------------------------------------- kernel


def _merge_kernel(models: list[Any], base: Any, shares: Array) -> State:
    """The state of the merged kernel model."""
    everyone = [*models, *([] if base is None else [base])]
    machines = [model._machine for model in everyone]
    union = None
    transfers = [np.eye(machine.n_outputs) for machine in machines]
    scalars, _ = _state(models[0])
    if "_index" in models[0].__dict__:
        indices = [model._index for model in everyone]
        union = _united(indices[: len(models)], None if base is None else base._index)
        widest = max(machine.n_outputs for machine in machines)
        joint = any(m.n_outputs > 1 for m in machines)
        n_out = max(widest, len(union)) if joint or len(union) > 2 else 1
        if any(index != union for index in indices):
            if machines[0].state.label_kernel is not None:
                raise ValueError("parts with a label_kernel must know the same classes")
            transfers = []
            for index, machine in zip(indices, machines):
                transfer = np.zeros((machine.n_outputs, n_out))
                new, old, sign = _outputs(index, union, machine.n_outputs, n_out)
                transfer[old, new] = sign
                transfers.append(transfer)
        codes = [union.encode(index.classes).tolist() for index in indices]
        counts = [getattr(m.__dict__.get("_balance"), "counts", None) for m in everyone]
        scalars["labels"] = union.get_state()
        if counts[0] is not None:
            parts, last = (counts, None) if base is None else (counts[:-1], counts[-1])
            scalars["class_counts"] = _added_counts(parts, codes, last, len(union))
    start = None if base is None else machines[-1]
    with contextlib.ExitStack() as locks:
        for model in everyone:
            locks.enter_context(model._lock)
        machine, arrays = merge_machines(
            machines[: len(models)], shares, start, transfers[: len(models)]
        )
    scalars |= {"machine": machine, "t": machine["t"]}
    return scalars, arrays
