"""Doings of others in the lab before a command: disks attached to the plan's VMs, programs in guests."""

from __future__ import annotations

from collections.abc import Iterable

from pyVmomi import vim

from tests.properties.witness.stage import ESTATE, Stage
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab


def tamper(stage: Stage, tampers: Iterable[str]) -> None:
    """Let others do something: "disk on own-1", or a program, "serve in notebook on own-1"."""
    for text in tampers:
        what, _, name = text.partition(" on ")
        lab = stage.vgpu_cfg.lab(ESTATE)
        vm = next(one for one in lab.state.all(VirtualMachine) if one.name == name)
        if what == "disk":
            stage.foreign_disks |= attach_disk(lab, vm)
        else:
            program, _, container = what.partition(" in ")
            with lab.transaction():
                guest_of(vm).workloads.append(Workload(program, "docker" if container else "", container))
                lab.state.touch(vm)


def attach_disk(lab: Lab, vm: VirtualMachine) -> set[str]:
    """Attach a new disk to a VM, and return its file."""
    before = set(vm.devices)
    disk = vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, capacityInKB=5 * 1024 * 1024)
    change = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
    lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[change]))
    lab.run_until_idle()
    return {one.backing.fileName for one in disks_of(vm.devices) if one.key not in before}
