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
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from osvm._version import __version__

# name: (module, one line of help), in the order of the help page
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("osvm._cli.train", "learn a model from a file or a pipe"),
    "predict": ("osvm._cli.predict", "print a prediction for each example"),
    "evaluate": ("osvm._cli.evaluate", "predict each example, then learn it; print the figures"),
    "inspect": ("osvm._cli.inspect", "show what is in a model file"),
    "convert": ("osvm._cli.convert", "rewrite data in another format"),
    "demo": ("osvm._demo", "learn generated text and print a table of what was measured"),
    "version": ("osvm._versions", "print the versions of osvm and of what it uses"),
}


def make_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands; the options of the chosen one only."""
    parser = argparse.ArgumentParser(
        prog="osvm", description="Online support vector machines for sparse text and streams."
    )
    parser.add_argument("--version", action="version", version=f"osvm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:
            import_module(module).add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    if argv is None:
        # A process of our own: it starts a second sooner and 90 MB lighter without scikit-learn.
        os.environ.setdefault("OSVM_NO_SKLEARN", "1")
        argv = sys.argv[1:]
    argv = list(argv)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    arguments = make_parser(chosen).parse_args(argv)
    module, _ = COMMANDS[arguments.command]
    try:
        return import_module(module).run(arguments)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        print(f"osvm {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"osvm {arguments.command}: interrupted", file=sys.stderr)
        return 130
