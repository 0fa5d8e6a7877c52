"""``osvm version``: what is installed, for bug reports."""

from __future__ import annotations

import argparse
import json
import platform
from importlib import metadata

from osvm import __version__
from osvm.core.abi import abi_version

LIBRARIES = ("numpy", "scipy", "scikit-learn", "dask", "matplotlib", "tqdm", "cython")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for machines")


def versions() -> dict[str, str | int | None]:
    """Version of each library, None where it is not installed."""
    found: dict[str, str | int | None] = {
        "osvm": __version__,
        "abi": abi_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = None
    return found


def run(arguments: argparse.Namespace) -> int:
    found = versions()
    if arguments.json:
        print(json.dumps(found))
        return 0
    for name, version in found.items():
        print(f"{name:<13} {'not installed' if version is None else version}")
    return 0
