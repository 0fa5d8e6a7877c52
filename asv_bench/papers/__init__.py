"""Experiments of the papers, one module each: ``python -m asv_bench.papers.<name> --help``.

Every figure is measured on one thread, so BLAS is told so before numpy is loaded.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
