"""What libraries do with input, files and faults that they cannot be prepared for.

    python -m asv_bench.reliability            run all cases, write the results and the table
    python -m asv_bench.reliability threads    those whose name contains a word, print only

Each case runs once for osvm and for every installed peer that it makes sense for, in a process
of its own with a limit of time and memory.  The results are kept in
asv_bench/reliability.json, and the table of doc/guide/reliability.rst is made
from them.  What a peer does is told in its own words: the error it raises, what it returned, or
how the process ended.
"""

import contextlib
import importlib.metadata
import io
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "asv_bench" / "reliability.json"
TABLE = ROOT / "doc" / "guide" / "reliability_table.inc"
SECONDS, MEMORY = 20, 4 << 30
N, D = 60, 12
PEERS = {"sgd": "scikit-learn", "svc": "scikit-learn", "river": "river", "vw": "vowpalwabbit"}
TITLES = {
    "sgd": "SGDClassifier", "svc": "SVC", "river": "river", "vw": "Vowpal Wabbit",
}  # fmt: skip

rng = np.random.default_rng(0)
X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)
Y = (X @ rng.normal(size=D) > 0).astype(int)


def model(lib):
    """A linear (or kernel, for svc) classifier with its defaults."""
    if lib == "osvm":
        import osvm

        return osvm.LinearClassifier(random_state=0)
    if lib == "svc":
        from sklearn.svm import SVC

        return SVC(kernel="linear")
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(random_state=0)


def weights(m):
    return np.concatenate([np.ravel(m.coef_), np.ravel(m.intercept_)])


def finite(m, rows=X):
    """What a fitted model looks like."""
    numbers = weights(m)
    if not np.isfinite(numbers).all():
        return "accepted; the weights are NaN or infinite"
    scores = m.decision_function(rows)
    if not np.isfinite(scores).all():
        return "accepted; scores are NaN or infinite"
    return f"accepted; finite, accuracy {np.mean(m.predict(rows) == Y[: rows.shape[0]]):.2f}"


# ------------------------------------------------------------------ the cases

CASES = {}  # name -> (group, {lib: function}, test)
ALL = ("osvm", "sgd", "svc")
STREAMS = ("osvm", "sgd")


def case(group, name, libs, function, test):
    CASES[name] = (group, {lib: (lambda lib=lib: function(lib)) for lib in libs}, test)


def csr(change, index=np.int32):
    M = sp.csr_matrix(X)
    M.indices, M.indptr = M.indices.astype(index), M.indptr.astype(index)
    change(M)
    return M


def put(name, place, value):
    return lambda M: getattr(M, name).__setitem__(place, value)


def replace(name, how):
    return lambda M: setattr(M, name, how(getattr(M, name)))


MATRICES = {
    "column number = number of columns": lambda: csr(put("indices", 5, D)),
    "column number 50,000,000": lambda: csr(put("indices", 5, 50_000_000)),
    "column number -1": lambda: csr(put("indices", 5, -1)),
    "column number 2^40 (int64)": lambda: csr(put("indices", 5, 2**40), np.int64),
    "row starts that decrease": lambda: csr(put("indptr", 30, 1)),
    "row starts past the end": lambda: csr(put("indptr", -1, 10**6)),
    "row starts that begin at 1": lambda: csr(put("indptr", 0, 1)),
    "fewer values than column numbers": lambda: csr(replace("data", lambda a: a[:-3])),
    "int32 columns, row starts beyond 32 bits": lambda: csr(
        replace("indptr", lambda a: np.append(a[:-1].astype(np.int64), a[-1] + 2**32))),
    "NaN among the stored values": lambda: csr(put("data", 7, np.nan)),
    "infinity among the stored values": lambda: csr(put("data", 7, np.inf)),
}  # fmt: skip
for _name, _make in MATRICES.items():
    case("CSR, fit", f"fit on CSR: {_name}", ALL,
         lambda lib, make=_make: finite(model(lib).fit(make(), Y)),
         "tests/estimator/test_malformed_calls.py")  # fmt: skip
for _name in list(MATRICES)[:6] + list(MATRICES)[9:]:
    case("CSR, predict", f"predict on CSR: {_name}", ALL,
         lambda lib, make=MATRICES[_name]: (
             lambda m: f"accepted; {len(m.predict(make()))} labels")(model(lib).fit(X, Y)),
         "tests/estimator/test_malformed_calls.py")  # fmt: skip


def dense(place, value):
    M = X.copy()
    M[place] = value
    return M


