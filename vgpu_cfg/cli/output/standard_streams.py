"""Standard input, output and error of a command's process: closed, unread, or printed into by libraries."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class _Lasting(io.TextIOWrapper):
    """Text for a program that may stop reading, or a disk that may be full: the rest is dropped.

    Below this, in the buffer, a signal's handler that writes, too, would find it in use.
    """

    failure: OSError | None = None
    """The error for which text was dropped, unless its reader had gone."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.failure = error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed before the start.

    Otherwise the next file or connection gets its descriptor, and libraries print into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def keep_standard_output() -> None:
    """Move Python's standard output to a descriptor of its own; descriptor 1 becomes the null device.

    Native libraries print on descriptor 1: HiGHS 1.16 prints a banner. Standard error is not an alternative:
    with `--output json` programs read errors from it, and at a terminal it shows progress and questions.
    Child processes inherit the null device, so none of them keeps a pipe open after the answer's end.
    """
    printed = sys.stdout
    if not isinstance(printed, io.TextIOWrapper):  # a caller in Python collects the answer itself
        return
    printed.flush()
    own = io.TextIOWrapper(
        os.fdopen(os.dup(1), "wb", buffering=0 if printed.write_through else -1),
        encoding=printed.encoding,
        errors=printed.errors,
        line_buffering=printed.line_buffering,
        write_through=printed.write_through,
    )
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    for name in ("stdout", "__stdout__"):  # consoles ask the second for their width
        setattr(sys, name, own)


def outlive_readers() -> None:
    """Let this process go on after `| head` or on a full disk, and escape invalid UTF-8 in file names.

    A run must not end in the middle because its output cannot be written.
    """
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def output_failure() -> OSError | None:
    """Return why standard output lacks something that was printed, None if it lacks nothing."""
    sys.stdout.flush()
    return getattr(sys.stdout, "failure", None)


def _lasting(stream: TextIO) -> TextIO:
    """Return a stream on the same buffer; `sys.__stdout__` and `sys.__stderr__` keep that open."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return _Lasting(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
