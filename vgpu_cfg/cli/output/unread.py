"""Standard output and error whose reader has gone: the command goes on and ends as if it were read."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class _Lasting(io.TextIOWrapper):
    """Text for a program that may stop reading; what it does not read is dropped.

    Below this, in the buffer, a signal's handler that writes, too, would find it in use.
    """

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def outlive_readers() -> None:
    """Let this process write on after `| head`, and escape what is not UTF-8 in the names of files.

    A run must not end in the middle because nothing reads what it prints.
    """
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def _lasting(stream: TextIO) -> TextIO:
    """Return a stream on the same buffer; `sys.__stdout__` and `sys.__stderr__` keep that open."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return _Lasting(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )
