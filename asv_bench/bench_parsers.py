"""Reading files: speed against the peers on the same file, memory, end to end.

Each class writes its file once, into a temporary folder.  ``track_`` figures
are ratios taken in one run; a missing peer skips its benchmark.
"""

import itertools
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
        if not os.path.exists("/proc/self/status"):
            raise NotImplementedError
        code = (
            "import sys; from osvm.cli import main; main(sys.argv[1:]); "  # ru_maxrss would
            "status = open('/proc/self/status').read(); "  # count the process that forked us
            "print(float(status.split('VmHWM:')[1].split()[0]) / 1024)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "train", os.path.join(folder, "train.svm"), "-q",
             "--stream", "-m", os.path.join(folder, "m.osvm")],
            capture_output=True, text=True, check=True, env={**os.environ, "OSVM_NO_SKLEARN": "1"},
        )  # fmt: skip
        return float(done.stdout)

    track_resident_megabytes.unit = "MB"


def generated_documents(count, seed=0):
    """Documents of 20 topics and their labels."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 11))) for _ in range(60_000)])
    ranks = 1 / np.arange(10, 60_010) ** 1.05
    topics = []
    for _ in range(20):
        p = ranks * rng.lognormal(0, 1.0, 60_000)
        topics.append(np.cumsum(p / p.sum()))
    labels = rng.integers(0, 20, count)
    documents = []
    for k in labels:
        n = int(rng.lognormal(5.0, 0.7)) + 5
        documents.append(" ".join(words[np.searchsorted(topics[k], rng.random(n))]))
    return documents, labels


def news20_documents():
    """20 Newsgroups as text: the words of its term counts, in random order.

    Returns training documents and labels, test documents and labels.
    """
    import gzip

    from scipy.sparse import csr_array, load_npz

    from asv_bench.common import DATA

    if not (DATA / "news20_counts.npz").exists():
        raise NotImplementedError("set OSVM_DATA to the folder with news20_counts.npz")
    counts = csr_array(load_npz(DATA / "news20_counts.npz"))
    labels = np.load(DATA / "news20_labels.npz")
    with gzip.open(DATA / "news20_counts_vocab.txt.gz", "rt", encoding="utf-8") as file:
        words = np.array(file.read().split("\n"), dtype=object)
    rng = np.random.default_rng(0)
    documents = []
    for a, b in itertools.pairwise(counts.indptr.tolist()):
        columns = np.repeat(counts.indices[a:b], counts.data[a:b])
        rng.shuffle(columns)
        documents.append(" ".join(words[columns]))
    n, y = int(labels["n_train"]), labels["y"]
    return documents[:n], y[:n], documents[n:], y[n:]


class TextToModel:
    """Documents to a fitted classifier, with 20 Newsgroups' training part and its size.

    ``passes=12`` lets both learners take the twelve passes after which SGDClassifier's own
    rule stops on these data; ``passes="default"`` leaves each its own number.
    """

    params = (["20 Newsgroups", "generated"], [12, "default"])
    param_names = ("documents", "passes")
    timeout = 1200

    def setup(self, source, passes):
        if source == "generated":
            n = scaled(11_314, 500)
            documents, labels = generated_documents(n + n // 2)
            self.train, self.test = documents[:n], documents[n:]
            self.y, self.y_test = labels[:n], labels[n:]
        elif bench_scale() < 1:
            raise NotImplementedError
        else:
            self.train, self.y, self.test, self.y_test = news20_documents()

    def _osvm(self, passes, seed=0):
        import osvm
        from osvm.stream import HashingTokenizer

        options = {} if passes == "default" else {"epochs": passes}
        X = HashingTokenizer(tf="count", idf=False).transform(self.train)
        return osvm.LinearClassifier(random_state=seed, **options).fit(X, self.y)

    def _sklearn(self, passes, seed=0):
        try:
            from sklearn.feature_extraction.text import HashingVectorizer
            from sklearn.linear_model import SGDClassifier
        except ImportError:
            raise NotImplementedError from None

        options = {} if passes == "default" else {"max_iter": passes, "tol": None}
        X = HashingVectorizer().transform(self.train)
        return SGDClassifier(random_state=seed, **options).fit(X, self.y)

    def time_tokenize(self, source, passes):
        from osvm.stream import HashingTokenizer

        HashingTokenizer(tf="count", idf=False).transform(self.train)

    def time_text_to_model(self, source, passes):
        self._osvm(passes)

    def track_times_faster_than_scikit_learn(self, source, passes):
        repeats = 2 if bench_scale() >= 1 else 1
        ours, theirs = interleaved(
            lambda: self._osvm(passes), lambda: self._sklearn(passes), repeats
        )
        return theirs / ours

    track_times_faster_than_scikit_learn.unit = "x"

    def track_points_of_accuracy_over_scikit_learn(self, source, passes):
        from osvm.stream import HashingTokenizer

        seeds = 3 if bench_scale() >= 1 else 1
        # the same columns as those of HashingVectorizer
        Z = HashingTokenizer(tf="count", idf=False).transform(self.test)
        ours = [self._osvm(passes, seed).score(Z, self.y_test) for seed in range(seeds)]
        theirs = [self._sklearn(passes, seed).score(Z, self.y_test) for seed in range(seeds)]
        return 100 * (np.mean(ours) - np.mean(theirs))

    track_points_of_accuracy_over_scikit_learn.unit = "points"


__all__ = ["SvmlightFile", "TextToModel", "TrainCommand"]
