"""Commands whose standard output is a file, descriptor 1 included, as a shell would start them.

Also a program: it runs a list of commands, read from standard input as JSON, with the Python that starts it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vgpu_cfg import __main__ as program


@contextmanager
def standard_output(file: Path) -> Iterator[None]:
    """Lead descriptor 1 and `sys.stdout` to a file, and give `sys.stderr` a descriptor of its own."""
    before = {name: getattr(sys, name) for name in ("stdout", "__stdout__", "stderr")}
    kept = os.dup(1)
    with file.open("wb") as opened:
        os.dup2(opened.fileno(), 1)
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as errors:
        sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False), errors
        try:
            yield
        finally:
            sys.stdout.close()
            sys.stderr.close()
            for name, stream in before.items():
                setattr(sys, name, stream)
            os.dup2(kept, 1)
            os.close(kept)


def answer(words: Sequence[str], file: Path) -> int:
    """Run a command whose standard output is a file, and return its exit code."""
    before, sys.argv = sys.argv, ["vgpu-cfg", *words]
    try:
        with standard_output(file):
            program.main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
    finally:
        sys.argv = before
    raise AssertionError(f"{words} ended without an exit code")


def file_of(number: int) -> Path:
    return Path(f"answer-{number}")


if __name__ == "__main__":
    codes = [answer(words, file_of(number)) for number, words in enumerate(json.load(sys.stdin))]
    sys.stdout.write(json.dumps(codes))
