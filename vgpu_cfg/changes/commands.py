"""How command lines are told from sentences, and how one is written."""

from __future__ import annotations

import shlex

_TOOLS = ("esxcli", "govc", "nvidia-smi", "mlxconfig", "vgpu-cfg", "/", "dmesg", "vmkload_mod", "mst ", "#")


def is_command(line: str) -> bool:
    """Whether a line is to be typed: it begins with a tool; else it is a sentence."""
    return line.startswith(_TOOLS)


def as_typed(line: str) -> str:
    """Leave a command as it is, and make a comment of a sentence among commands."""
    return line if is_command(line) else f"# {line}"


def command(*words: str | int) -> str:
    """Write a command line; every word is quoted where the shell needs it."""
    return shlex.join(str(word) for word in words)
