"""The shape of the Python layer: short functions, few parameters, few calls in a `fit`."""

import ast
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

ROOT = Path(osvm.__file__).parent
MOST_LINES, MOST_PARAMETERS = 80, 10
MOST_CALLS, MOST_SWITCHES = 120, 40
# Public functions that mirror the parameters of an estimator, and the kernel's schema.
MIRRORS = {"cached_grid_search", "norma", "svmd", "buffer_schema"}


def functions():
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


def lines(node):
    """Of a function without its docstring."""
    n = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        n -= node.body[0].end_lineno - node.body[0].lineno + 1
    return n


def parameters(node):
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_functions_are_short_and_take_few_parameters():
    long = {
        name: (lines(node), parameters(node))
        for name, node in functions()
        if node.name not in MIRRORS | {"__init__"}
        and (lines(node) > MOST_LINES or parameters(node) > MOST_PARAMETERS)
    }
    assert long == {}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_fit_of_two_classes_takes_few_calls(kind):
    X = np.random.default_rng(0).normal(size=(300, 5))
    y = (X[:, 0] > 0).astype(int)
    X = kind(X)
    osvm.LinearClassifier(random_state=0, epochs=5).fit(X, y)  # imports and shared parts
    model, files = osvm.LinearClassifier(random_state=0, epochs=5), []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            files.append(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(before)
    assert 20 < len(files) <= MOST_CALLS
    assert sum(a != b for a, b in itertools.pairwise(files)) <= MOST_SWITCHES
