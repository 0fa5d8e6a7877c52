"""Linear models as fitted scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

# Our losses by scikit-learn's names.  Joint losses have no counterpart: their
# scores are those of a one-vs-rest hinge model with the same weights.
_CLASSIFIER_LOSSES = {
    "hinge": "hinge",
    "squared_hinge": "squared_hinge",
    "perceptron": "perceptron",
    "logistic": "log_loss",
    "modified_huber": "modified_huber",
}
_REGRESSOR_LOSSES = {
    "squared": "squared_error",
    "huber": "huber",
    "epsilon_insensitive": "epsilon_insensitive",
}


def to_sklearn(model: Any) -> Any:
    """An SGDClassifier, SGDRegressor or SGDOneClassSVM that answers like `model`."""
    model._check_fitted()
    try:
        from sklearn import linear_model
    except ImportError as error:
        raise ImportError("to_sklearn needs scikit-learn: pip install 'osvm[sklearn]'") from error
    plan = model._plan
    common: dict[str, Any] = {"alpha": plan.reg, "average": plan.average_from >= 0}
    if model._error_kind == "class":
        if model.normalize:
            raise ValueError(_normalize_text("SGDClassifier"))
        name = _CLASSIFIER_LOSSES.get(plan.loss.name, "hinge")
        twin = linear_model.SGDClassifier(
            loss=name, fit_intercept=plan.fit_intercept, class_weight=model.class_weight, **common
        )
        twin.classes_ = model.classes_.copy()
        twin.coef_ = _dense(model.coef_)
        twin.intercept_ = model.intercept_
    elif model._error_kind == "absolute":
        if model.normalize:
            raise ValueError(_normalize_text("SGDRegressor"))
        epsilon = {"huber": "delta", "epsilon_insensitive": "epsilon"}.get(plan.loss.name)
        if epsilon is not None:
            common["epsilon"] = getattr(plan.loss, epsilon)
        twin = linear_model.SGDRegressor(
            loss=_REGRESSOR_LOSSES.get(plan.loss.name, "squared_error"),
            fit_intercept=plan.fit_intercept,
            **common,
        )
        twin.coef_ = _dense(model.coef_).ravel()
        twin.intercept_ = model.intercept_
    else:
        if model.normalize:
            raise ValueError(_normalize_text("SGDOneClassSVM"))
        twin = linear_model.SGDOneClassSVM(average=common["average"])
        twin.coef_ = _dense(model.coef_).ravel()
        twin.offset_ = np.atleast_1d(model.offset_ - model.intercept_)
    twin.t_ = float(model.t_) + 1.0
    twin.n_iter_ = max(1, int(getattr(model, "n_iter_", 1)))
    twin.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        twin.feature_names_in_ = model.feature_names_in_
    return twin


def _dense(coef: Any) -> Any:
    return np.array(coef.toarray() if hasattr(coef, "toarray") else coef)


def _normalize_text(target: str) -> str:
    return (
        f"normalize=True has no counterpart in {target}: put sklearn.preprocessing.Normalizer "
        "before a model that was trained with normalize=False"
    )
