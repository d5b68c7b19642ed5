"""The #cloud-config files that plan files name: found, read and checked, each once."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_cfg.documents import Limit, read_bytes, read_document
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.guests.guest import HEADER, OWN_VALUES, clashes
from vgpu_cfg.model.guests.guestinfo import LEAST_OWN_BYTES, pack
from vgpu_cfg.model.guests.guestinfo import MOST_BYTES as GUESTINFO_BYTES
from vgpu_cfg.plan_loading.sources import Reach
from vgpu_cfg.planning.expand.guests import MACHINE_USER

MOST_BYTES = Limit("", 256 * 1024)
"""More than this never fits into guestinfo, however well it compresses."""


_OURS = {"users": [{"name": MACHINE_USER}], **OWN_VALUES}
"""This tool's content that is the same in every guest."""


@dataclass(slots=True)
class UserDataFiles:
    """Files that were read, by the name under which complaints show them."""

    reach: Reach
    known: dict[str, str] = field(default_factory=dict)

    def read(self, document: str, path: str) -> str:
        """Return a file's text; a path that is not absolute counts from the folder of the document.

        Raises ValueError where it cannot be read, DocumentError with every fault in it.
        """
        shown = os.path.normpath(Path(document).parent / path)
        if shown not in self.known:
            target = Path(document).parent / path
            if problem := self.reach.problem(target, path, shown):
                raise ValueError("\n".join(problem))
            self.known[shown] = _read(target, path, shown)
        return self.known[shown]


def _read(path: Path, reported: str, shown: str) -> str:
    if not path.exists():
        raise ValueError(
            f"the file {reported!r} does not exist\npaths are relative to the file that contains them"
        )
    if path.is_dir():
        raise ValueError(
            f"the file {reported!r} is a folder\npaths are relative to the file that contains them"
        )
    try:
        raw = read_bytes(path, MOST_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = (
            "download large data in the guest instead"
            if error.errno == errno.EFBIG
            else "check its permissions"
        )
        raise ValueError(f"cannot read the file {reported!r}: {reason}\n{hint}") from error
    document = read_document(path, name=shown)
    text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    if text.split("\n", 1)[0].rstrip() != HEADER:
        hint = f"the first line must be {HEADER}"
        raise DocumentError([DocumentFault(shown, 1, 1, "this file is not in cloud-config format", hint)])
    packed = len(pack(text))
    if packed > GUESTINFO_BYTES - LEAST_OWN_BYTES:
        message = (
            f"the compressed user data is {packed:,} bytes; together with the staging files, it exceeds "
            f"the guestinfo limit of {GUESTINFO_BYTES:,}"
        )
        hint = "download large files in the guest instead, or use a customization specification"
        raise DocumentError([DocumentFault(shown, 1, 1, message, hint)])
    # The guest reads YAML of an older version than plan files are written in.
    found = list(clashes(read_foreign(text, shown), _OURS))
    if found:
        message = "the user data cannot be merged: "
        raise DocumentError([document.fault(one.loc, message + one.message, one.remedy) for one in found])
    return text
