"""Kernel learners: of a stream, and of a fixed training set.

`KernelClassifier`, `KernelRegressor` and `KernelNovelty` learn one example at a time with a
bounded expansion (Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing
Kernel Hilbert Space", JMLR 2006; one step is in `osvm/kernel/buffer/loop.pyx`).  `SVC`,
`SVR` and `OneClassSVM` learn a fixed training set to a tolerance (`osvm.solvers`).  Parts come
from `osvm.losses`, `osvm.schedules`, `osvm.kernels` and `osvm.taxonomy`.
"""

from osvm.kernel.classifier import KernelClassifier
from osvm.kernel.novelty import KernelNovelty
from osvm.kernel.regressor import KernelRegressor
from osvm.kernel.svc import SVC
from osvm.kernel.svr import SVR, OneClassSVM
from osvm.kernel.upgrade import upgrade as upgrade  # for model files

__all__ = [
    "SVC",
    "SVR",
    "KernelClassifier",
    "KernelNovelty",
    "KernelRegressor",
    "OneClassSVM",
]

# The room is the public address of its classes; one module holds each.
for _class in (SVC, SVR, OneClassSVM, KernelClassifier, KernelNovelty, KernelRegressor):
    _class.__module__ = __name__
