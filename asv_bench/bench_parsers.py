"""Reading files: speed against the peers on the same file, memory, end to end.

Each class writes its file once, into a temporary folder.  ``track_`` figures
are ratios taken in one run; a missing peer skips its benchmark.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from asv_bench.report import bench_scale, scaled

MEGABYTES = float(os.environ.get("OSVM_BENCH_MB", "20" if bench_scale() >= 1 else "0.5"))


def write_svmlight(path, megabytes, style="%d:%.6f", bar="", seed=0):
    """An RCV1-shaped file: about 76 features a row out of 47,152, unit norm."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=47152)
    size = 0
    with open(path, "w") as file:
        while size < megabytes * 1e6:
            lines = []
            for _ in range(500):
                count = rng.poisson(76) + 1
                j = np.unique((47152 * rng.random(count) ** 2).astype(int))
                v = rng.lognormal(-2, 0.6, len(j))
                v /= np.sqrt(v @ v)
                label = "1" if v @ w[j] > 0 else "-1"
                pairs = " ".join(style % p for p in zip((j + 1).tolist(), v.tolist()))
                lines.append(f"{label} {bar}{pairs}\n")
            text = "".join(lines)
            file.write(text)
            size += len(text)


def best_of(function, repeat=3):
    """The shortest of a few runs, in seconds."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def interleaved(first, second, repeat=3):
    """Shortest times of two functions that take turns."""
    times = [[], []]
    for _ in range(repeat):
        for k, function in enumerate((first, second)):
            began = time.perf_counter()
            function()
            times[k].append(time.perf_counter() - began)
    return min(times[0]), min(times[1])


def read_all(path):
    from osvm.stream import SvmlightReader

    rows = 0
    with SvmlightReader(path) as reader:
        for X, _ in reader:
            rows += X.shape[0]
    return rows


class SvmlightFile:
    """Parsing; numbers of 6 decimals and of 16 digits."""

    params = ("%d:%.6f", "%d:%.16g")
    param_names = ("style",)
    timeout = 600

    def setup_cache(self):
        folder = tempfile.mkdtemp()
        for k, style in enumerate(self.params):
            write_svmlight(os.path.join(folder, f"{k}.svm"), MEGABYTES, style)
        return folder

    def setup(self, folder, style):
        self.path = os.path.join(folder, f"{self.params.index(style)}.svm")
        self.size = os.path.getsize(self.path) / 1e6

    def time_read(self, folder, style):
        read_all(self.path)

    def track_megabytes_per_second(self, folder, style):
        return self.size / best_of(lambda: read_all(self.path))

    track_megabytes_per_second.unit = "MB/s"

    def track_times_faster_than_scikit_learn(self, folder, style):
        try:
            from sklearn.datasets import load_svmlight_file
        except ImportError:
            raise NotImplementedError from None
        ours, theirs = interleaved(
            lambda: read_all(self.path), lambda: load_svmlight_file(self.path), 2
        )
        return theirs / ours

    track_times_faster_than_scikit_learn.unit = "x"

    def track_times_faster_than_svmloader(self, folder, style):
        try:
            from svmloader import load_svmfile
        except ImportError:
            raise NotImplementedError from None
        ours, theirs = interleaved(lambda: read_all(self.path), lambda: load_svmfile(self.path), 2)
        return theirs / ours

    track_times_faster_than_svmloader.unit = "x"

    def track_times_faster_than_xgboost(self, folder, style):
        try:
            import xgboost
        except ImportError:
            raise NotImplementedError from None
        ours, theirs = interleaved(
            lambda: read_all(self.path),
            lambda: xgboost.DMatrix(f"{self.path}?format=libsvm", nthread=1),
            2,
        )
        return theirs / ours

    track_times_faster_than_xgboost.unit = "x"


class TrainCommand:
    """``osvm train`` on a file, in a process of its own; the peer is Vowpal Wabbit."""

    timeout = 600

    def setup_cache(self):
        folder = tempfile.mkdtemp()
        write_svmlight(os.path.join(folder, "train.svm"), MEGABYTES)
        write_svmlight(os.path.join(folder, "train.vw"), MEGABYTES, bar="| ")
        return folder

    def _osvm(self, folder):
        subprocess.run(
            [sys.executable, "-m", "osvm", "train", os.path.join(folder, "train.svm"), "-q",
             "--stream", "-m", os.path.join(folder, "m.osvm")],
            check=True,
        )  # fmt: skip

    def _vw(self, folder):
        done = subprocess.run(
            [sys.executable, "-m", "vowpalwabbit", "-d", os.path.join(folder, "train.vw"),
             "--quiet", "--loss_function", "hinge", "-f", os.path.join(folder, "m.vw")],
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NotImplementedError

    def time_train(self, folder):
        self._osvm(folder)

    def track_times_faster_than_vowpal_wabbit(self, folder):
        self._vw(folder)
        ours, theirs = interleaved(lambda: self._osvm(folder), lambda: self._vw(folder), 2)
        return theirs / ours

    track_times_faster_than_vowpal_wabbit.unit = "x"

    def track_resident_megabytes(self, folder):
        """Largest resident size of the process."""
        code = (
            "import resource, sys; from osvm.cli import main; main(sys.argv[1:]); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "train", os.path.join(folder, "train.svm"), "-q",
             "--stream", "-m", os.path.join(folder, "m.osvm")],
            capture_output=True, text=True, check=True, env={**os.environ, "OSVM_NO_SKLEARN": "1"},
        )  # fmt: skip
        return float(done.stdout)

    track_resident_megabytes.unit = "MB"


class TextToModel:
    """Documents to a fitted classifier, the size of 20 Newsgroups' training part."""

    timeout = 600
    n_documents = scaled(11_314, 500)

    def setup(self):
        rng = np.random.default_rng(0)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        words = np.array(
            ["".join(rng.choice(letters, rng.integers(2, 11))) for _ in range(60_000)]
        )
        ranks = 1 / np.arange(10, 60_010) ** 1.05
        topics = []
        for _ in range(20):
            p = ranks * rng.lognormal(0, 1.0, 60_000)
            topics.append(np.cumsum(p / p.sum()))
        self.labels = rng.integers(0, 20, self.n_documents)
        self.documents = []
        for k in self.labels:
            n = int(rng.lognormal(5.0, 0.7)) + 5
            self.documents.append(" ".join(words[np.searchsorted(topics[k], rng.random(n))]))

    def _osvm(self):
        import osvm
        from osvm.stream import HashingTokenizer

        X = HashingTokenizer().transform(self.documents)
        return osvm.LinearClassifier(random_state=0).fit(X, self.labels), X

    def _sklearn(self):
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import SGDClassifier

        X = HashingVectorizer().transform(self.documents)
        return SGDClassifier(random_state=0).fit(X, self.labels), X

    def time_tokenize(self):
        from osvm.stream import HashingTokenizer

        HashingTokenizer().transform(self.documents)

    def time_text_to_model(self):
        self._osvm()

    def track_times_faster_than_scikit_learn(self):
        try:
            import sklearn  # noqa: F401
        except ImportError:
            raise NotImplementedError from None
        ours, theirs = interleaved(self._osvm, self._sklearn, 1)
        return theirs / ours

    track_times_faster_than_scikit_learn.unit = "x"


__all__ = ["SvmlightFile", "TextToModel", "TrainCommand"]
