"""The #cloud-config files that plan files name: found, read and checked, each once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_cfg.documents import read_document
from vgpu_cfg.errors import DocumentError, DocumentFault

HEADER = "#cloud-config"
MOST_BYTES = 256 * 1024
"""With the rest it must fit into 64 KiB once it is packed; what is larger than this belongs elsewhere."""


@dataclass(slots=True)
class UserDataFiles:
    """Files that were read, by the name under which complaints show them."""

    known: dict[str, str] = field(default_factory=dict)

    def read(self, document: str, path: str) -> str:
        """Return a file's text; a path that is not absolute counts from the folder of the document.

        Raises ValueError where it cannot be read, DocumentError with every fault in it.
        """
        shown = os.path.normpath(Path(document).parent / path)
        if shown not in self.known:
            self.known[shown] = _read(Path(document).parent / path, path, shown)
        return self.known[shown]


def _read(path: Path, reported: str, shown: str) -> str:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"the file {reported!r} {what}\nthe path counts from the file that names it")
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MOST_BYTES else b""
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"the file {reported!r} cannot be read: {reason}\ncheck its permissions") from error
    if size > MOST_BYTES:
        message = (
            f"the file {reported!r} has {size} bytes, and a VM's user data takes no more than {MOST_BYTES}"
        )
        raise ValueError(f"{message}\nlet the guest fetch what is large")
    read_document(path, name=shown)
    text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    if text.split("\n", 1)[0].rstrip() != HEADER:
        hint = f"the first line is {HEADER}, with nothing before it"
        raise DocumentError([DocumentFault(shown, 1, 1, "this is no cloud-config", hint)])
    return text
