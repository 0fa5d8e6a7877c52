"""``osvm demo`` at a small size: it ends, and its numbers are those of the learners."""

import importlib.util
import re

import numpy as np
import pytest

from osvm import cli
from osvm.cli import demo


def test_demo_prints_what_it_measured(tmp_path, capsys):
    plot = tmp_path / "demo.png"
    assert cli.main(["demo", "--rows", "3000", "--plot", str(plot)]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert "3,000 x 47,152" in lines[0]
    head = next(i for i, line in enumerate(lines) if line.startswith("learner"))
    rows = [line for line in lines[head + 1 :] if re.search(r"\d\.\d{4}", line)]
    assert len(rows) >= 4
    for row in rows:
        seconds, objective, error, ratio = map(float, row.split()[-4:])
        assert seconds >= 0
        assert ratio >= 0
        assert 0 < objective < 2
        assert 1 < error < 40
    assert "test error" in shown.err
    if importlib.util.find_spec("matplotlib"):
        assert plot.stat().st_size > 5000
    else:
        assert "no plot" in shown.out


def test_quiet_demo_without_a_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--rows", "1000", "--quiet", "--no-plot"]) == 0
    assert capsys.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def test_too_few_rows(capsys):
    assert cli.main(["demo", "--rows", "10"]) == 1
    assert "--rows must be at least 1000" in capsys.readouterr().err


def test_objective_and_error_are_those_of_the_definition():
    class Model:
        coef_ = np.array([[3.0, 4.0]])

        def decision_function(self, X):
            return X @ self.coef_[0]

        def predict(self, X):
            return np.sign(self.decision_function(X))

    X = np.array([[0.1, 0.1], [-0.2, 0.0], [0.0, 0.1]])
    y = np.array([1, -1, -1])
    problem = demo.Problem(X, y, X, y, reg=0.1, matvec=1.0)
    hinge = (0.3 + 0.4 + 1.4) / 3
    assert problem.objective(Model()) == pytest.approx(0.05 * 25 + hinge)
    assert problem.test_error(Model()) == pytest.approx(1 / 3)


def test_table_has_a_line_for_each_result():
    table = demo.format_table([demo.Result("one", 0.5, 0.25, 0.0625, 3.14159)])
    assert table.splitlines()[1].split() == ["one", "0.500", "0.2500", "6.25", "3.1"]
