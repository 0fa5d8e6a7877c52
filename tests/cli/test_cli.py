"""The command ``osvm``: usage, errors, version."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

import osvm
from osvm import cli


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_help_page(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["learn"], ["version", "--nonsense"]])
def test_wrong_usage_is_status_2(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    assert "usage: osvm" in capsys.readouterr().err


def test_version(capsys):
    assert cli.main(["version"]) == 0
    assert f"osvm          {osvm.__version__}\n" in capsys.readouterr().out
    assert cli.main(["version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["osvm"] == osvm.__version__
    assert found["numpy"]


def test_as_a_module():
    output = subprocess.run(
        [sys.executable, "-m", "osvm", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert output == f"osvm {osvm.__version__}\n"


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ValueError("row 3: no label"), 1, "osvm broken: row 3: no label\n"),
        (FileNotFoundError(2, "No such file", "x.txt"), 1, "osvm broken: x.txt: No such file\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_line(monkeypatch, capsys, error, status, text):
    def run(arguments):
        raise error

    module = SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "osvm._broken", module)
    monkeypatch.setitem(cli.COMMANDS, "broken", ("osvm._broken", "fail"))
    assert cli.main(["broken"]) == status
    shown = capsys.readouterr().err
    assert text in shown
    assert shown.count("\n") == 1
