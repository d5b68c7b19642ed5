"""Which files a plan file may name: those in its own folder, and in folders that somebody gave leave to.

Whoever runs a plan may read more than whoever wrote it. Links are followed first, so that none leads out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from vgpu_cfg.errors import DocumentFault

_VARIABLE = "VGPU_CFG_READ_FOLDERS"
_HINT = f"put it beside the plan file; {_VARIABLE} names folders that plan files may read from"


@dataclass(slots=True)
class Reach:
    """What is within reach of a plan file; `outside` are the files read by leave, as complaints name them."""

    folder: Path
    outside: set[str] = field(default_factory=set)

    def problem(self, path: Path, reported: str, shown: str) -> tuple[str, str] | None:
        """Return why a file is not read, and what to do; None where it is, which is noted."""
        target = path.resolve()
        if target.is_relative_to(self.folder.resolve()):
            return None
        if any(target.is_relative_to(one) for one in _with_leave()):
            self.outside.add(shown)
            return None
        return f"the file {reported!r} is outside of the plan file's folder", _HINT

    def without_content(self, faults: Iterable[DocumentFault]) -> list[DocumentFault]:
        """Return faults that quote nothing of a file outside: their places are all that is told."""
        message = "a fault here, of which no more is told: the file is outside of the plan file's folder"
        hint = "let whoever keeps the file validate a plan beside it"
        return [
            replace(fault, message=message, hint=hint) if fault.file in self.outside else fault
            for fault in faults
        ]


def _with_leave() -> list[Path]:
    texts = os.environ.get(_VARIABLE, "").split(os.pathsep)
    return [Path(text).expanduser().resolve() for text in texts if text]
