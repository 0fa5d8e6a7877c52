"""scikit-learn's own tests of SVC, SVR and OneClassSVM, run on osvm's.

`substitute_svm.py` puts osvm's classes into `sklearn.svm`; what then fails is listed here with the
reason, and in doc/guide/scikit_learn.rst for users.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

tests = pytest.importorskip("sklearn.svm.tests")

OWN = "it reads or sets a private attribute of scikit-learn"
NEGATIVE = "negative weights are refused, not taken for 0"
DIFFERENCES = {
    "test_svr_errors": "a function that returns a wrong shape is refused by fit already",
    "test_tweak_params": OWN,
    "test_svc_ovr_tie_breaking": "another stationary point of a kernel that is not definite",
    "test_negative_sample_weights_mask_all_samples": NEGATIVE,
    "test_negative_weights_svc_leave_just_one_label": NEGATIVE,
    "test_negative_weights_svc_leave_two_labels": NEGATIVE,
    "test_negative_weight_equal_coeffs": NEGATIVE,
    "test_bad_input": "a model of dense rows predicts sparse ones",
    "test_svc_nonfinite_params": "rows too large are refused by another message",
    "test_sparse_precomputed": "a sparse kernel matrix is accepted",
    "test_sparse_fit_support_vectors_empty": "dual_coef_ is an array for sparse rows too",
    "test_libsvm_convergence_warnings": "max_iter counts passes over the rows: two are enough",
    "test_gamma_scale": OWN,
    "test_custom_kernel_not_array_input": "rows are numbers, also for a function",
    "test_svc_raises_error_internal_representation": OWN,
    "test_probability_raises_futurewarning": "probability is not deprecated",
    "test_svc_nusvc_probA_probB_deprecated": "probA_ and probB_ are gone there",
}


def test_what_differs_is_listed(tmp_path):
    folder = Path(__file__).parent
    search = [str(folder.parents[1]), str(folder), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "substitute_svm",
         "-p", "no:cacheprovider", "-c", os.devnull, str(Path(tests.__path__[0]) / "test_svm.py")],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE))
    assert failed <= set(DIFFERENCES), done.stdout
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed > 90
    assert "test_libsvm_parameters" not in failed


def test_the_guide_lists_them():
    guide = Path(__file__).resolve().parents[2] / "doc" / "guide" / "scikit_learn.rst"
    text = guide.read_text(encoding="utf-8")
    for name in (
        "shrinking",
        "probA_",
        "one against one",
    ):
        assert name in text
