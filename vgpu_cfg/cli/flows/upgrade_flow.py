"""The folder of an upgrade: a plan file for each wave, and a text for each owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.flows.history import journal_folders
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.upgrade.waves import Times, letters, plan_files, times_of

if TYPE_CHECKING:
    from vgpu_cfg.changes.report import Event
    from vgpu_cfg.model.observed.inventory import VCenter
    from vgpu_cfg.planning.upgrade.assess import Assessment
    from vgpu_cfg.planning.upgrade.waves import Installation, Wave

_RUNS = 50
"""So many of the latest runs are asked for times."""
_UNUSUAL = re.compile(r"[^\w.@-]+")


def write_upgrade(folder: Path, found: Assessment, waves: Sequence[Wave], how: Installation) -> None:
    """Write the plan files and the texts. Raises DocumentError if the folder has other plan files."""
    plans = plan_files(found, waves, how)
    others = [path for path in sorted(folder.glob("*.yaml")) if folder.is_dir()]
    if others:
        fault = DocumentFault(str(others[0]), 1, 1, "the folder already contains plan files")
        raise DocumentError([fault], remedy="use a new folder: plan files that were applied have an ID")
    (folder / "owners").mkdir(parents=True, exist_ok=True)
    for name, content in plans.items():
        write_whole(folder / name, dump(content), mode=0o644)
    texts = letters(found, waves)
    for owner, text in texts.items():
        write_whole(folder / "owners" / f"{_UNUSUAL.sub('-', owner)}.txt", text, mode=0o644)
    show.say(f"{folder}: {counted(len(plans), 'plan file')}, {counted(len(texts), 'text')} for owners")
    if plans:
        show.say(f"in each window: vgpu-cfg apply {folder / next(iter(plans))}")


def past_times(vcenter: VCenter) -> Times:
    """Return how long hosts of a vCenter were away in earlier runs, as far as journals of them are here."""
    return times_of(past_events(vcenter))


def past_events(vcenter: VCenter) -> Iterator[Sequence[Event]]:
    """Yield the events of the latest runs at a vCenter whose journals are here, the newest first."""
    from vgpu_cfg.execution import Wanted, read_journal, runs_of_journals

    wanted = Wanted(instance_uuid=vcenter.instance_uuid, address=vcenter.address, most=_RUNS)
    for folder, place in journal_folders():
        try:
            runs = runs_of_journals(folder, place, wanted).runs
        except OSError:
            continue  # `history` reports it
        for run in runs:
            if run.journal is not None:
                yield read_journal(run.journal, with_plan=False).events
