"""Build the client: ``python setup.py build_ext --inplace``."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import osvm

setup(
    name="my_svm",
    ext_modules=cythonize(
        [Extension("my_svm", ["my_svm.pyx"], include_dirs=[osvm.get_include()])],
    ),
)
