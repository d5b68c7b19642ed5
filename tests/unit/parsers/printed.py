"""The outputs under `outputs/`, as they are and as terminals and carriage returns disguise them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

OUTPUTS = Path(__file__).parent / "outputs"


def printed(name: str) -> str:
    return (OUTPUTS / name).read_text(encoding="utf-8")


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def coloured(text: str) -> str:
    """Underline every line and begin it in bold, as nvidia-smi does with its header."""
    return "\n".join(f"\x1b[4m\x1b[1;32m{line}\x1b[0m\x1b[K" for line in text.split("\n"))


def after_blank_lines(text: str) -> str:
    return f"\n\n{text}\n\n"


DISGUISES: tuple[Callable[[str], str], ...] = (crlf, coloured, after_blank_lines)
