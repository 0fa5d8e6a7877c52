"""Every benchmark once, at its smallest size: ``python -m asv_bench.smoke``.

Walks all `bench_*.py` modules as asv would (classes, `params`, `setup_cache`, `setup`,
methods by prefix, `teardown`), in one process, with OSVM_BENCH_SCALE=0.01; then runs every
command with ``--quick``.  Ends with status 1 if anything raised.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import itertools
import math
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asv_bench

PREFIXES = ("time_", "timeraw_", "track_", "peakmem_", "mem_")
COMMANDS = (
    "compare", "scaling", "defaults", "step_sizes", "kernel_memory", "bench_validate",
    "bench_linear", "bench_dual", "cores",
)  # fmt: skip
MAX_COMBINATIONS = 4  # of a benchmark's parameters: the first ones and the last


def combinations(params: Any) -> list[tuple[Any, ...]]:
    """All combinations of a benchmark's parameters, thinned out."""
    if not params:
        return [()]
    # As asv reads it: a list of lists has one axis each, any other list is the only axis.
    nested = all(isinstance(axis, (list, tuple)) for axis in params)
    axes = params if nested else [params]
    found = list(itertools.product(*axes))
    if len(found) <= MAX_COMBINATIONS:
        return found
    step = (len(found) - 1) / (MAX_COMBINATIONS - 1)
    return [found[round(i * step)] for i in range(MAX_COMBINATIONS)]


def benchmarks() -> Iterator[tuple[str, Any]]:
    """Modules `bench_*` and their classes with benchmark methods."""
    for info in sorted(pkgutil.iter_modules(asv_bench.__path__), key=lambda i: i.name):
        if info.name.startswith("bench_"):
            module = importlib.import_module(f"asv_bench.{info.name}")
            for name, item in list(vars(module).items()):
                if inspect.isclass(item) and item.__module__ == module.__name__ and any(
                    attribute.startswith(PREFIXES) for attribute in dir(item)
                ):  # fmt: skip
                    yield f"{info.name}.{name}", item


def strays() -> list[str]:
    """What asv would take for a benchmark though it is none: names in other modules."""
    try:
        from asv_runner.discovery import disc_benchmarks
    except ImportError:
        return []
    found = disc_benchmarks(asv_bench.__path__[0])
    return [b.name for b in found if not b.name.startswith("bench_")]


def run_class(name: str, cls: Any) -> tuple[int, int, list[str]]:
    """Run all methods for some combinations: (ran, skipped, failures)."""
    ran, skipped, failures = 0, 0, []
    cache: tuple[Any, ...] = ()
    if hasattr(cls, "setup_cache"):
        value = cls().setup_cache()
        cache = () if value is None else (value,)
    methods = [m for m in dir(cls) if m.startswith(PREFIXES)]
    for values in combinations(getattr(cls, "params", None)):
        for method in methods:
            bench = cls()
            where = f"{name}.{method}{values or ''}"
            try:
                try:  # asv calls teardown also where setup said that it must be skipped
                    if hasattr(bench, "setup"):
                        bench.setup(*cache, *values)
                    result = getattr(bench, method)(*cache, *values)
                    if method.startswith("timeraw_"):
                        code = result if isinstance(result, str) else result[0]
                        subprocess.run([sys.executable, "-c", code], check=True)
                    if method.startswith("track_"):
                        assert isinstance(float(result), float), f"{where} gave {result!r}"
                        if math.isinf(float(result)):
                            raise ValueError(f"{where} is infinite")
                finally:
                    if hasattr(bench, "teardown"):
                        bench.teardown(*cache, *values)
                ran += 1
            except NotImplementedError:
                skipped += 1
            except Exception:
                failures.append(f"{where}\n{traceback.format_exc()}")
    return ran, skipped, failures


def commands() -> list[str]:
    """Modules that can be run with --quick."""
    folder = Path(asv_bench.__path__[0])
    papers = [
        f"papers.{path.stem}"
        for path in sorted((folder / "papers").glob("*.py"))
        if "\ndef main(" in path.read_text() and path.stem != "check"  # the tests run that
    ]
    return [*COMMANDS, *papers]


def run_command(name: str, folder: str) -> tuple[str, str]:
    """Run a command with --quick in its own process: "ran", "skipped" or "FAILED", output."""
    command = [sys.executable, "-m", f"asv_bench.{name}", "--quick", "--out", folder]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(asv_bench.__path__[0]).parent
    )
    output = f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    if done.returncode == 0:
        return "ran", output
    # a command that cannot do without real data ends by naming the variable
    asked = "OSVM_DATA" in (done.stderr.strip().splitlines() or [""])[-1]
    return ("skipped" if asked else "FAILED"), output


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m asv_bench.smoke", description=__doc__)
    parser.add_argument("only", nargs="*", help="modules, for example bench_io or compare")
    only = parser.parse_args().only
    os.environ.setdefault("OSVM_BENCH_SCALE", "0.01")
    os.environ.setdefault("OSVM_BENCH_ROWS", "2000")
    failures: list[str] = []
    begin = time.perf_counter()
    try:
        failures += [f"asv takes {name} for a benchmark" for name in strays()]
    except Exception:
        failures.append(f"asv cannot read the benchmarks\n{traceback.format_exc()}")
    for name, cls in benchmarks():
        if only and name.split(".")[0] not in only:
            continue
        start = time.perf_counter()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                ran, skipped, failed = run_class(name, cls)
        except NotImplementedError:
            ran, skipped, failed = 0, 1, []
        except Exception:
            ran, skipped, failed = 0, 0, [f"{name}\n{traceback.format_exc()}"]
        failures += failed
        print(
            f"{name:34s} {ran:4d} ran {skipped:3d} skipped {len(failed):3d} failed "
            f"{time.perf_counter() - start:6.1f} s",
            flush=True,
        )
    with tempfile.TemporaryDirectory(prefix="osvm-smoke-") as folder:
        for name in commands():
            if only and name not in only:
                continue
            start = time.perf_counter()
            status, output = run_command(name, folder)
            failures += [output] if status == "FAILED" else []
            print(
                f"python -m asv_bench.{name + ' --quick':30s} "
                f"{status:8s} {time.perf_counter() - start:6.1f} s",
                flush=True,
            )
    for failure in failures:
        print(f"\n--- {failure}")
    result = f"{len(failures)} did not run" if failures else "everything ran"
    print(f"\n{result}, in {time.perf_counter() - begin:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
