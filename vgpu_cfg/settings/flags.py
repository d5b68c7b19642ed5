"""What the command line says about the connection; it loads nothing, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """What the command line said; None and False mean "not said".

    `contexts` are names and globs where several contexts are asked for; then `context` is not said.
    """

    context: str | None = None
    server: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    datacenter: str | None = None
    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False
    timeout_seconds: float | None = None
    recording: Path | None = None
    quotas: Path | None = None
    contexts: tuple[str, ...] = ()


def is_glob(name: str) -> bool:
    """Whether a text may mean several names."""
    return any(sign in name for sign in "*?[")
