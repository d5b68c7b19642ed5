"""What a command was asked: a plan file's content with its variables, or a plan that was reviewed.

When a plan gets its id, and where that is kept: the run that first writes makes it, before it writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.output import show

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.settings.secrets import SecretStore


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asked for: a plan file's content, or a plan that was reviewed.

    A plan file comes from `path`, with the `variables` and `variable_files` of the command line. `folder` is
    where a new id of the plan is kept: beside the plan file, or beside the reviewed plan. `content` is a
    reviewed plan's file as it was read.
    """

    desired: DesiredPlan
    folder: Path
    reviewed: Plan | None = None
    path: Path = Path()
    variables: Mapping[str, str] = field(default_factory=dict)
    variable_files: tuple[Path, ...] = ()
    content: bytes = b""

    def secrets(self) -> SecretStore:
        """Return the plan's secrets, each to be fetched once; a run takes one store for all of itself."""
        from vgpu_cfg.settings.secrets import SecretStore

        return SecretStore(self.desired.secrets, self.folder)


def _refuse_folder(path: Path) -> None:
    """Raise DocumentError with the plans of a folder, for a command that takes one plan."""
    from vgpu_cfg.errors import DocumentError, DocumentFault
    from vgpu_cfg.plan_loading.folder import find_plans

    plans = ", ".join(map(str, find_plans(path)))
    fault = DocumentFault(str(path), 1, 1, "this is a folder, and here one plan is wanted")
    remedy = f"name one: {plans}; `plan`, `status` and `validate` take the folder"
    raise DocumentError([fault], remedy=remedy)


def read_request(path: Path, variables: dict[str, str], variable_files: tuple[Path, ...]) -> PlanRequest:
    """Read a plan file, or a plan.json that `plan -o` wrote.

    Raises DocumentError with every fault of the file.
    """
    if path.is_dir():
        _refuse_folder(path)
    if path.suffix == ".json":
        if variables or variable_files:
            raise typer.BadParameter(
                "a reviewed plan has its variables filled in already", param_hint="--set"
            )
        from vgpu_cfg.cli.kept.saved_plan import load_plan_json

        reviewed, content = load_plan_json(path)
        return PlanRequest(reviewed.desired, path.parent, reviewed, path, content=content)
    from vgpu_cfg.plan_loading import load_plan
    from vgpu_cfg.plan_loading.id_file import id_file_of

    loaded = load_plan(path, variables=variables, variable_files=variable_files)
    return PlanRequest(loaded.desired, id_file_of(path).parent, None, path, variables, variable_files)


def with_id(desired: DesiredPlan) -> DesiredPlan:
    """Return a plan with an id: its own, else a new one, which is kept nowhere yet."""
    return desired if desired.id else desired.model_copy(update={"id": compose.make_id()})


def proposed(request: PlanRequest, out: Path) -> PlanRequest:
    """Return a request whose plan has an id, for a plan that is saved to `out`.

    Whoever applies that comes to the same id, and finds from there where it is to be kept, and the encrypted
    files of its secrets.
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
    from vgpu_cfg.plan_loading.id_file import write_id_file

    if not desired.id_file:
        return
    path = folder / desired.id_file
    if not path.with_suffix("").exists():
        # The saved plan has gone on without its plan file, as from one job of CI to the next.
        path = folder / path.name
    is_new = not path.exists()
    write_id_file(path, desired.id)
    if is_new:
        show.say(f"{path}: the plan's new id; keep it beside {path.stem}, and commit both")
