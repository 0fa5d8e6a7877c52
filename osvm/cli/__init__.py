"""The command ``osvm``, also ``python -m osvm``.

Each subcommand is a module with two functions,

    add_arguments(parser)     declare options on an ``argparse`` parser
    run(arguments) -> int     do it; the exit status

and one line in `COMMANDS`.  Only the chosen module is imported, so that
``osvm --help`` is quick.

Exit status: 0 done; 1 the data or a file is at fault, with one line that says
what to do; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from osvm import __version__

# name: (module, one line of help), in the order of the help page
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("osvm.cli.train", "learn a model from a file or a pipe"),
    "predict": ("osvm.cli.predict", "print a prediction for each example"),
    "evaluate": ("osvm.cli.evaluate", "predict each example, then learn it; print the figures"),
    "inspect": ("osvm.cli.inspect", "show what is in a model file"),
    "convert": ("osvm.cli.convert", "rewrite data in another format"),
    "demo": ("osvm.cli.demo", "learn generated text and print a table of what was measured"),
    "version": ("osvm.cli.versions", "print the versions of osvm and of what it uses"),
}

# Options that ask for more than the default estimator, or that others read in another way.
OF_ALL = {"-h", "--help", "--estimator", "--multilabel", "--eta0"}
OF_ALL |= {"--fit-intercept", "--no-fit-intercept", "--average", "--no-average"}
# What `from numpy import *` within scipy would import, a tenth of the start.
SPARED = ("f2py", "testing")


def make_parser(
    chosen: str | None = None, words: Sequence[str] | None = None
) -> argparse.ArgumentParser:
    """The parser of all commands; the options of the chosen one only.

    Where `words` name none but options of the default estimator, the others are not imported.
    """
    if words is not None:
        parser, command = _make_parsers(chosen, one_estimator=True)
        known = set() if command is None else command._option_string_actions.keys() - OF_ALL
        if all(word.partition("=")[0] in known for word in words if word.startswith(("--", "-h"))):
            return parser
    return _make_parsers(chosen)[0]


def _make_parsers(
    chosen: str | None, one_estimator: bool = False
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """The parser of all commands, and that of the chosen one."""
    own: argparse.ArgumentParser | None = None
    parser = argparse.ArgumentParser(
        prog="osvm", description="Online support vector machines for sparse text and streams."
    )
    parser.add_argument("--version", action="version", version=f"osvm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:
            own = command
            command.set_defaults(one_estimator=one_estimator)
            import_module(module).add_arguments(command)
    return parser, own


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    own_process = argv is None
    if argv is None:
        # It starts a second sooner and 90 MB lighter without scikit-learn.
        os.environ.setdefault("OSVM_NO_SKLEARN", "1")
        gc.disable()  # what is imported stays: there is no garbage to look for, now or at the end
        _settle_streams()
        _import_scipy()
        argv = sys.argv[1:]
    argv = list(argv)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    name = f"osvm {chosen}" if chosen in COMMANDS else "osvm"
    try:
        try:
            arguments = make_parser(chosen, argv).parse_args(argv)
        finally:
            if own_process:
                gc.freeze()
                gc.enable()
        module, _ = COMMANDS[arguments.command]
        status = import_module(module).run(arguments)
        sys.stdout.flush()  # here, where an error can still be told
        return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _drop_output()
        return 0
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        _report(name, _describe(error))
        return 1
    except MemoryError:
        _report(name, "not enough memory; try --stream, fewer --bits or a smaller --memory-mb")
        return 1
    except KeyboardInterrupt as interrupt:
        _report(name, ": ".join(["interrupted", *map(str, interrupt.args)]))
        return 130


def _describe(error: BaseException) -> str:
    """One line; for files, the name first."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split("\n"))


def _report(name: str, text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{name}: {text}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Send what could not be written nowhere, or the interpreter tries once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Tolerant:
    """Standard error that nobody may be reading any more: a run is not lost for that."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(BrokenPipeError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _import_scipy() -> None:
    """Without what numpy imports on first use, which scipy does not use."""
    import numpy as np

    known = vars(np)
    spared = [name for name in SPARED if name not in known]
    known.update(dict.fromkeys(spared))
    import_module("scipy.sparse")
    for name in spared:
        if known.get(name, "") is None:
            del known[name]


def _settle_streams() -> None:
    """Streams that were closed before the start go nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = _Tolerant(sys.stderr)
