"""Does the suite notice when the code is wrong?  Hand-made faults, one at a time.

    nice python tests/mutation_check.py                 all faults
    nice python tests/mutation_check.py ring checksum   those whose names contain a word
    python tests/mutation_check.py --list

Each fault replaces one snippet of a source file, in a copy of the tree; what changed is
rebuilt, and the tests that are closest to it run, then the whole suite where they notice
nothing.  The exit status is the number of faults that nothing noticed.

What would make a fault look caught or survived by accident ends the run: a snippet that does
not occur exactly once (also in tests/test_mutations.py), a build that leaves every compiled
module as it was, tests that fail without a fault, and a run that cannot collect its tests.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Fault(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: str  # paths, and perhaps -k with a word


FAULTS = [
    # ------------------------------------------------------------------ input
    Fault("64-bit indptr limit", "osvm/_input/validate.py",
          "if int(indptr.max()) > limits.max or int(indptr.min()) < limits.min:", "if False:",
          "tests/input/test_validate_refusals.py tests/input/test_validate.py"),
    Fault("validity check of a slow CSR matrix", "osvm/_input/validate.py",
          "    source = RowSource.csr(new_values, new_indices, new_indptr, n_features)\n"
          "    _raise_fault(source, X, name)\n",
          "    source = RowSource.csr(new_values, new_indices, new_indptr, n_features)\n",
          "tests/input/test_validate_refusals.py tests/input/test_validate.py"),
    Fault("largest column off by one", "osvm/_input/scan.pyx",
          "    cdef uint64_t largest = <uint64_t> (X.n_features - 1)\n",
          "    cdef uint64_t largest = <uint64_t> X.n_features\n", "tests/input/test_scan.py"),
    Fault("negative columns pass", "osvm/_input/scan.pyx",
          "return magnitude(seen_x) if within else INFINITY", "return magnitude(seen_x)",
          "tests/input/test_scan.py"),
    Fault("decreasing row starts pass", "osvm/_input/scan.pyx",
          "seen |= p[i] | (p[i + 1] - p[i])", "seen |= p[i]", "tests/input/test_scan.py"),
    Fault("rows past the end pass", "osvm/_input/scan.pyx",
          "indptr_at(X, 0) != 0 or indptr_at(X, X.n_rows) > capacity",
          "indptr_at(X, 0) != 0 or indptr_at(X, X.n_rows) > capacity + 1",
          "tests/input/test_scan.py"),
    Fault("last entries of a matrix unseen", "osvm/_input/scan.pyx",
          "seen_x = larger(seen_x, float_bits(x + k, count))",
          "seen_x = larger(seen_x, float_bits(x + k, count - count % BLOCK))",
          "tests/input/test_scan.py"),
    Fault("repeated columns unseen", "osvm/_input/scan.pyx",
          "increase[0] = falls == 0", "increase[0] = True",
          "tests/input/test_repeated_columns.py"),
    Fault("negative sample weights pass", "osvm/_input/scan.pyx",
          "if not 0.0 <= weights[k] <= most:", "if not weights[k] <= most:",
          "tests/input/test_scan.py tests/input/test_validate_targets.py"),
    Fault("scores are not looked at", "osvm/_input/validate.py",
          "if not all_finite(scores):", "if False:",
          "tests/linear/test_scores_overflow.py tests/linear/test_scores.py"),
    Fault("unknown labels get code 0", "osvm/_input/labels.py",
          "codes[~second & (y != self.classes[0])] = -1", "pass", "tests/estimator/test_base.py"),
    # ----------------------------------------------------------------- schema
    Fault("bounds of saved arrays unchecked", "osvm/_input/schema.py",
          "        if not (self.low <= low and high <= self.high):", "        if False:",
          "tests/input/test_schema.py"),
    Fault("relations of a state unchecked", "osvm/_input/schema.py",
          "            if not holds(scalars, arrays):", "            if False:",
          "tests/input/test_schema.py"),
    Fault("births need not be distinct", "osvm/kernel/buffer/schema.py",
          "bool(birth.max() < births) and _are_distinct(birth)", "bool(birth.max() < births)",
          "tests/input/test_schema.py"),
    Fault("overlapping rows pass", "osvm/kernel/buffer/schema.py",
          "bool((first[1:] >= end[:-1]).all())", "True",
          "tests/input/test_schema.py"),
    Fault("unknown fields pass", "osvm/_input/schema.py",
          "            if name not in declared:", "            if False:",
          "tests/input/test_schema.py"),
    # ------------------------------------------------------------------ files
    Fault("checkpoint one batch late", "osvm/io/checkpoints.py",
          "self.n_seen - self._saved_at >= self.every",
          "self.n_seen - self._saved_at > self.every",
          "tests/files/test_checkpoints.py"),
    Fault("checkpoint resumes with other parameters", "osvm/io/checkpoints.py",
          'if mine[key] != other.get(key) and key not in ("random_state", "verbose", "n_jobs"):',
          "if False:", "tests/files/test_checkpoints.py"),
    Fault("a file that is written taken for a leftover", "osvm/io/archive.py",
          "                    if _lock(file.fileno()):", "                    if True:",
          "tests/estimator/test_faults.py"),
    Fault("scores of any size", "osvm/kernel/buffer/loop.pyx",
          "    if not (total < LARGEST):", "    if not (total - total == 0.0):",
          "tests/files/test_number_ranges.py"),
    Fault("a step's coefficient of any size", "osvm/linear/step_guard.pxd",
          "    return limit if limit < most else most", "    return limit",
          "tests/files/test_number_ranges.py"),
    Fault("checksum ignored", "osvm/io/archive.py",
          "    if file.read() != digest.hexdigest().encode():", "    if False:",
          "tests/files/test_models.py"),
    Fault("size of an array unchecked", "osvm/io/archive.py",
          "    if expected != size:", "    if False:", "tests/files/test_models.py"),
    Fault("newer formats are read", "osvm/io/models.py",
          "    if version > FORMAT_VERSION:", "    if False:", "tests/files/test_models.py"),
    # ----------------------------------------------------------------- linear
    Fault("sign of the hinge", "osvm/linear/one_output.pxd",
          "c_v = -eta * c * xi / w.scale", "c_v = eta * c * xi / w.scale",
          "tests/linear/test_trajectories.py"),
    Fault("step size one example late", "osvm/linear/one_output.pxd",
          "eta = step_next(&step, t + 1.0)\n        if xi != 0.0:\n            if weight != NULL:",
          "eta = step_next(&step, t + 2.0)\n        if xi != 0.0:\n            if weight != NULL:",
          "tests/linear/test_trajectories.py"),
    Fault("weights without their fold", "osvm/core/svec.pxd",
          "        else:\n            svec_fold(w)\n\n\ncdef inline int svec_project",
          "        else:\n            pass\n\n\ncdef inline int svec_project",
          "tests/linear/test_weights.py tests/linear/test_trajectories.py"),
    Fault("projection to the square root", "osvm/core/svec.pxd",
          "svec_shrink(w, radius / sqrt(sq))", "svec_shrink(w, radius / sq)",
          "tests/linear/test_weights.py tests/linear/test_trajectories.py"),
    Fault("average counts one too many", "osvm/core/svec.pxd",
          "        w.avg_scale += w.scale\n        w.avg_count += 1.0",
          "        w.avg_scale += w.scale\n        w.avg_count += 2.0",
          "tests/linear/test_weights.py tests/linear/test_trajectories.py"),
    Fault("values that are not finite are learnt", "osvm/linear/one_output.pxd",
          "if not isfinite(value) or (unchecked and not isfinite(f)):", "if False:",
          "tests/linear/test_fit_values.py tests/linear/test_large_rows.py"),
    Fault("steps that do not fit are made", "osvm/linear/one_output.pxd",
          "            if not step_fits(eta, c * xi, w.scale, w.avg_scale, limit):\n"
          "                rows_get(examples.X, i, &row)",
          "            if False:\n                rows_get(examples.X, i, &row)",
          "tests/linear/test_step_guard.py tests/linear/test_large_rows.py"),
    Fault("a failed block is not rolled back", "osvm/linear/learner.pyx",
          "                if saved is not None:\n                    self.set_state(*saved)",
          "                if False:\n                    self.set_state(*saved)",
          "tests/linear/test_rollback.py"),
    Fault("a failed block of label sets is not rolled back", "osvm/linear/columns.pyx",
          "                self._roll_back(saved)", "                pass",
          "tests/linear/test_multilabel.py"),
    Fault("learn_one does not see assigned parameters", "osvm/linear/state.py",
          "            self.__dict__.pop(name, None)\n\n    def _going_on",
          "            pass\n\n    def _going_on",
          "tests/estimator/test_changed_params.py -k learn_one"),
    Fault("logistic slope on one side", "osvm/core/loss.pxd",
          "xi[0] = -y * ((e if z > 0.0 else 1.0) / (1.0 + e))", "xi[0] = -y * (e / (1.0 + e))",
          "tests/test_losses.py"),
    Fault("hinge counts its margin as a loss", "osvm/core/loss.pxd",
          '    """max(0, margin - y f)"""\n    cdef double z = y * f\n    if z >= margin:',
          '    """max(0, margin - y f)"""\n    cdef double z = y * f\n    if z > margin:',
          "tests/test_losses.py"),
    Fault("one example: bound of a column", "osvm/linear/one_row.pyx",
          "if <uint64_t> column >= n_features:     # or negative",
          "if <uint64_t> column > n_features:     # or negative",
          "tests/linear/test_one_example.py"),
    # ----------------------------------------------------------------- kernel
    Fault("ring: the victim after the oldest", "osvm/_c/buffer_steps.pxd",
          "buf.victim_slot[c] = (buf.head + c) % n", "buf.victim_slot[c] = (buf.head + c + 1) % n",
          "tests/kernel/test_loop.py tests/kernel/test_classifier.py"),
    Fault("scale of alpha without its fold", "osvm/_c/buffer_scales.pxd",
          "    scale_all(buf.f.coef, buf.store.n * buf.f.n_out, a)\n", "",
          "tests/kernel/test_loop.py tests/kernel/test_classifier.py"),
    Fault("sign of the trace", "osvm/_c/buffer_scales.pxd",
          "buf.p = dec * decay * buf.p - eta_reg * buf.f.scale",
          "buf.p = dec * decay * buf.p + eta_reg * buf.f.scale",
          "tests/kernel/test_loop.py tests/kernel/test_classifier.py"),
    Fault("columns of a replaced row are not patched", "osvm/_c/buffer_steps.pxd",
          "memcpy(old, new, m * size)", "memcpy(old, new, 0)",
          "tests/kernel/test_loop.py tests/kernel/test_classifier.py"),
    Fault("validity check after a cached fit", "osvm/kernel/fixed_set.py",
          "        if not largest < LARGEST:", "        if False:",
          "tests/files/test_saved_models.py -k coefficients"),
    # ---------------------------------------------------------------- threads
    Fault("a model trained within its own training", "osvm/_estimator/lock.pyx",
          "            if trains and self.training:", "            if False:",
          "tests/estimator/test_lock.py"),
    Fault("a second writer does not wait", "osvm/_estimator/lock.pyx",
          "        if self.owner == 0:             # as in _wait_to_read\n",
          "        if True:\n", "tests/estimator/test_lock.py"),
    Fault("a torn copy in a forked process is used", "osvm/_estimator/lock.pyx",
          "                self.torn = self.torn or self.exclusive > 0\n",
          "                pass\n",
          "tests/estimator/test_lock.py"),
]  # fmt: skip


def find(fault, root=ROOT):
    """The text of the fault's file; ValueError unless its snippet occurs exactly once."""
    text = (root / fault.file).read_text()
    count = text.count(fault.old)
    if count != 1:
        raise ValueError(f"{fault.name!r}: the snippet occurs {count} times in {fault.file}")
    return text


