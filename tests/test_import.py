"""`import osvm` is light, and every public name is where the table says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import osvm


def run(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=True,
    )
    return result.stdout.strip()


def test_import_is_lazy():
    code = "import sys, osvm; print(sorted(m for m in sys.modules if m.count('.') == 0))"
    loaded = set(run(code).strip("[]").replace("'", "").split(", "))
    heavy = {"numpy", "scipy", "sklearn", "matplotlib", "pandas", "dask", "tqdm"}
    # an editable install may load its finder, nothing else
    assert not loaded & heavy


def test_validation_loads_no_scikit_learn():
    code = "import sys, osvm._input.validate, osvm._input.scan; print('sklearn' in sys.modules)"
    assert run(code) == "False"


def test_names_that_exist_resolve():
    assert issubclass(osvm.ConversionWarning, UserWarning)
    assert osvm.exceptions.ConversionWarning is osvm.ConversionWarning
    assert set(osvm.__all__) <= set(dir(osvm))
    assert {name for name in dir(osvm) if name[0] != "_"} < set(osvm.__all__)
    assert Path(osvm.get_include(), "row.pxd").is_file()
    with pytest.raises(AttributeError, match="no attribute 'LinearClasifier'"):
        osvm.LinearClasifier  # noqa: B018


@pytest.mark.slow
def test_import_time():
    """At most 1.15 of `import numpy, scipy.sparse`, best of nine interleaved runs."""
    timer = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    best = {}
    for _ in range(9):
        for what in ("osvm", "numpy, scipy.sparse"):
            seconds = float(run(timer.format(what)))
            best[what] = min(best.get(what, 9.0), seconds)
    assert best["osvm"] <= 1.15 * best["numpy, scipy.sparse"]
