"""How calls of esxcli become one write: a single one goes through vCenter, several go over the shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ShellWrite


@dataclass(frozen=True, slots=True)
class EsxcliCall:
    """One command, as in `network.vswitch.standard.set`, with its long options as the shell takes them."""

    command: str
    options: tuple[tuple[str, str], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words to type."""
        return ("esxcli", *self.command.split("."), *(f"--{name}={value}" for name, value in self.options))

    @property
    def line(self) -> str:
        """The words to type, on one line, quoted for the host's shell."""
        return shlex.join(self.words)


def by_esxcli(calls: Sequence[EsxcliCall]) -> HostWrite | None:
    """Return the one write that makes these calls, None if there are none.

    Each goes over the shell with its options as listed; over vCenter the sender removes their dashes.
    """
    if not calls:
        return None
    if len(calls) > 1:
        return ShellWrite(commands=tuple(call.words for call in calls))
    return EsxcliWrite(command=calls[0].command, arguments=calls[0].options)
