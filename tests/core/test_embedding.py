"""The clients that the documentation shows, compiled as C and as C++ and run.

With setuptools and with meson-python; against the osvm that runs the tests, against a wheel
installed into a fresh environment and against an editable install.  Each must equal the
library's own model.  And clients compiled for another layout, which must be refused.

The last two environments are made here, which compiles the library twice, unless

    OSVM_EMBED_WHEEL     names a Python that has a wheel of this tree installed
    OSVM_EMBED_EDITABLE  names a Python that has an editable install of this tree

both with cython, setuptools, meson-python and ninja.
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
TOOLS = ["cython", "setuptools", "meson-python", "ninja"]

pytestmark = [
    pytest.mark.skipif(not CLIENT.is_dir(), reason="the documentation's client is not here"),
]

CLIENTS = ["linear_svm", "kernel_perceptron", "ol_svm", "parallel_scores"]

# Runs in the process of the clients: results against the library's models, an error out of nogil.
TRY_IT = textwrap.dedent(
    """
    import numpy as np
    import scipy.sparse
    import kernel_perceptron, linear_svm, ol_svm, parallel_scores
    import osvm
    from osvm.kernels import RBF

    rng = np.random.default_rng(0)
    X = scipy.sparse.random(400, 40, density=0.2, format="csr", rng=rng)
    y = np.where(X @ rng.normal(size=40) > 0, 1.0, -1.0)
    dense = X.toarray()

    def same(got, expected):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)

    # 1: a linear SVM
    reg = 0.01
    model = osvm.LinearClassifier(
        reg=reg, schedule="inverse_time", fit_intercept=False, epochs=1, shuffle=False
    ).fit(X, y)
    got = linear_svm.fit(X, y, reg)
    same(got, model.coef_[0])
    for other in (dense, scipy.sparse.csr_array(X)):
        same(linear_svm.fit(other, y, reg), model.coef_[0])
    assert np.mean(np.sign(X @ got) == y) > 0.85

    # 2: a kernel perceptron with a budget
    for rows in (X, dense):
        model = osvm.KernelClassifier(
            "perceptron", reg=0.0, gamma=0.5, budget=30, eviction="coefficient",
            schedule="constant", eta0=1.0, epochs=1, shuffle=False, average=False
        ).fit(rows, y)
        assert np.sum(model.n_support_) == 30
        same(kernel_perceptron.learn_and_score(rows, y, rows[:90], 0.5, 30),
             model.decision_function(rows[:90]) - model.intercept_)

    # 3: OL SVM
    for rows in (X, dense):
        model = osvm.SVC(gamma=0.5, C=2.0, max_iter=3, solver=osvm.solvers.OlSvm(
            shuffle=False, dtype="float64", fit_intercept=False)).fit(rows, y)
        alpha, outputs = ol_svm.fit(rows, y, 0.5, 2.0, 3)
        expected = np.zeros(400)
        expected[model.support_] = model.dual_coef_[0]
        same(alpha, expected)
        same(outputs, RBF(gamma=0.5)(rows) @ alpha)

    # 4: threads that share one model
    for rows in (X, dense):
        model = osvm.KernelClassifier(gamma=0.5, budget=50, random_state=0).fit(rows, y)
        scorer = parallel_scores.Scorer(model.support_vectors_, model.dual_coef_[0].copy(), 0.5,
                                        float(np.ravel(model.intercept_)[0]))
        for threads in (1, 2, 4):
            same(scorer.decision_function(rows, threads), model.decision_function(rows))
        try:
            scorer.decision_function(rows[:, :5])
        except ValueError as error:
            assert "another length" in str(error)
        else:
            raise SystemExit("no error for rows of another length")

    row = int(np.flatnonzero(np.diff(X.indptr) > 0)[7])
    X.data[X.indptr[row]] = np.nan
    try:
        linear_svm.fit(X, y, reg)
    except ValueError as error:
        assert f"row {row} " in str(error), error
    else:
        raise SystemExit("no error for a NaN")
    print("clients agree with the library")
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


def compile_clients(python, folder, language, tool="setuptools", **variables):
    """The files of the documentation, unchanged but for the words that ask for C++."""
    shutil.copytree(CLIENT, folder)
    if tool == "meson":
        build = folder / "meson.build"
        if language == "c++":
            text = build.read_text().replace("'c', 'cython'", "'cpp', 'cython'")
            text = text.replace("['buildtype=release']", "['cython_language=cpp']")
            build.write_text(text.replace("c_args:", "cpp_args:"))
        run([python, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps",
             "--target", "built", "."], folder, **variables)  # fmt: skip
        return folder / "built"
    (folder / "pyproject.toml").unlink()
    if language == "c++":
        for name in CLIENTS:
            source = folder / f"{name}.pyx"
            source.write_text("# distutils: language = c++\n" + source.read_text())
    run([python, "setup.py", "build_ext", "--inplace"], folder, **variables)
    assert (folder / ("linear_svm.cpp" if language == "c++" else "linear_svm.c")).exists()
    return folder


