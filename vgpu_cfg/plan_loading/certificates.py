"""The files with certificates that a plan's `site` names: found within reach, and read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vgpu_cfg.documents import Limit, read_bytes
from vgpu_cfg.plan_loading.reach import Reach

MOST_BYTES = Limit("", 64 * 1024)
"""A CA with all between it and its servers has a tenth of this; a system's whole bundle is no site's."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Reads files as text, each by its path from the document that names it."""

    reach: Reach

    def read(self, document: str, path: str) -> str:
        """Return a file's text. Raises ValueError where it cannot be read."""
        target = Path(document).parent / path
        shown = os.path.normpath(target)
        if problem := self.reach.problem(target, path, shown):
            raise ValueError("\n".join(problem))
        if not target.is_file():
            raise ValueError(f"there is no file {path!r}\nthe path counts from the file that names it")
        try:
            return read_bytes(target, MOST_BYTES).decode("ascii", "replace")
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "name the CA's own certificates alone, in PEM"
            raise ValueError(f"the file {path!r} cannot be read: {reason}\n{hint}") from error
