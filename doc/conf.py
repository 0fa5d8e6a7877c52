"""How the documentation is built: ``sphinx-build -W doc folder``."""

import os
import sys
from pathlib import Path

# Without scikit-learn's base classes, whose docstrings refer to its own pages.
os.environ["OSVM_NO_SKLEARN"] = "1"
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import osvm

project = "osvm"
author = "The osvm developers"
copyright = "The osvm developers"
version = release = osvm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "markdown_page",
    "benchmark_results",
    "core_reference",
]
exclude_patterns = ["_build", "_ext"]
default_role = "code"
highlight_language = "python"

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"osvm {release}"
html_show_sourcelink = False
