"""A VM that exists is given other hardware and settings, or an owner mark."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.changes.vm_spec import VmSpec


class UpgradeVm(ChangeBase):
    """Raise the hardware version of a powered-off VM."""

    kind: Literal["upgrade_vm"] = "upgrade_vm"
    vm: VmRef
    hardware_version: int


class ReconfigureVm(ChangeBase):
    """Reconfigure a VM with one ConfigSpec.

    `undo` takes its settings and extraConfig back to what they were; it knows nothing of devices.
    """

    kind: Literal["reconfigure_vm"] = "reconfigure_vm"
    vm: VmRef
    spec: VmSpec
    undo: VmSpec = VmSpec()


class MarkVm(ChangeBase):
    """Write a VM's owner mark or take it away, and touch nothing else of the VM; it may run.

    The mark that it leaves is that of an "imported" VM, which carried none before, that of the plan's "own",
    or "none".
    """

    kind: Literal["mark_vm"] = "mark_vm"
    vm: VmRef
    spec: VmSpec
    mark: Literal["imported", "own", "none"]
