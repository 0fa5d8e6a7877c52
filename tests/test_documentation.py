"""What the README, the pages and the checks say, runs and agrees."""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted(
    path
    for path in (ROOT / "doc").rglob("*.rst")
    if not {"generated", "_build"} & set(path.relative_to(ROOT).parts)
    and ">>>" in path.read_text()
)

pytestmark = pytest.mark.skipif(not README.exists(), reason="not a source tree")


def test_readme_has_the_two_commands():
    commands = re.findall(r"^ *(pip install .*)$", README.read_text(), re.MULTILINE)
    assert commands == ["pip install . && osvm demo", "pip install -e '.[test]' && pytest"]


def test_readme_example_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 10
    monkeypatch.chdir(tmp_path)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "README.md", "exec"), {})
    error = float(re.search(r"test error ([\d.]+) %", shown.getvalue())[1])
    assert error < 15


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT / "doc")))
def test_examples_of_the_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert not failed


@pytest.mark.skipif(os.name == "nt", reason="the checks are a shell script")
def test_contributing_names_every_check():
    listed = subprocess.run(
        [str(ROOT / ".ci" / "run"), "--list"], capture_output=True, text=True, check=True
    ).stdout
    parts = {line.split()[0] for line in listed.splitlines()}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"^- `\.ci/run (\w+)`", text, re.MULTILINE)) == parts
    wrong = subprocess.run(
        [str(ROOT / ".ci" / "run"), "nonsense"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "nonsense" in wrong.stderr


def test_import_brings_no_optional_library():
    code = (
        "import sys, osvm\n"
        "heavy = {'sklearn', 'matplotlib', 'dask', 'pandas', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
