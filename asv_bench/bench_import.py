"""What osvm costs before it does anything: import time, and the size of the compiled modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import osvm
from asv_bench.report import scaled

STATEMENTS = {
    "osvm": "import osvm",
    "LinearClassifier": "from osvm import LinearClassifier",
    "KernelClassifier": "from osvm import KernelClassifier",
    "stream": "import osvm.stream",
    "numpy and scipy.sparse": "import numpy, scipy.sparse",
}


def import_seconds(repeats: int) -> dict[str, float]:
    """CPU seconds of each statement in a fresh interpreter, beyond those of an empty one."""
    code = (
        "import resource; {}; r = resource.getrusage(resource.RUSAGE_SELF); "
        "print(r.ru_utime + r.ru_stime)"
    )
    spent: dict[str, list[float]] = {text: [] for text in ("pass", *STATEMENTS.values())}
    for _ in range(repeats):
        for text, times in spent.items():
            command = [sys.executable, "-c", code.format(text)]
            times.append(float(subprocess.run(command, capture_output=True, check=True).stdout))
    empty = np.median(spent["pass"])
    return {name: float(np.median(spent[text]) - empty) for name, text in STATEMENTS.items()}


class Import:
    """Time of an import in a fresh process."""

    params = list(STATEMENTS)
    param_names = ["what"]
    timeout = 120

    def timeraw_import(self, what: str) -> str:
        return STATEMENTS[what]


class ImportRatio:
    """Imports as multiples of ``import numpy, scipy.sparse``."""

    params = [name for name in STATEMENTS if "numpy" not in name]
    param_names = ["what"]
    timeout = 120

    def setup_cache(self) -> dict[str, float]:
        return import_seconds(scaled(7, 1))

    def track_to_numpy_and_scipy(self, cache: dict[str, float], what: str) -> float:
        return cache[what] / cache["numpy and scipy.sparse"]

    track_to_numpy_and_scipy.unit = "import numpy, scipy.sparse"


class CompiledSize:
    """Bytes of the compiled modules."""

    def track_all(self) -> int:
        return sum(path.stat().st_size for path in self._modules())

    track_all.unit = "bytes"

    def track_largest(self) -> int:
        return max(path.stat().st_size for path in self._modules())

    track_largest.unit = "bytes"

    def track_count(self) -> int:
        return len(self._modules())

    @staticmethod
    def _modules() -> list[Path]:
        return [
            path
            for ending in ("*.so", "*.pyd")
            for path in Path(osvm.__file__).parent.rglob(ending)
        ]
