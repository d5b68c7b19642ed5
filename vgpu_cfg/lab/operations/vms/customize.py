"""A guest that is to be customised at its next start: by CustomizeVM_Task, or by the clone of its VM."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.lab.operations.vms.drafts import stamp_change
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.customization import PENDING_KEY, check_customization
from vgpu_cfg.lab.simulation.operations import operation, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import VirtualMachine


@task("VirtualMachine", "CustomizeVM_Task", description_id="VirtualMachine.customize", seconds=2.0)
def customize(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Keep a specification for the next start of a VM that is off."""
    if vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOff")
    check_customization(vm, spec)
    keep(vm, spec)
    lab.state.touch(vm)
    stamp_change(lab, vm)


@operation("VirtualMachine", "CheckCustomizationSpec")
def check(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Refuse what CustomizeVM_Task would refuse of a specification."""
    check_customization(vm, spec)


def keep(vm: VirtualMachine, spec: Any) -> None:
    """Let the guest of a VM be customised at its next start."""
    vm.customization = spec
    vm.extra_config[PENDING_KEY] = f"imcf-{vm.moid}"
