"""The closed union of changes.

A change is what vSphere's API makes atomic (one task, seldom more) and plain
data: the same list is shown, saved as plan.json, checked, run and printed.
Objects that exist are named by `moid`; a VM that is still to be made has none,
and the run takes it from the outcome of its `CreateVm`.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.kinds.change_host import ChangeHost
from vgpu_cfg.changes.kinds.change_network import ChangeNetwork
from vgpu_cfg.changes.kinds.cluster import (
    RemoveRule,
    RemoveVmGroup,
    SetClusterOption,
    SetHostRule,
    SetOverrides,
    SetRule,
    SetVCenterOption,
)
from vgpu_cfg.changes.kinds.configure_vm import MarkVm, ReconfigureVm, SetAttributes, SetTags, UpgradeVm
from vgpu_cfg.changes.kinds.create_vm import CreateVm
from vgpu_cfg.changes.kinds.destroy_vm import DestroyVm
from vgpu_cfg.changes.kinds.guest import AwaitCustomization, PauseTraining, ResumeTraining, StageGuest
from vgpu_cfg.changes.kinds.image import RemediateHost, SetImage
from vgpu_cfg.changes.kinds.keep_out import SetCordon, SetReservation
from vgpu_cfg.changes.kinds.maintenance import EnterMaintenance, ExitMaintenance
from vgpu_cfg.changes.kinds.manual_step import ManualStep
from vgpu_cfg.changes.kinds.move_vm import MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.kinds.power import PowerOffVm, PowerOnVm
from vgpu_cfg.changes.kinds.restart_host import ColdBootHost, RebootHost, RestartService, ShutDownHost

__all__ = [
    "KINDS",
    "AwaitCustomization",
    "Change",
    "ChangeHost",
    "ChangeNetwork",
    "ColdBootHost",
    "CreateVm",
    "DestroyVm",
    "EnterMaintenance",
    "ExitMaintenance",
    "ManualStep",
    "MarkVm",
    "MoveVmToFolder",
    "PauseTraining",
    "PowerOffVm",
    "PowerOnVm",
    "RebootHost",
    "ReconfigureVm",
    "RelocateVm",
    "RemediateHost",
    "RemoveRule",
    "RemoveVmGroup",
    "RenameVm",
    "RestartService",
    "ResumeTraining",
    "SetAttributes",
    "SetClusterOption",
    "SetCordon",
    "SetHostRule",
    "SetImage",
    "SetOverrides",
    "SetReservation",
    "SetRule",
    "SetTags",
    "SetVCenterOption",
    "ShutDownHost",
    "StageGuest",
    "UpgradeVm",
]

Change = Annotated[
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | SetTags
    | SetOverrides
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | RemediateHost
    | ShutDownHost
    | ExitMaintenance
    | SetClusterOption
    | SetVCenterOption
    | SetImage
    | ChangeNetwork
    | SetCordon
    | AwaitCustomization
    | StageGuest
    | PauseTraining
    | ResumeTraining
    | SetReservation
    | ManualStep,
    Field(discriminator="kind"),
]

KINDS: tuple[type[ChangeBase], ...] = get_args(get_args(Change)[0])
"""Every kind, in the order in which plans count them."""
