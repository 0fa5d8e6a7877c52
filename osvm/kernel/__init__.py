"""Kernel learners: classifier, regressor and novelty detector.

Source: Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing Kernel
Hilbert Space" (JMLR 2006) for the bounded buffer (`solver="buffer"`).  One step is in
`osvm/kernel/buffer/loop.pyx`; parts come from `osvm.losses`, `osvm.schedules`, `osvm.kernels`
and `osvm.taxonomy`.  `SOLVERS` lists every way to learn.
"""

from osvm.kernel.classifier import SOLVERS, KernelClassifier
from osvm.kernel.novelty import KernelNovelty
from osvm.kernel.regressor import KernelRegressor

__all__ = ["SOLVERS", "KernelClassifier", "KernelNovelty", "KernelRegressor"]

# The room is the public address of its classes; one module holds each.
for _class in (KernelClassifier, KernelNovelty, KernelRegressor):
    _class.__module__ = __name__
