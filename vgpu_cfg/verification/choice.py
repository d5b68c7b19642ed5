"""Which checks a run makes: globs over their names, and what quick means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from vgpu_cfg.model.verification import Thresholds


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for. `only` are globs over names of checks; empty means all.

    `is_quick` leaves out what measures bandwidth. `parallel` is how many machines are asked at once.
    """

    only: tuple[str, ...] = ()
    is_quick: bool = False
    parallel: int = 8
    thresholds: Thresholds = field(default_factory=Thresholds)

    def shows(self, check: str) -> bool:
        """Whether a check was asked for by name."""
        names = (check, check.removeprefix("host-"))
        return not self.only or any(fnmatchcase(name, glob) for name in names for glob in self.only)


def unknown_globs(globs: Iterable[str], checks: Iterable[str]) -> tuple[str, ...]:
    """Return the globs that match no check."""
    known = tuple(checks)
    names = {name for check in known for name in (check, check.removeprefix("host-"))}
    return tuple(glob for glob in globs if not any(fnmatchcase(name, glob) for name in names))
