"""The folder of an upgrade, with a plan file for each wave and a text for each owner, and its rehearsal.

A rehearsal applies each wave to a copy of the lab when its window opens.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from vgpu_cfg.cli import labs
from vgpu_cfg.cli.flows.history import journal_folders
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.upgrade.assess import Fate
from vgpu_cfg.planning.upgrade.waves import Played, Times, letters, make_waves, plan_files, times_of
from vgpu_cfg.settings.environment import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.changes.report import Event
    from vgpu_cfg.model.observed.inventory import Inventory, VCenter
    from vgpu_cfg.planning.upgrade.assess import Assessment
    from vgpu_cfg.planning.upgrade.waves import Installation, Wave

_RUNS = 50
"""So many of the latest runs are asked for times."""
_UNUSUAL = re.compile(r"[^\w.@-]+")
_STATE = "VGPU_CFG_STATE_FOLDER"
_MOST_WAVES = 60


def write_upgrade(folder: Path, found: Assessment, waves: Sequence[Wave], how: Installation) -> None:
    """Write the plan files and the texts. Raises DocumentError if the folder has other plan files."""
    plans = plan_files(found, waves, how)
    if not plans:
        show.say(f"{folder}: not written: no host can be upgraded")
        return
    others = [path for path in sorted(folder.glob("*.yaml")) if folder.is_dir()]
    if others:
        fault = DocumentFault(str(others[0]), 1, 1, "the folder already contains plan files")
        raise DocumentError([fault], remedy="use a new folder, because applied plan files contain an ID")
    (folder / "owners").mkdir(parents=True, exist_ok=True)
    for name, content in plans.items():
        write_whole(folder / name, dump(content), mode=0o644)
    texts = letters(found, waves)
    for owner, text in texts.items():
        write_whole(folder / "owners" / f"{_UNUSUAL.sub('-', owner)}.txt", text, mode=0o644)
    show.say(f"{folder}: {counted(len(plans), 'plan file')}, {counted(len(texts), 'text')} for owners")
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


def rehearse(
    estate: str, look: Callable[[], tuple[Inventory, Assessment]], how: Installation
) -> tuple[Played, ...]:
    """Play wave after wave until no host is left, or a wave upgrades none; each forecast uses earlier times.

    After canaries, the rest of the window is planned anew. Before each wave, DRS is set to fully automated,
    and the VMs are powered off whose owners are asked to.
    """
    played: list[Played] = []
    with TemporaryDirectory(prefix="vgpu-cfg-rehearsal-") as folder, _copied(Path(folder)):
        observed, found = look()
        now = observed.read_at
        while found.ready and len(played) < _MOST_WAVES:
            times = past_times(observed.vcenter)
            waves = make_waves(found, how.window, times, now)
            wave = replace(waves[0], number=len(played) + 1)
            hosts = counted(len(wave.hosts), "host")
            show.say(f"rehearsing wave {wave.number}, {wave.opens:%a %Y-%m-%d %H:%M}, {hosts}")
            acted = {vm.moid for fate in (Fate.OFF, Fate.STAYS) for vm in wave.vms(fate)}
            labs.prepare_upgrade(estate, acted)
            count, code = _apply(wave, found, replace(how, times=times), Path(folder))
            runs = islice(past_events(observed.vcenter), count)
            seconds = sum((one[-1].at - one[0].at).total_seconds() for one in runs if one)
            before = len(found.ready)
            observed, found = look()
            played.append(Played(wave, times.measured, seconds, before - len(found.ready), code))
            if not played[-1].done:
                break
            is_over = how.window and not wave.is_canary
            now = wave.closes if is_over else wave.opens + timedelta(seconds=seconds)
    return tuple(played)


@contextmanager
def _copied(folder: Path) -> Iterator[None]:
    """Let commands of this process and its children use a copy of the lab and of the journals."""
    own, before = state_folder(), os.environ.get(_STATE)
    for name in ("lab", "journals"):
        if (own / name).is_dir():
            shutil.copytree(own / name, folder / name)
    os.environ[_STATE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_STATE]
        else:
            os.environ[_STATE] = before


def _apply(wave: Wave, found: Assessment, how: Installation, folder: Path) -> tuple[int, int]:
    """Apply the plan files of a wave in processes of their own, whose time is the lab's, in the window.

    Return their number, and the worst exit code.
    """
    environment = {**os.environ, "VGPU_CFG_LAB_SPEED": "0", "VGPU_CFG_LAB_TIME": wave.opens.isoformat()}
    worst = 0
    files = plan_files(found, [wave], how)
    for name, content in files.items():
        path = folder / name
        write_whole(path, dump(content), mode=0o644)
        done = subprocess.run(  # noqa: S603 - this program, with the name of its own file
            [sys.executable, "-m", "vgpu_cfg", "apply", str(path), "--yes"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            worst = done.returncode
            show.say(done.stderr.strip())
    return len(files), worst
