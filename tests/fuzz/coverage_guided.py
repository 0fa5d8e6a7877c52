"""Coverage-guided fuzzing of one target, where atheris is installed.

    python -m tests.fuzz.coverage_guided svmlight -runs=100000
    .ci/sanitized python -m tests.fuzz.coverage_guided csr -max_total_time=600

Coverage is that of the Python layer; a build with OSVM_SANITIZE=address,undefined shows what
compiled code does.
A find is written to crash-*: put it into tests/fuzz/corpus/<target>, where it becomes a test.
"""

import sys
import tempfile


def main():
    import atheris

    with atheris.instrument_imports(include=["osvm"]):
        from tests.fuzz.targets import CORPUS, TARGETS
    name = sys.argv.pop(1)
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as found:  # what is new goes there, not into the corpus
        arguments = [*sys.argv, found, str(CORPUS / name)]
        atheris.Setup(arguments, lambda data: target(data) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
