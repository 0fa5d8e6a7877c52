"""Model files: save and load beside numpy's own and pickle, and how large they are."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np

import osvm
from asv_bench.common import interleaved, ratio
from asv_bench.report import scaled


def make_model(d: int, n_classes: int) -> osvm.LinearClassifier:
    """A fitted model with this many features and classes."""
    rng = np.random.default_rng(0)
    X = np.zeros((4 * n_classes, d), dtype=np.float32)
    X[:, : min(d, 200)] = rng.normal(size=(len(X), min(d, 200)))
    y = np.arange(len(X)) % n_classes
    return osvm.LinearClassifier(epochs=1, random_state=0).fit(X, y)


class ModelFile:
    """One model, written and read."""

    params = ([10_000, 1_000_000], [2, 20])
    param_names = ["features", "classes"]
    folder: tempfile.TemporaryDirectory[str] | None = None

    def setup(self, features: int, classes: int) -> None:
        if features * classes > 10_000_000:
            raise NotImplementedError("too large for every run")
        self.model = make_model(scaled(features, 500), classes)
        self.folder = tempfile.TemporaryDirectory(prefix="osvm-bench-")
        self.path = Path(self.folder.name, "model.osvm")
        self.numpy_path = Path(self.folder.name, "model.npy")
        self.model.save(self.path)
        self.weights = np.ascontiguousarray(self.model.coef_, dtype=np.float32)
        np.save(self.numpy_path, self.weights)

    def teardown(self, features: int, classes: int) -> None:
        if self.folder is not None:
            self.folder.cleanup()

    def time_save(self, features: int, classes: int) -> None:
        self.model.save(self.path)

    def time_load(self, features: int, classes: int) -> None:
        osvm.load(self.path)

    def time_pickle(self, features: int, classes: int) -> None:
        pickle.loads(pickle.dumps(self.model))

    def track_file_size(self, features: int, classes: int) -> int:
        return self.path.stat().st_size

    track_file_size.unit = "bytes"

    def track_load_to_numpy(self, features: int, classes: int) -> float:
        """CPU time of `osvm.load` as a multiple of `numpy.load` of the weights alone."""
        times = interleaved(
            {"load": lambda: osvm.load(self.path), "numpy": lambda: np.load(self.numpy_path)}
        )
        return ratio(times, "load", "numpy")

    track_load_to_numpy.unit = "numpy.load"

    def track_same_scores(self, features: int, classes: int) -> float:
        """Largest difference of the weights after a round trip: 0."""
        return float(np.abs(osvm.load(self.path).coef_ - self.model.coef_).max())
