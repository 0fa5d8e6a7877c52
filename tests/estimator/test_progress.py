"""The progress table."""

import io

import pytest

from osvm._estimator.progress import Progress, make_progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def rows(stream):
    lines = stream.getvalue().splitlines()
    assert lines[0].split() == ["examples", "average", "since", "error", "examples/s"]
    return [line.split() for line in lines[2:]]


def test_rows_at_powers_of_two():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    for t in range(1, 21):
        clock.now = t * 0.1
        progress.update(t, loss=0.5 * t, errors=t // 2)
    progress.finish()
    progress.finish()
    table = rows(stream)
    assert [int(row[0]) for row in table] == [1, 2, 4, 8, 16, 20]
    assert all(float(row[1]) == float(row[2]) == 0.5 for row in table)
    assert [row[3] for row in table] == ["0.00"] + ["50.00"] * 5
    assert all(row[4] == "10" for row in table)


def test_loss_since_the_last_row():
    stream = io.StringIO()
    progress = Progress(stream)
    for loss in (4.0, 2.0, 1.0, 1.0):
        progress.add(1, loss=loss, errors=1)
    table = rows(stream)
    assert [float(row[1]) for row in table] == [4.0, 3.0, 2.0]
    assert [float(row[2]) for row in table] == [4.0, 2.0, 1.0]
    assert table[-1][3] == "100.00"


def test_blocks_print_once_each():
    stream = io.StringIO()
    progress = Progress(stream)
    assert progress.next_at == 1
    for _ in range(5):
        progress.add(1000, loss=1.0)
    assert [int(row[0]) for row in rows(stream)] == [1000, 2000, 3000, 5000]
    assert rows(stream)[0][3] == "-"
    assert progress.next_at == 8192


def test_going_on_from_a_checkpoint():
    stream = io.StringIO()
    progress = Progress(stream, start=1000)
    assert progress.next_at == 1024
    progress.add(24, loss=12.0, errors=6)
    assert rows(stream)[0][:4] == ["1024", "0.500000", "0.500000", "25.00"]


def test_nothing_seen_prints_nothing():
    stream = io.StringIO()
    Progress(stream).finish()
    assert stream.getvalue() == ""


def test_large_and_small_losses_keep_the_columns():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.add(1, loss=1.5e12)
    progress.add(1, loss=-1e-9)
    assert {len(line) for line in stream.getvalue().splitlines()[2:]} == {59}


def test_standard_error_is_looked_up_late(capsys):
    progress = make_progress(True)
    progress.add(1, loss=1.0)
    captured = capsys.readouterr()
    assert "average" in captured.err
    assert captured.out == ""


def test_a_program_without_a_console_has_no_table(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    progress = Progress()
    progress.update(1, loss=1.0)
    progress.finish()


def test_verbose():
    assert make_progress(False) is None
    assert make_progress(0) is None
    assert isinstance(make_progress(1), Progress)
    assert make_progress(io.StringIO(), start=4).next_at == 8
    with pytest.raises(ValueError, match="verbose"):
        make_progress("yes")
