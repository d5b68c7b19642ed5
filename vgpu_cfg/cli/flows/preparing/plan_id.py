"""When a plan gets its id, and where that is kept: the run that first writes makes it, before it writes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.output import show

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.desired import DesiredPlan


def with_id(desired: DesiredPlan) -> DesiredPlan:
    """Return a plan with an id: its own, else a new one, which is kept nowhere yet."""
    return desired if desired.id else desired.model_copy(update={"id": compose.make_id()})


def proposed(request: PlanRequest, out: Path) -> PlanRequest:
    """Return a request whose plan has an id, for a plan that is saved to `out`.

    Applying that plan comes to the same id, and finds from there where it is kept, and the encrypted files of
    its secrets.
    """
    desired = with_id(request.desired)
    way = Path(os.path.relpath(request.folder.resolve(), out.parent.resolve())).as_posix()
    secrets = {name: one.seen_from(way) for name, one in desired.secrets.items()}
    desired = desired.model_copy(update={"secrets": secrets})
    if desired.id_file:
        path = (request.folder / desired.id_file).resolve()
        desired = desired.model_copy(update={"id_file": os.path.relpath(path, out.parent.resolve())})
    return replace(request, desired=desired)


def keep_id(desired: DesiredPlan, folder: Path) -> None:
    """Write a new id down, unless that was done; nothing may be written to vCenter before.

    Raises DocumentError with the line for the plan file where the folder cannot be written, and StalePlan
    where another id is kept there by now.
    """
    from vgpu_cfg.plan_loading.side_files import write_id_file

    if not desired.id_file:
        return
    path = folder / desired.id_file
    if not path.with_suffix("").exists():
        # The saved plan has gone on without its plan file, as from one job of CI to the next.
        path = folder / path.name
    is_new = not path.exists()
    write_id_file(path, desired.id)
    if is_new:
        show.say(f"{path}: the plan's new ID; keep it next to {path.stem}, and commit both")
