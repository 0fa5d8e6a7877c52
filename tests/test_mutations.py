"""The faults of mutation_check.py still fit the sources."""

import pytest
from mutation_check import FAULTS, find


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_snippet_of_a_fault_occurs_once(fault):
    assert fault.new not in (fault.old, None)
    find(fault)


def test_there_are_enough_faults():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
