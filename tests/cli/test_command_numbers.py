"""The command with numbers to predict, with learners of fixed sets, and without labels."""

import json

import numpy as np
import pytest

import osvm
from tests.run_command import command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """y = 3 a + 2 b + 100 and a noise of .1; classes by its sign against 100."""
    folder = tmp_path_factory.mktemp("numbers")
    rng = np.random.default_rng(0)
    A = rng.normal(size=(600, 2))
    y = 3 * A[:, 0] + 2 * A[:, 1] + 100 + 0.1 * rng.normal(size=600)
    rows = [f"{a:.6f},{b:.6f},{value:.6f}\n" for (a, b), value in zip(A, y)]
    (folder / "numbers.csv").write_text("a,b,y\n" + "".join(rows))
    rows = [f"{a:.6f},{b:.6f},{'up' if v > 100 else 'down'}\n" for (a, b), v in zip(A, y)]
    (folder / "classes.csv").write_text("a,b,y\n" + "".join(rows))
    return folder


def test_regression_reports_absolute_errors_and_no_percentages(folder):
    data, path = folder / "numbers.csv", folder / "a.osvm"
    flags = ("--label", "y", "--estimator", "LinearRegressor", "--dtype", "float32")
    _, err = command("train", data, "-m", path, *flags)
    assert "%" not in err
    assert "training: mean squared error 0.01" in err
    out, err = command("train", data, "-m", path, *flags, "--stream", "--no-shuffle", "--json")
    figures = json.loads(out)
    assert "error" not in figures
    assert 0.08 < figures["absolute_error"] < 1  # the noise alone is .08
    last = [line for line in err.splitlines() if line.split()[0] == "600"][-1]
    assert float(last.split()[3]) == pytest.approx(figures["absolute_error"], rel=1e-3)
    assert f"absolute error {figures['absolute_error']:.6g}" in err
    _, err = command("train", data, "-m", path, *flags, "--stream", "--epochs", 2)
    assert "held out, last pass" in err
    assert "%" not in err


def test_labels_that_are_numbers_are_refused_as_classes(folder):
    data, path = folder / "numbers.csv", folder / "b.osvm"
    for flags in ((), ("--stream",), ("--estimator", "SVC")):
        _, err = command("train", data, "-m", path, "--label", "y", *flags, status=1)
        assert "--estimator LinearRegressor predicts numbers" in err
    assert not path.exists()


def test_half_stars_can_be_classes(folder):
    data, path = folder / "stars.csv", folder / "stars.osvm"
    rows = [f"{k % 3},{k % 2},{['1.5', '2', '2.5'][k % 3]}\n" for k in range(60)]
    data.write_text("a,b,stars\n" + "".join(rows))
    command("train", data, "-m", path, "--label", "stars", "--classes", "1.5,2,2.5", "-q")
    assert osvm.load(path).classes_.tolist() == ["1.5", "2", "2.5"]


@pytest.mark.parametrize("name", ["SVR", "KernelRegressor"])
def test_kernel_regressors_learn_a_column_of_numbers(folder, name):
    data, path = folder / "numbers.csv", folder / "c.osvm"
    _, err = command("train", data, "-m", path, "--label", "y", "--estimator", name)
    assert "training: mean squared error" in err
    assert "%" not in err.split("held in memory")[1]
    _, err = command("predict", data, "-m", path)
    assert "mean squared error" in err


@pytest.mark.parametrize("name", ["SVC", "LinearSVC"])
def test_predictions_of_learners_of_fixed_sets_are_counted(folder, name):
    data, path = folder / "classes.csv", folder / "d.osvm"
    command("train", data, "-m", path, "--label", "y", "--estimator", name, "-q")
    out, err = command("predict", data, "-m", path)
    assert set(out.split()) == {"up", "down"}
    assert float(err.split()[1]) > 95  # accuracy


@pytest.mark.parametrize("name", ["OneClassSVM", "LinearNovelty", "KernelNovelty"])
def test_novelty_needs_no_labels_and_has_no_training_error(folder, name):
    data, path = folder / "inputs.csv", folder / "e.osvm"
    lines = (folder / "classes.csv").read_text().splitlines()
    data.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    _, err = command("train", data, "-m", path, "--estimator", name, "--unlabelled")
    assert "training error" not in err
    _, err = command(
        "train", folder / "classes.csv", "-m", path, "--label", "y", "--estimator", name
    )
    assert "training error" not in err
    out, _ = command("predict", data, "-m", path)
    assert set(out.split()) <= {"1", "-1"}
