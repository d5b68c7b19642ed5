"""The verdict file of a vCenter: where it is saved, and what an earlier one of the same build adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.kept.whole_file import write_whole

if TYPE_CHECKING:
    from vgpu_cfg.model.verdicts import VerdictFile


def save_verdicts(path: Path, found: VerdictFile) -> Path:
    """Add verdicts to the file of their vCenter and return its path; if only the time differs, it stays.

    In a folder it gets the name that plans read. Raises DocumentError for a file that cannot be written, or
    for an unusable earlier one.
    """
    from vgpu_cfg.plan_loading.verdict_file import read_verdicts, verdicts_text
    from vgpu_cfg.planning.doctor.verdicts import merged

    file = path / found.file_name if path.is_dir() else path
    if file.is_file():
        before = read_verdicts(file)
        if before.file_name == found.file_name:
            found = merged(before, found)
            if found.model_copy(update={"vcenter": before.vcenter}) == before:
                return file
    write_whole(file, verdicts_text(found), mode=0o644)
    return file