ARRAYS = {
    "NaN": lambda: dense((3, 2), np.nan), "infinity": lambda: dense((3, 2), np.inf),
    "no rows": lambda: X[:0], "a vector": lambda: X[0], "three dimensions": lambda: X[None],
    "words": lambda: [["a"] * D] * N, "complex numbers": lambda: X * 1j,
    "None among the values": lambda: np.where(X == 0, None, X),
}  # fmt: skip
for _name, _make in ARRAYS.items():
    case("arrays", f"fit on an array: {_name}", ALL,
         lambda lib, make=_make: finite(model(lib).fit(make(), Y[: len(make())])),
         "tests/estimator/test_malformed_calls.py")  # fmt: skip
case("arrays", "predict with another number of columns", ALL,
     lambda lib: f"accepted; {len(model(lib).fit(X, Y).predict(X[:, :-1]))} labels",
     "tests/estimator/test_malformed_calls.py")  # fmt: skip

TARGETS = {
    "one label too few": Y[:-1], "NaN": np.where(Y == 0, np.nan, Y), "fractions": Y + 0.25,
    "two columns": np.stack([Y, Y], 1), "one class only": np.zeros(N, int),
}  # fmt: skip
for _name, _y in TARGETS.items():
    case("labels", f"fit with labels: {_name}", ALL,
         lambda lib, y=_y: finite(model(lib).fit(X, y)),
         "tests/estimator/test_malformed_calls.py")  # fmt: skip

WEIGHTS = {
    "negative": np.full(N, -1.0), "NaN": np.full(N, np.nan), "infinite": np.full(N, np.inf),
    "too few": np.ones(N - 1), "1e308": np.full(N, 1e308),
}  # fmt: skip
for _name, _w in WEIGHTS.items():
    case("weights", f"sample weights: {_name}", ALL,
         lambda lib, w=_w: finite(model(lib).fit(X, Y, sample_weight=w)),
         "tests/estimator/test_malformed_calls.py")  # fmt: skip

for _size in (1e-310, 1e-300, 1e-30, 1e30, 1e150, 1e300):
    case("numbers", f"fit on rows of size {_size:g}", ALL,
         lambda lib, size=_size: finite(model(lib).fit(X * size, Y), X * size),
         "tests/estimator/test_numbers.py")  # fmt: skip
    case("numbers", f"a stream with rows of size {_size:g}", STREAMS,
         lambda lib, size=_size: finite(
             model(lib).partial_fit(X * size, Y, classes=[0, 1]), X * size),
         "tests/estimator/test_numbers.py")  # fmt: skip
for _reg in (1e-12, 1e6):
    case("numbers", f"regularizer {_reg:g}", STREAMS,
         lambda lib, reg=_reg: finite(model(lib).set_params(
             **{"reg" if lib == "osvm" else "alpha": reg}).fit(X, Y)),
         "tests/estimator/test_numbers.py")  # fmt: skip


def _overflowing_score(lib):
    m = model(lib).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = m.decision_function(np.sign(np.atleast_2d(m.coef_)) * 1.7e308)
    return f"accepted; the score is {scores[0]}"


case("numbers", "a score that is too large for a number", ALL, _overflowing_score,
     "tests/linear/test_scores_overflow.py")  # fmt: skip

# ------------------------------------------------------------------ models after errors


def _after_error(lib):
    m = model(lib).partial_fit(X, Y, classes=[0, 1])
    before = weights(m)
    bad = X.copy()
    bad[-1] = np.nan
    with contextlib.suppress(ValueError):
        m.partial_fit(bad, Y)
    return "unchanged" if np.array_equal(weights(m), before) else "the model has changed"


def _after_failed_stream(lib):
    m = model(lib).partial_fit(X, Y, classes=[0, 1])
    before = weights(m)
    large = X.copy()
    large[-10:] *= 1e307
    if lib == "osvm":
        m.set_params(schedule="constant", eta0=1e3)
    else:
        m.set_params(learning_rate="constant", eta0=1e3)
    error = "no error"
    try:
        m.partial_fit(large, Y)
    except (ValueError, FloatingPointError) as found:
        error = type(found).__name__
    if np.array_equal(weights(m), before):
        return f"{error}; unchanged"
    kind = "finite" if np.isfinite(weights(m)).all() else "NaN or infinite"
    return f"{error}; the model has changed, its weights are {kind}"


def _new_label(lib):
    m = model(lib).partial_fit(X, Y, classes=[0, 1])
    y = Y.copy()
    y[:20] = 2
    m.partial_fit(X, y)
    return f"accepted; the classes are {np.asarray(m.classes_).tolist()}"


