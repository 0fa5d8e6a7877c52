"""scikit-learn's own checks of the kernel estimators."""

import pytest

import osvm

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

REASON = "a weight is not a repetition, or equal to one within tol: as for scikit-learn's own"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}


@parametrize_with_checks(
    [
        osvm.KernelClassifier(random_state=0),
        osvm.KernelClassifier(random_state=0, loss="multiclass_hinge", schedule="inverse_sqrt"),
        osvm.KernelRegressor(random_state=0),
        osvm.KernelNovelty(random_state=0),
        osvm.SVC(),
        osvm.SVC(kernel="precomputed"),
        osvm.SVR(),
        osvm.OneClassSVM(),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn_check(estimator, check):
    check(estimator)
