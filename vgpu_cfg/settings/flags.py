"""The command line's connection options; it loads nothing, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_REPEATED = (
    "server", "context", "user", "password_file", "token_file", "datacenter", "ca_file", "thumbprint",
    "insecure", "log_calls",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """The values of the command line; None and False mean "not stated".

    `contexts` are names and globs if several contexts are requested; then `context` is not set. `servers` are
    several addresses; then `server` is not set.
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
    log_calls: Path | None = None
    contexts: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The stated options, for another command at the same vCenter."""
        said = {name.replace("_", "-"): getattr(self, name) for name in _REPEATED}
        said["timeout"] = self.timeout_seconds
        stated = {
            f"--{name}": value for name, value in said.items() if value is not None and value is not False
        }
        return tuple(flag if value is True else f"{flag}={value}" for flag, value in stated.items())

    @property
    def is_of_several(self) -> bool:
        """Whether several vCenters are requested."""
        return bool(self.contexts or self.servers)
