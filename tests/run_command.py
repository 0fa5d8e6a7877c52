"""Run the command `osvm`: inside this process, or as a process of its own.

Starting Python and importing scipy takes longer than most of what the tests ask of the
command, so a test takes `command`, unless it is about pipes, signals or the process
itself.  Each subcommand is also run by some test as a process.
"""

import contextlib
import io
import shutil
import subprocess
import sys

from osvm import cli

OSVM = [shutil.which("osvm")] if shutil.which("osvm") else [sys.executable, "-m", "osvm"]


def command(*arguments, status=0):
    """Call it; (standard output, standard error)."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            done = cli.main([str(word) for word in arguments])
        except SystemExit as stop:  # wrong usage, or a page of help
            done = stop.code or 0
        out.flush()
        err.flush()
    printed = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert done == status, printed[1]
    return tuple(printed)


def process(*arguments, status=0, stdin=None):
    """Run it as a person would; (standard output, standard error)."""
    done = subprocess.run(
        [*OSVM, *map(str, arguments)], input=stdin, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == status, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()
