"""List a folder of a guest page by page (vim `ListFilesInGuest`)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.guest.shell.session import Session
from vgpu_cfg.lab.guest.system import files


def listed(
    session: Session,
    path: str,
    index: int,
    most: int,
    pattern: str,
    attributes: Callable[[Session, str], Any],
) -> Any:
    """Return one page; a folder begins with itself and its parent, by the names `.` and `..`."""
    found: list[tuple[str, files.Entry]] = []
    if files.is_folder(session.guest, path):
        found = [
            (".", files.entry(session.guest, path)),
            ("..", files.entry(session.guest, posixpath.dirname(path))),
        ]
        found += [(posixpath.basename(one.path), one) for one in files.listing(session.guest, path)]
    else:
        found = [(path, files.entry(session.guest, path))]
    if pattern:
        found = [(name, one) for name, one in found if re.search(pattern, name)]
    page = found[index : index + most]
    kind: Any = vim.vm.guest.FileManager.FileInfo
    info: Any = vim.vm.guest.FileManager.ListFileInfo
    return info(
        files=[
            kind(
                path=name,
                type="directory" if one.is_folder else "file",
                size=one.size,
                attributes=attributes(session, one.path),
            )
            for name, one in page
        ],
        remaining=max(0, len(found) - index - len(page)),
    )