def copy_tree(folder):
    """The tree as it is, with what is built already, so that little is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    built = [p.relative_to(ROOT).as_posix() for p in (ROOT / "osvm").rglob("*.so")]
    for name in [*filter(None, listed.split("\0")), *built]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / "build").exists():
        shutil.copytree(ROOT / "build", folder / "build", symlinks=True)


def build(folder):
    """Build what is older than its sources; the digest of each compiled module."""
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace", "-q"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the build fails:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    modules = sorted((folder / "osvm").rglob("*.so"))
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in modules}


def notices(folder, tests, limit):
    """The first test that fails, or None; RuntimeError where the tests did not run at all."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # no bytecode: it is taken for current when size and second of the source agree
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=limit,
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {limit} s"
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    failed = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(failed):
        raise RuntimeError(f"pytest {tests} ends with {done.returncode}:\n{done.stdout[-2000:]}")
    return failed[0][:120] if failed else None


def is_compiled(fault):
    return fault.file.endswith((".pyx", ".pxd"))


def check(fault, folder, clean, suite):
    """What notices the fault, or None; `clean` has the digests without it."""
    path = folder / fault.file
    text = find(fault, folder)
    path.write_text(text.replace(fault.old, fault.new))
    try:
        if is_compiled(fault) and build(folder) == clean:
            raise RuntimeError(f"{fault.name!r}: no compiled module differs")
        found = notices(folder, fault.tests.split(), 900)
        if found is None and suite:
            found = notices(folder, [], 3600)
        return found
    finally:
        path.write_text(text)  # newer than what was built, so that it is built again


