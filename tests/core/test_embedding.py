"""The client that the documentation shows, compiled as C and as C++ and run.

Against the osvm that runs the tests, against a wheel installed into a fresh
environment and against an editable install; and a client compiled for another
ABI number, which must be refused.

The last two environments are made here, which compiles the library twice, unless

    OSVM_EMBED_WHEEL     names a Python that has a wheel of this tree installed
    OSVM_EMBED_EDITABLE  names a Python that has an editable install of this tree

both with cython and setuptools.
"""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import osvm
from osvm.core.abi import abi_version

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "doc" / "embedding"
LANGUAGES = ["c", "c++"]

pytestmark = [
    pytest.mark.skipif(not CLIENT.is_dir(), reason="the documentation's client is not here"),
]

# Runs in the process of the client: result against numpy, an error out of nogil.
TRY_IT = textwrap.dedent(
    """
    import numpy as np
    import scipy.sparse
    import my_svm

    rng = np.random.default_rng(0)
    X = scipy.sparse.random(300, 40, density=0.2, format="csr", rng=rng)
    y = np.where(X @ rng.normal(size=40) > 0, 1.0, -1.0)
    reg = 0.01

    w = np.zeros(40)
    dense = X.toarray()
    for t, (x, label) in enumerate(zip(dense, y), start=1):
        violated = label * (w @ x) < 1
        w = (1 - 1 / t) * w
        if violated:
            w += label / (reg * t) * x
    got = my_svm.fit(X, y, reg)
    np.testing.assert_allclose(got, w, rtol=1e-10, atol=1e-12)
    for same in (dense, scipy.sparse.csr_array(X)):
        np.testing.assert_allclose(my_svm.fit(same, y, reg), w, rtol=1e-10, atol=1e-12)
    assert np.mean(np.sign(X @ got) == y) > 0.85

    row = int(np.flatnonzero(np.diff(X.indptr) > 0)[7])
    X.data[X.indptr[row]] = np.nan
    try:
        my_svm.fit(X, y, reg)
    except ValueError as error:
        assert f"row {row} " in str(error), error
    else:
        raise SystemExit("no error for a NaN")
    print("client agrees with numpy")
    """
)


def run(command, cwd, **variables):
    """Run a command in a folder; its output, also inside the error when it fails."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    env.update(variables)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{command} failed:\n{output}"
    return output


def compile_client(python, folder, language, **variables):
    """The files of the documentation, unchanged but for the line that asks for C++."""
    folder.mkdir()
    source = (CLIENT / "my_svm.pyx").read_text()
    if language == "c++":
        source = "# distutils: language = c++\n" + source
    (folder / "my_svm.pyx").write_text(source)
    shutil.copy(CLIENT / "setup.py", folder)
    run([python, "setup.py", "build_ext", "--inplace"], folder, **variables)
    made = "my_svm.cpp" if language == "c++" else "my_svm.c"
    assert (folder / made).exists()
    return folder


def check_client(python, folder, language, **variables):
    compile_client(python, folder, language, **variables)
    for _ in range(2):  # each in a fresh process
        assert "client agrees with numpy" in run([python, "-c", TRY_IT], folder, **variables)


def this_install():
    """How a process elsewhere finds the osvm that this process has."""
    return {"PYTHONPATH": str(Path(osvm.__file__).resolve().parents[1])}


def copy_tree(target):
    """The sources as a clone would have them: nothing built, nothing hidden."""
    shutil.copytree(
        ROOT,
        target,
        ignore=shutil.ignore_patterns(
            ".*", "build", "dist", "*.so", "*.pyd", "*.egg-info", "__pycache__", "_build", "env"
        ),
    )
    return target


def make_venv(folder):
    run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


@pytest.fixture(scope="module")
def wheel_python(tmp_path_factory):
    """A fresh environment with the wheel and what a client's build needs."""
    given = os.environ.get("OSVM_EMBED_WHEEL")
    if given:
        return given
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_tree(folder / "source")
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", ".", source], folder)
    wheel = str(next(folder.glob("osvm-*.whl")))
    python = make_venv(folder / "venv")
    run([python, "-m", "pip", "install", "-q", wheel, "cython", "setuptools"], folder)
    return python


@pytest.fixture(scope="module")
def editable_python(tmp_path_factory):
    """A fresh environment with an editable install."""
    given = os.environ.get("OSVM_EMBED_EDITABLE")
    if given:
        return given
    folder = tmp_path_factory.mktemp("editable")
    source = copy_tree(folder / "source")
    python = make_venv(folder / "venv")
    run([python, "-m", "pip", "install", "-q", "-e", source, "cython", "setuptools"], folder)
    return python


def where_is_osvm(python, folder):
    return Path(run([python, "-c", "import osvm; print(osvm.__file__)"], folder).strip())


def test_include_folder_has_the_headers():
    files = {path.name for path in Path(osvm.get_include()).iterdir()}
    names = ("abi", "row", "svec", "loss", "step", "view")
    assert {*(f"{name}.pxd" for name in names), "abi.pyi"} <= files


def test_abi_number_is_that_of_the_header():
    text = (Path(osvm.get_include()) / "abi.pxd").read_text()
    assert f"ABI_NUMBER = {abi_version()}\n" in text


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_client_of_this_install(tmp_path, language):
    check_client(sys.executable, tmp_path / "client", language, **this_install())


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_client_of_a_wheel(wheel_python, tmp_path, language):
    assert "site-packages" in str(where_is_osvm(wheel_python, tmp_path))
    check_client(wheel_python, tmp_path / "client", language)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_client_of_an_editable_install(editable_python, tmp_path, language):
    assert "site-packages" not in str(where_is_osvm(editable_python, tmp_path))
    check_client(editable_python, tmp_path / "client", language)


@pytest.mark.slow
def test_client_of_another_abi_is_refused(tmp_path):
    """Compiled against headers with another number, run with the osvm that is here."""
    other = abi_version() + 41
    headers = tmp_path / "headers" / "osvm"
    core = Path(osvm.get_include())
    shutil.copytree(core, headers / "core", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (headers / "__init__.pxd").touch()
    abi = headers / "core" / "abi.pxd"
    text = abi.read_text()
    abi.write_text(text.replace(f"ABI_NUMBER = {abi_version()}", f"ABI_NUMBER = {other}"))
    client = tmp_path / "client"
    client.mkdir()
    shutil.copy(CLIENT / "my_svm.pyx", client)
    setup = (CLIENT / "setup.py").read_text()
    changed = setup.replace(
        "],\n    ),", f"],\n        include_path=[{str(headers.parent)!r}],\n    ),"
    )
    assert changed != setup
    (client / "setup.py").write_text(changed)
    run([sys.executable, "setup.py", "build_ext", "--inplace"], client, **this_install())
    code = "try:\n    import my_svm\nexcept ImportError as error:\n    print('refused:', error)"
    output = run([sys.executable, "-c", code], client, **this_install())
    assert "refused:" in output
    assert f"compiled against osvm ABI {other}" in output
    assert f"has ABI {abi_version()}" in output
    assert "compile the module again" in output
