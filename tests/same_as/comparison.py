"""Differences between two versions: exit codes, outputs, requests and files of the same commands.

Nothing is masked but the folders of a run and the version's own number: the player freezes the clock and
chance, so every other number means something.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_LINES = 30
LONG = 400
"""A longer line is divided at its commas and tags, so that a difference shows its part of it."""
TEXTS = {"out": "stdout", "err": "stderr", "wire": "wire"}
ABSENT = "(there is no such file)"

Told = Mapping[str, Any]
"""A job as the player prints it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One exit code, output, command's requests or file of a job that differs; `lines` are a diff of it."""

    job: str
    what: str
    lines: tuple[str, ...]


def differences(old: Told, new: Told) -> Iterator[Difference]:
    """Yield what differs in a job."""
    job = new["name"]
    for before, after in zip(old["told"], new["told"], strict=True):
        command = " ".join(["vgpu-cfg", *after["words"]])
        if before["code"] != after["code"]:
            codes = (f"-{before['code']}", f"+{after['code']}")
            yield Difference(job, f"exit code of {command}", codes)
        for key, shown in TEXTS.items():
            texts = masked(before[key], old), masked(after[key], new)
            yield from _in_text(job, f"{shown} of {command}", *texts)
    files, others = _files(old), _files(new)
    for path in sorted(files.keys() | others.keys()):
        yield from _in_text(job, f"file {path}", files.get(path, ABSENT), others.get(path, ABSENT))


def masked(text: str, told: Told) -> str:
    """Return a text without the folder of its job, the folder of the package and its version's number."""
    text = text.replace(told["folder"], "<folder>").replace(told["package"], "<package>")
    return text.replace(f"vgpu-cfg {told['version']}", "vgpu-cfg <version>")


def _files(told: Told) -> dict[str, str]:
    """Return what the files in the folder of a job hold after its commands, by path."""
    return {masked(path, told): masked(text, told) for path, text in told["files"].items()}


def _in_text(job: str, what: str, before: str, after: str) -> Iterator[Difference]:
    if before != after:
        lines = difflib.unified_diff(_lines(before), _lines(after), "old", "new", lineterm="", n=1)
        yield Difference(job, what, tuple(lines)[2:][:MOST_LINES])


def _lines(text: str) -> list[str]:
    lines = []
    for line in text.split("\n"):
        divided = line.replace("><", ">\n<").replace(", ", ",\n ") if len(line) > LONG else line
        lines += divided.split("\n")
    return lines