def pass_without_fault(faults, folder):
    """The closest tests of all faults pass as the tree is."""
    words = [fault.tests.split() for fault in faults]
    plain = sorted({path for tests in words if "-k" not in tests for path in tests})
    for tests in [plain, *(tests for tests in words if "-k" in tests)]:
        found = notices(folder, tests, 3600) if tests else None
        if found is not None:
            raise RuntimeError(f"fails without a fault: {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-suite", action="store_true", help="the closest tests alone")
    options = parser.parse_args()
    faults = [f for f in FAULTS if not options.words or any(w in f.name for w in options.words)]
    for fault in faults:
        find(fault)
    if options.list:
        print(*(f"{fault.file}: {fault.name}" for fault in faults), sep="\n")
        return 0
    survivors = 0
    # a build mends the fault before it, so those of Python, which build nothing, come first
    faults.sort(key=lambda f: (is_compiled(f), f.file))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder)
        clean = build(folder)
        pass_without_fault(faults, folder)
        for number, fault in enumerate(faults, 1):
            start = time.time()
            found = check(fault, folder, clean, not options.no_suite)
            survivors += found is None
            text = "SURVIVES" if found is None else f"caught: {found}"
            print(
                f"{number}/{len(faults)} {fault.name}: {text} ({time.time() - start:.0f} s)",
                flush=True,
            )
    print(f"{len(faults) - survivors} of {len(faults)} caught")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
