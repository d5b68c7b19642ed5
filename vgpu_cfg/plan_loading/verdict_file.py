"""The files next to plan files that `doctor --save` writes: the verdicts on beliefs at each vCenter."""

from __future__ import annotations

import re
from pathlib import Path

from vgpu_cfg.documents import build, dump, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.verdicts import VerdictFile

_NAME = re.compile(r"vcenter-[0-9a-f-]{36}-\w+\.yaml")
MOST_FILES = 100
_ABOUT = (
    "# Assumptions of vgpu-cfg, as tested at one vCenter. Keep this file next to the plan files, and\n"
    "# commit it. To refresh it: vgpu-cfg doctor --save FOLDER\n"
)


def read_all_verdicts(folder: Path) -> tuple[VerdictFile, ...]:
    """Read the files of a folder in the order of their names. Raises DocumentError with all their faults."""
    found: list[VerdictFile] = []
    faults: list[DocumentFault] = []
    paths = sorted(path for path in folder.glob("vcenter-*.yaml") if _NAME.fullmatch(path.name))
    if len(paths) > MOST_FILES:
        message = f"this folder contains {len(paths)} files with verdicts; the limit is {MOST_FILES}"
        faults.append(DocumentFault(str(folder), 1, 1, message, "delete those for older builds"))
    for path in paths[:MOST_FILES]:
        try:
            found.append(read_verdicts(path))
        except DocumentError as error:
            faults += error.faults
    if faults:
        raise DocumentError(faults, remedy="save it again with `vgpu-cfg doctor --save FOLDER`, or delete it")
    return tuple(found)


def read_verdicts(path: Path) -> VerdictFile:
    """Read one file. Raises DocumentError with all its faults, also if it has the name of another vCenter."""
    document = read_document(path)
    found = build(document, VerdictFile)
    if _NAME.fullmatch(path.name) and path.name != found.file_name:
        message = f"the content belongs to {found.file_name}"
        raise DocumentError([document.fault(("vcenter",), message, "rename the file, or save it again")])
    return found


def verdicts_text(found: VerdictFile) -> str:
    """Write a file: a line for each value, so that versions can be compared."""
    return _ABOUT + dump(found.model_dump(mode="json", exclude_defaults=True) | {"version": 1})
