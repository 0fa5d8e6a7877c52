"""Build the clients: ``python setup.py build_ext --inplace``."""

import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

import osvm

NAMES = ["linear_svm", "kernel_perceptron", "ol_svm", "parallel_scores"]
FLAGS = [] if sys.platform in ("win32", "darwin") else ["-O3", "-fopenmp"]

setup(
    name="osvm-clients",
    ext_modules=cythonize(
        [
            Extension(
                name,
                [f"{name}.pyx"],
                include_dirs=[osvm.get_include()],
                extra_compile_args=FLAGS,
                extra_link_args=FLAGS,
            )
            for name in NAMES
        ],
    ),
)
