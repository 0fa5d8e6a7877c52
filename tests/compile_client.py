"""Compile small Cython files against the osvm that runs the tests, and import them."""

import importlib.util
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import osvm

SETUP = textwrap.dedent(
    """
    import sys
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    name, include, root = sys.argv[1:4]
    del sys.argv[1:4]
    flags = [] if sys.platform == "win32" else ["-O0", "-ffp-contract=off"]
    libraries = [] if sys.platform == "win32" else ["m"]
    extension = Extension(name, [name + ".pyx"], include_dirs=[include], libraries=libraries,
                          extra_compile_args=flags)
    setup(script_args=["build_ext", "--inplace"],
          ext_modules=cythonize([extension], include_path=[root]))
    """
)


def compile_client(source: Path, folder: Path):
    """The module made from `source`, built and kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder)
    (folder / "setup.py").write_text(SETUP)
    package = Path(osvm.__file__).resolve().parent
    command = [sys.executable, "setup.py", source.stem, osvm.get_include(), str(package.parent)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = next(p for p in folder.glob(f"{source.stem}*") if p.suffix in (".so", ".pyd"))
    spec = importlib.util.spec_from_file_location(source.stem, built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
