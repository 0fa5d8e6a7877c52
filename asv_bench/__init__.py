"""Benchmarks: asv classes (`bench_*.py`) and commands to run with ``python -m asv_bench...``.

One thread: figures are processor time, and BLAS would otherwise take every core.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
