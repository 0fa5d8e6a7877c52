"""Scripts written for scikit-learn give the same scores after a change of the import."""

import warnings

import pytest

import osvm

svm = pytest.importorskip("sklearn.svm")
drop_in = pytest.importorskip("asv_bench.drop_in")


@pytest.mark.parametrize("script", drop_in.SCRIPTS, ids=lambda script: script.__name__)
def test_equal_scores(script):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = script(osvm), script(svm)
    assert len(ours) == len(theirs) > 0
    assert min(theirs[0], ours[0]) > 60
    for mine, other in zip(ours, theirs):
        assert abs(mine - other) <= 0.3
