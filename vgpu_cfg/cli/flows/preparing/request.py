"""A command's request: a plan file's content with its variables, or a reviewed plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli.options import typed

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.settings.secrets import SecretStore


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The user's request: a plan file's content, or a reviewed plan.

    A plan file comes from `path`, with the `variables` and `variable_files` of the command line. `folder` is
    where a new id of the plan is kept: next to the plan file, or next to the reviewed plan. `content` is a
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
    fault = DocumentFault(str(path), 1, 1, "this is a folder, but the command requires a single plan")
    remedy = f"specify one: {plans}; only `plan`, `status` and `validate` accept a folder"
    raise DocumentError([fault], remedy=remedy)


def read_request(path: Path, variables: dict[str, str], variable_files: tuple[Path, ...]) -> PlanRequest:
    """Read a plan file, or a plan.json that `plan -o` wrote.

    Raises DocumentError with every fault of the file.
    """
    typed.of_plan(path)
    if path.is_dir():
        _refuse_folder(path)
    if path.suffix == ".json":
        if variables or variable_files:
            raise typer.BadParameter("variables in a saved plan are already resolved", param_hint="--set")
        from vgpu_cfg.cli.kept.saved_plan import load_plan_json
        from vgpu_cfg.plan_loading.side_files import read_all_verdicts

        reviewed, content = load_plan_json(path)
        verdicts = read_all_verdicts(path.parent) or reviewed.desired.verdicts
        desired = reviewed.desired.model_copy(update={"verdicts": verdicts})
        return PlanRequest(desired, path.parent, reviewed, path, content=content)
    from vgpu_cfg.plan_loading import load_plan
    from vgpu_cfg.plan_loading.side_files import id_file_of

    loaded = load_plan(path, variables=variables, variable_files=variable_files)
    return PlanRequest(loaded.desired, id_file_of(path).parent, None, path, variables, variable_files)


def refuse_unknown_profiles(desired: DesiredPlan) -> None:
    """Raise DoesNotFit if VMs request profiles that no board in the catalog has: no vCenter's plan could."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.errors import DoesNotFit
    from vgpu_cfg.model.ranges import fold_names

    catalog = load_catalog()
    vms: dict[tuple[str, ...], list[str]] = {}
    for vm in desired.vms:
        for gpu in vm.gpus:
            names = tuple(profile.name for profile in gpu.profile)
            if names and not any(map(catalog.by_profile, names)):
                vms.setdefault(names, []).append(vm.name)
    if not vms:
        return
    names, those = next(iter(vms.items()))
    message, remedy = catalog.without(names)
    more = f" (and {len(vms) - 1} more)" if len(vms) > 1 else ""
    raise DoesNotFit(f"VG101 {message}{more}", subject=f"vm {fold_names(those)}", remedy=remedy)
