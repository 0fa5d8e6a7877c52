"""Past one machine with dask: the public address of `osvm.distributed.dask`.

>>> import osvm.dask
>>> model = osvm.dask.fit(osvm.LinearClassifier(), dX, dy)          # doctest: +SKIP
>>> osvm.dask.predict(model, dX_test).compute()                     # doctest: +SKIP
"""

from osvm.distributed.dask import (
    KernelClassifier,
    KernelNovelty,
    KernelRegressor,
    LinearClassifier,
    LinearNovelty,
    LinearRegressor,
    MultilabelClassifier,
    decision_function,
    fit,
    predict,
    predict_proba,
)

__all__ = [
    "KernelClassifier",
    "KernelNovelty",
    "KernelRegressor",
    "LinearClassifier",
    "LinearNovelty",
    "LinearRegressor",
    "MultilabelClassifier",
    "decision_function",
    "fit",
    "predict",
    "predict_proba",
]