case("errors", "NaN in the last row of a block: the model after it", STREAMS, _after_error,
     "tests/estimator/test_state_machine.py")  # fmt: skip
case("errors", "a block that overflows half-way: the model after it", STREAMS,
     _after_failed_stream, "tests/linear/test_rollback.py")  # fmt: skip
case("errors", "a label that was not announced, in mid-stream", STREAMS, _new_label,
     "tests/linear/test_streams.py")  # fmt: skip


def _interrupted(lib):
    m = model(lib).fit(X, Y)
    before = weights(m)
    big = np.random.default_rng(0).normal(size=(100_000, 50))
    m.set_params(**({"epochs": 10_000} if lib == "osvm" else {"max_iter": 10_000, "tol": None}))
    start = time.time()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        m.fit(big, big[:, 0] > 0)
    except KeyboardInterrupt:
        took = time.time() - start - 0.5
        kept = "as it was" if np.array_equal(weights(m), before) else "what was learnt by then"
        return f"stops after {'less than a second' if took < 1 else f'{took:.0f} s'}; kept: {kept}"
    return "the interrupt is lost"


case("errors", "Ctrl-C during fit", ("osvm", "sgd"), _interrupted,
     "tests/estimator/test_faults.py")  # fmt: skip

# ------------------------------------------------------------------ threads


def _many(functions):
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return errors


def _readers(lib):
    labels = np.arange(N) % 5
    m = model(lib).fit(X, labels)
    rows = np.tile(X, (30, 1))
    want, wrong = m.predict(rows), []

    def read():
        for _ in range(100):
            wrong.append(not np.array_equal(m.predict(rows), want))

    errors = _many([read] * 8)
    return f"{sum(wrong)} of {len(wrong)} answers wrong, {len(errors)} errors"


def _torn(lib):
    """Readers while one thread trains: every answer must be that of one whole model."""
    rows = np.tile(X, (50, 1))
    blocks = [(np.roll(X, k, axis=1), Y) for k in range(40)]
    m, seen = model(lib).partial_fit(X, Y, classes=[0, 1]), set()
    for Xb, yb in blocks:
        seen.add(m.decision_function(rows).tobytes())
        m.partial_fit(Xb, yb)
    seen.add(m.decision_function(rows).tobytes())
    m, torn = model(lib).partial_fit(X, Y, classes=[0, 1]), []
    stop = threading.Event()

    def train():
        for Xb, yb in blocks:
            m.partial_fit(Xb, yb)
        stop.set()

    def read():
        while not stop.is_set():
            torn.append(m.decision_function(rows).tobytes() not in seen)

    sys.setswitchinterval(1e-6)
    errors = _many([train, read, read])
    share = "none" if not sum(torn) else "some"
    return f"answers of half a block: {share}; {len(errors)} errors"


def _lost(lib):
    m = model(lib).partial_fit(X, Y, classes=[0, 1])
    start = m.t_
    block = np.tile(X, (20, 1)), np.tile(Y, 20)

    def train():
        for _ in range(50):
            m.partial_fit(*block)

    sys.setswitchinterval(1e-6)
    errors = _many([train] * 4)
    wanted = 4 * 50 * 20 * N
    lost = wanted - (m.t_ - start)
    return f"{'no' if not lost else int(lost)} of {wanted} updates lost, {len(errors)} errors"


case("threads", "8 threads predict with one model", ALL, _readers,
     "tests/estimator/test_thread_contract.py")  # fmt: skip
case("threads", "threads predict while one trains", STREAMS, _torn,
     "tests/estimator/test_thread_contract.py")  # fmt: skip
case("threads", "4 threads train one model", STREAMS, _lost,
     "tests/estimator/test_thread_contract.py")  # fmt: skip

# ------------------------------------------------------------------ files


def _save(lib, m, path):
    if lib == "osvm":
        m.save(path)
    else:
        import joblib

        joblib.dump(m, path)


def _load(lib, path):
    if lib == "osvm":
        import osvm

        return osvm.load(path)
    import joblib

    return joblib.load(path)


def _file(change):
    def run(lib):
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "model")
        m = model(lib).fit(X, Y)
        _save(lib, m, path)
        data = bytearray(Path(path).read_bytes())
        changed = 0
        for data_, _ in change(data):
            Path(path).write_bytes(data_)
            try:
                again = _load(lib, path)
                same = np.array_equal(weights(again), weights(m))
            except Exception as error:
                outcome = type(error).__name__
            else:
                outcome = "the same model" if same else "ANOTHER MODEL"
            changed += outcome == "ANOTHER MODEL"
            last = outcome
        return last if change is not _flips else f"{changed} of 200 loaded as another model"

    return run


