"""Threads of one call: their number, their errors, and what they may not change."""

import os

import numpy as np
import pytest

import osvm
from osvm._estimator.threads import Team, resolve_jobs
from osvm.datasets import make_rcv1_like


@pytest.mark.parametrize(
    ("cls", "options"),
    [(osvm.LinearSVC, {}), (osvm.LinearSVC, {"loss": "hinge"}),
     (osvm.LinearClassifier, {"record": True})],
    ids=str,
)  # fmt: skip
def test_the_number_of_threads_does_not_change_the_model(cls, options):
    """Of a solver, and of examples that are recorded in order; `test_mixing` has the others."""
    X, y, _, _ = make_rcv1_like(1500, 10, n_classes=21, random_state=0)
    one, two = (cls(random_state=3, n_jobs=n, **options) for n in (1, 2))
    with np.errstate(all="raise"):
        one.fit(X, y)
        two.fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.decision_function(X), two.decision_function(X))


def test_an_error_in_a_thread_is_raised():
    def work(k):
        if k == 1:
            raise RuntimeError("thread 1")
        return k

    with Team(3) as team, pytest.raises(RuntimeError, match="thread 1"):
        team.each(work)
    with Team(3) as team:
        assert team.each(lambda k: k) == [0, 1, 2]


def test_number_of_threads():
    assert resolve_jobs(None) == 1
    assert resolve_jobs(3) == 3
    assert resolve_jobs(-1) == os.cpu_count()
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        resolve_jobs(0)