def check_clients(python, folder, language, tool="setuptools", **variables):
    built = compile_clients(python, folder, language, tool, **variables)
    assert "clients agree" in run([python, "-c", TRY_IT], built, **variables)
    return built


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
    run([python, "-m", "pip", "install", "-q", wheel, *TOOLS], folder)
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
    run([python, "-m", "pip", "install", "-q", "-e", source, *TOOLS], folder)
    return python


def where_is_osvm(python, folder):
    return Path(run([python, "-c", "import osvm; print(osvm.__file__)"], folder).strip())


def test_include_folder_has_the_headers():
    files = {path.name for path in Path(osvm.get_include()).iterdir()}
    names = ("abi", "row", "svec", "loss", "step", "view", "kernel", "expansion", "fixed", "order")
    assert {*(f"{name}.pxd" for name in (*names, "dual")), "abi.py"} <= files


def test_abi_number_is_that_of_the_header():
    text = (Path(osvm.get_include()) / "abi.pxd").read_text()
    assert f"ABI_NUMBER = {abi_version()} " in text


def test_clients_are_short():
    for name in CLIENTS:
        assert (CLIENT / f"{name}.pyx").read_text().count("\n") < 60


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_of_this_install(tmp_path, language):
    folder = check_clients(sys.executable, tmp_path / "client", language, **this_install())
    if language == "c":  # so that embedding costs no long compilation
        assert (folder / "linear_svm.c").stat().st_size < 400_000


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["setuptools", "meson"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_of_a_wheel(wheel_python, tmp_path, language, tool):
    assert "site-packages" in str(where_is_osvm(wheel_python, tmp_path))
    check_clients(wheel_python, tmp_path / "client", language, tool)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["setuptools", "meson"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_of_an_editable_install(editable_python, tmp_path, language, tool):
    assert "site-packages" not in str(where_is_osvm(editable_python, tmp_path))
    check_clients(editable_python, tmp_path / "client", language, tool)


CHECKER = """
from osvm.core.abi cimport abi_check
abi_check()
"""


def import_checker(folder, name, old, new):
    """Import a client that was compiled against headers with one change; what it printed."""
    headers = folder / "headers" / "osvm"
    package = Path(osvm.get_include()).parent
    for room in ("core", "_c"):
        keep = shutil.ignore_patterns("*.so", "*.pyx", "__pycache__")
        shutil.copytree(package / room, headers / room, ignore=keep)
    (headers / "__init__.pxd").touch()
    header = headers / "core" / name
    text = header.read_text()
    assert old in text
    header.write_text(text.replace(old, new))
    (folder / "checker.pyx").write_text(CHECKER)
    setup = SETUP.format(include=str(headers / "core"), path=str(headers.parent))
    (folder / "setup.py").write_text(setup)
    run([sys.executable, "setup.py", "build_ext", "--inplace"], folder, **this_install())
    code = "try:\n    import checker\nexcept ImportError as error:\n    print('refused:', error)"
    return run([sys.executable, "-c", code + "\nprint('done')"], folder, **this_install())


SETUP = """
from Cython.Build import cythonize
from setuptools import Extension, setup

setup(ext_modules=cythonize([Extension("checker", ["checker.pyx"], include_dirs=[{include!r}])],
                            include_path=[{path!r}]))
"""


@pytest.mark.slow
def test_client_of_another_abi_number_is_refused(tmp_path):
    number = abi_version()
    output = import_checker(
        tmp_path, "abi.pxd", f"ABI_NUMBER = {number} ", f"ABI_NUMBER = {number + 41} "
    )
    assert f"refused: this module was compiled with osvm ABI {number + 41}" in output
    assert f"has ABI {number}" in output
    assert "compile it again with the installed osvm" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("struct", "field"), [("Row", "int kind                # a RowKind\n"), ("Step", "int flags")]
)
def test_client_with_a_larger_struct_is_refused(tmp_path, struct, field):
    new = field.replace("int ", "double added[4]\n    int ")
    output = import_checker(tmp_path, "typedefs.pxd", field, new)
    assert f"refused: this module was compiled with a struct {struct} of " in output
    assert "compile it again with the installed osvm" in output


@pytest.mark.slow
def test_client_that_knows_fewer_fields_is_not_refused(tmp_path):
    """Structs grow at their end: an older client goes on working."""
    field = (
        "    double alpha     # coin betting: gradients that are bet as if they had been seen\n"
    )
    output = import_checker(tmp_path, "typedefs.pxd", field, "")
    assert "refused" not in output
    assert "done" in output