def _truncated(data):
    yield data[: len(data) // 2], "half"


def _flips(data):
    generator = np.random.default_rng(0)
    for _ in range(200):
        flipped = bytearray(data)
        flipped[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
        yield flipped, "bit"


def _empty(data):
    yield b"", "empty"


case("files", "a model file cut in half", ("osvm", "sgd"), _file(_truncated),
     "tests/files/test_models.py")  # fmt: skip
case("files", "a model file with one bit flipped, 200 times", ("osvm", "sgd"), _file(_flips),
     "tests/files/test_models.py")  # fmt: skip
case("files", "an empty model file", ("osvm", "sgd"), _file(_empty),
     "tests/files/test_models.py")  # fmt: skip


class _Payload:
    def __reduce__(self):
        return (print, ("",))


class _Marker:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def _code(lib):
    folder = tempfile.mkdtemp()
    path, mark = os.path.join(folder, "model"), os.path.join(folder, "ran")
    Path(path).write_bytes(pickle.dumps(_Marker(mark)))
    try:
        _load(lib, path)
        told = "loads"
    except Exception as error:
        told = type(error).__name__
    return f"{told}; the code in the file {'RAN' if os.path.exists(mark) else 'did not run'}"


def _mode(lib):
    path = os.path.join(tempfile.mkdtemp(), "model")
    m = model(lib).fit(X, Y)
    _save(lib, m, path)
    os.chmod(path, 0o600)
    _save(lib, m, path)
    return f"mode {os.stat(path).st_mode & 0o777:o}"


def _full(lib):
    path = os.path.join(tempfile.mkdtemp(), "model")
    m = model(lib).fit(X, Y)
    _save(lib, m, path)
    wide = np.random.default_rng(0).normal(size=(20, 50_000))
    other = model(lib).fit(wide, np.arange(20) % 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        _save(lib, other, path)
        told = "no error"
    except Exception as error:
        told = type(error).__name__
    try:
        kept = np.array_equal(weights(_load(lib, path)), weights(m))
    except Exception:
        kept = False
    return f"{told}; the old model is {'still there' if kept else 'LOST'}"


def _killed(lib):
    path = os.path.join(tempfile.mkdtemp(), "model")
    m = model(lib).fit(X, Y)
    _save(lib, m, path)
    wide = np.random.default_rng(0).normal(size=(20, 400_000))
    other = model(lib).fit(wide, np.arange(20) % 2)
    broken = 0
    for k in range(12):
        child = os.fork()
        if child == 0:
            while True:
                _save(lib, other, path)
        time.sleep(0.01 + 0.003 * k)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        try:
            _load(lib, path)
        except Exception:
            broken += 1
    return f"{broken} of 12 files broken"


case("files", "a pickle with code in it, where a model is expected", ("osvm", "sgd"), _code,
     "tests/files/test_models.py")  # fmt: skip
case("files", "saving over a file of mode 600", ("osvm", "sgd"), _mode,
     "tests/files/test_models.py")  # fmt: skip
case("files", "the disk is full while saving over a model", ("osvm", "sgd"), _full,
     "tests/estimator/test_faults.py")  # fmt: skip
case("files", "killed (-9) while saving over a model", ("osvm", "sgd"), _killed,
     "tests/files/test_checkpoints.py")  # fmt: skip

# ------------------------------------------------------------------ text

LINES = {
    "no colon": b"1 1:1\n-1 2\n", "a word for a value": b"1 1:1\n-1 2:abc\n",
    "value nan": b"1 1:1\n-1 2:nan\n", "value 1e400": b"1 1:1\n-1 2:1e400\n",
    "column -5": b"1 1:1\n-1 -5:1\n", "column 2^40": b"1 1:1\n-1 1099511627776:1\n",
    "columns out of order": b"1 2:1 1:1\n-1 2:1\n", "a NUL byte": b"1 1:1\n-1 2:\x001\n",
    "broken gzip data": b"\x1f\x8b\x08\x00garbage",
}  # fmt: skip


def _svmlight(lib, data):
    if lib == "osvm":
        from osvm.stream import read

        batches = list(read(io.BytesIO(data), "svmlight", n_features=64))
        return f"accepted; {sum(b[0].shape[0] for b in batches)} rows"
    from sklearn.datasets import load_svmlight_file

    path = os.path.join(tempfile.mkdtemp(), "f.gz" if data[:2] == b"\x1f\x8b" else "f")
    Path(path).write_bytes(data)
    M, _ = load_svmlight_file(path)
    shown = "" if np.isfinite(M.data).all() else ", with NaN or infinity"
    return f"accepted; {M.shape[0]} rows, {M.shape[1]} columns{shown}"


for _name, _data in LINES.items():
    case("text", f"svmlight: {_name}", ("osvm", "sgd"),
         lambda lib, data=_data: _svmlight(lib, data), "tests/fuzz/test_fuzz.py")  # fmt: skip

# ------------------------------------------------------------------ one example


def _one(lib, value):
    if lib == "osvm":
        m = model(lib).partial_fit(X, Y)
        m.learn_one({0: value}, 1)
        return finite(m)
    if lib == "river":
        from river import linear_model

        m = linear_model.LogisticRegression()
        for row, label in zip(X, Y):
            m.learn_one(dict(enumerate(row)), bool(label))
        m.learn_one({0: value}, True)
        kept = all(np.isfinite(float(w)) for w in m.weights.values())
        return f"accepted; the weights are {'finite' if kept else 'NaN or infinite'}"
    import vowpalwabbit as vw

    m = vw.Workspace("--quiet --loss_function hinge")
    for row, label in zip(X, Y):
        text = " ".join(f"f{j}:{v}" for j, v in enumerate(row))
        m.learn(f"{2 * label - 1} | {text}")
    m.learn(f"1 | f0:{value}")
    return f"accepted; the score of a good row is then {m.predict('| f1:1 f0:1')}"


for _value in (float("nan"), float("inf"), 1e300, "abc"):
    case("one example", f"one example with the value {_value}", ("osvm", "river", "vw"),
         lambda lib, value=_value: _one(lib, value),
         "tests/linear/test_one_example.py")  # fmt: skip

# ------------------------------------------------------------------ running


def run(function):
    """What happens, in a process of its own."""
    read, write = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(SECONDS)
        told = "error in the harness"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = function()
        except BaseException as error:
            text = " ".join(str(error).split())
            told = f"{type(error).__name__}: {text}"
        finally:
            os.write(write, told.encode()[:4000])
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"no end within {SECONDS} s"
        return f"CRASH ({signal.Signals(number).name})"
    return told


def installed(lib):
    try:
        return importlib.metadata.version(PEERS.get(lib, lib))
    except importlib.metadata.PackageNotFoundError:
        return None


def versions():
    found = {lib: installed(lib) for lib in PEERS}
    import osvm

    return {"osvm": osvm.__version__, **{k: v for k, v in found.items() if v}}


def preload():
    """Import everything once; the processes of the cases are forks of this one."""
    import osvm

    model("osvm").fit(X, Y).predict(X)
    osvm.stream.read(io.BytesIO(b"1 1:1\n"), "svmlight", n_features=3)
    for lib in ("sgd", "svc"):
        if installed(lib):
            model(lib).fit(X, Y).predict(X)
    if installed("river"):
        import river.linear_model  # noqa: F401


def short(text, most=110):
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def escaped(text):
    for mark in "\\*`|_":
        text = text.replace(mark, "\\" + mark)
    return text


def table(results):
    """The table of the documentation."""
    known = results["versions"]
    peers = ", ".join(f"{TITLES[lib]} {known[lib]}" for lib in TITLES if lib in known)
    lines = [
        f"{len(results['cases'])} cases by ``python -m asv_bench.reliability``, with {peers}.",
        "",
        ".. list-table::", "   :header-rows: 1", "   :widths: 22 34 28 16", "",
        "   * - case", "     - peers", "     - osvm", "     - test",
    ]  # fmt: skip
    for name, entry in results["cases"].items():
        found = entry["results"]
        other = "; ".join(
            f"**{TITLES[lib]}** {escaped(short(found[lib]))}" for lib in TITLES if lib in found
        )
        lines += [
            f"   * - {escaped(name)}",
            f"     - {other or '(not installed)'}",
            f"     - {escaped(short(found['osvm']))}",
            f"     - ``{entry['test'].removeprefix('tests/')}``",
        ]
    return "\n".join(lines) + "\n"


def main():
    words = sys.argv[1:]
    preload()
    known = versions()
    results = {"versions": known, "cases": {}}
    for name, (group, functions, test) in CASES.items():
        if words and not any(word in name or word == group for word in words):
            continue
        found = {lib: run(f) for lib, f in functions.items() if lib in known}
        results["cases"][name] = {"group": group, "test": test, "results": found}
        for lib, told in found.items():
            print(f"{name} | {lib}: {short(told, 150)}", flush=True)
    if not words:
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        TABLE.write_text(table(results))


if __name__ == "__main__":
    main()
