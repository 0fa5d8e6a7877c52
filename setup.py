"""Build the compiled modules; everything else is declared in pyproject.toml.

Every ``.pyx`` below ``osvm/`` is one extension module of the same name, so a
new module needs no entry here.  Environment variables:

``OSVM_DEBUG=1``           bounds checks on, C assertions on (for the test suite)
``OSVM_SANITIZE=...``      sanitizers of gcc or clang, such as ``undefined`` or
                         ``address,undefined``; with the first the interpreter must load
                         libasan before all else, see ``.ci/sanitized``
``OSVM_ANNOTATE=1``        write Cython's annotated HTML beside the generated C
``OSVM_CYTHON_CACHE=...``  a folder that keeps generated C for other builds of the same sources
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from Cython import __version__ as cython_version
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("OSVM_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("OSVM_SANITIZE", "")
ANNOTATE = os.environ.get("OSVM_ANNOTATE", "") not in ("", "0")
CYTHON_CACHE = os.environ.get("OSVM_CYTHON_CACHE") or None

# One dictionary for every module.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    "emit_code_comments": DEBUG,  # the source again as comments: 40% of the generated C
}

# No -ffast-math (it changes subnormals for the whole process) and no
# -march=native (the wheel must run elsewhere): wide instructions are chosen at
# run time, see osvm/_c/dispatch.h.  -g0, because the -g that many Pythons were
# built with is inherited, and makes the build a third longer and the wheel larger.
FLAGS = {
    "unix": [
        "-O3",
        "-g0",
        "-std=c11",
        "-fno-math-errno",
        "-ffp-contract=off",
        "-Wno-unused-function",
    ],
    "mingw32": ["-O3", "-g0", "-std=c11", "-fno-math-errno", "-ffp-contract=off"],
    "msvc": ["/O2", "/std:c11"],
}
DEBUG_FLAGS = {
    "unix": ["-UNDEBUG", "-g", "-O1"],
    "mingw32": ["-UNDEBUG", "-g", "-O1"],
    "msvc": ["/UNDEBUG"],
}
SANITIZE_FLAGS = [
    f"-fsanitize={SANITIZE}",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-O1",
    "-g1",
]

SHARED = "osvm._cyutility"  # Cython's memoryview code, compiled once for all modules
# A debug build keeps its generated C apart, or it would be taken for a release one.
BUILD_DIR = "build/cython-debug" if DEBUG else "build/cython"


class BuildExt(build_ext):
    """Translate when something is built, not before: an sdist holds the .pyx files."""

    def build_extensions(self):
        kept = kept_translation()
        if kept is not None and kept.exists():  # newer than all sources: not translated again
            shutil.copytree(kept, BUILD_DIR, copy_function=shutil.copy, dirs_exist_ok=True)
        translated = cythonize(
            find_extensions(),
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            build_dir=BUILD_DIR,
            annotate=ANNOTATE,
            nthreads=jobs(),
        )
        if kept is not None and not kept.exists():
            unfinished = kept.with_suffix(f".{os.getpid()}")
            shutil.copytree(BUILD_DIR, unfinished)
            try:
                unfinished.rename(kept)
            except OSError:  # another build was first
                shutil.rmtree(unfinished)
        sources = {extension.name: extension.sources for extension in translated}
        self.parallel = self.parallel or jobs()
        kind = self.compiler.compiler_type
        flags = FLAGS.get(kind, []) + (SANITIZE_FLAGS if SANITIZE else [])
        flags += DEBUG_FLAGS.get(kind, []) if DEBUG else []
        for extension in self.extensions:
            extension.sources = sources[extension.name]
            extension.extra_compile_args = flags + extension.extra_compile_args
            if SANITIZE:
                extension.extra_link_args = [f"-fsanitize={SANITIZE}"]
        super().build_extensions()

    def get_source_files(self):
        return [name for name in super().get_source_files() if os.path.exists(name)]


def jobs():
    """Processes that translate and threads that compile: one for each core we may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system tells
        return os.cpu_count() or 1


def kept_translation():
    """Where OSVM_CYTHON_CACHE keeps the C of exactly these sources; None without it.

    Cython's own cache goes by the path of its headers, which an isolated build has anew
    each time.
    """
    if not CYTHON_CACHE:
        return None
    key = hashlib.sha256(repr((cython_version, DIRECTIVES, ANNOTATE)).encode())
    for path in sorted(Path("osvm").rglob("*")):
        if path.suffix in (".pyx", ".pxd", ".h"):
            key.update(f"{path.as_posix()} {path.stat().st_size} ".encode() + path.read_bytes())
    return Path(CYTHON_CACHE) / key.hexdigest()


def find_extensions():
    """One extension per .pyx; all are rebuilt when a public header changes."""
    headers = sorted(str(p) for p in Path("osvm").rglob("*") if p.suffix in (".pxd", ".h"))
    libraries = [] if sys.platform == "win32" else ["m"]
    extensions = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            depends=headers,
            include_dirs=["osvm/core"],
            libraries=libraries,
        )
        for path in sorted(Path("osvm").rglob("*.pyx"))
    ]
    return [Extension(SHARED, ["osvm/_cyutility.c"]), *extensions]


setup(ext_modules=find_extensions(), cmdclass={"build_ext": BuildExt})
