"""Whether a VM may move as it runs: what keeps it where it is, and which host takes it with all it holds.

The two texts are known from the field. That the first is MigrationDisabled is derived: it begins with that
fault's own text. In which order a vCenter looks at these things is not known.
"""

from __future__ import annotations

import re

from pyVmomi import vim

from vgpu_cfg.lab.rules import drs, refusals
from vgpu_cfg.lab.rules.admission import Admission, admit
from vgpu_cfg.lab.rules.gpu_load import Pick
from vgpu_cfg.lab.state.devices import dynamic_of, fixed_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Gpu, Host, LabState, VirtualMachine

HOT_MIGRATE = "vgpu.hotmigrate.enabled"
"""vCenter's advanced setting without which no vGPU moves as it runs."""

_PLUGIN_PARAMETER = re.compile(r"pciPassthru(\d+)\.cfg\.enable_(uvm|debugging|profiling)", re.IGNORECASE)
_FUNCTIONS = (vim.vm.device.VirtualSriovEthernetCard, vim.vm.device.VirtualVmxnet3Vrdma)


def check_may_leave(state: LabState, vm: VirtualMachine, source: Host) -> None:
    """Raise where a running VM has what does not move: functions of the host, plugin parameters, any vGPU."""
    if holds_functions(vm) or _turned_on(vm):
        raise refusals.migration_feature(source, is_source=True)
    if vgpus_of(vm.devices) and state.settings.get(HOT_MIGRATE) is not True:
        raise refusals.no_hot_migration()


def holds_functions(vm: VirtualMachine) -> bool:
    """Whether a VM has a PCI function, physical or virtual, of its host. PVRDMA counts; that is assumed."""
    has_nic = any(isinstance(device, _FUNCTIONS) for device in vm.devices.values())
    return has_nic or bool(fixed_of(vm.devices) or dynamic_of(vm.devices))


def _turned_on(vm: VirtualMachine) -> bool:
    """Whether unified memory, debugging or profiling is on for one of the VM's vGPUs."""
    keys = {key - 13000 for key, _ in vgpus_of(vm.devices)}
    found = ((_PLUGIN_PARAMETER.fullmatch(key), value) for key, value in vm.extra_config.items())
    return any(match is not None and int(match[1]) in keys and value == "1" for match, value in found)


def place_running(
    state: LabState, vm: VirtualMachine, candidates: list[Host], pick: Pick
) -> tuple[Host, Admission]:
    """Return the first host that accepts a running VM, and its resources there; raise why none does.

    Its vGPUs go to GPUs of the same board with the same ECC state; MIG and NVLink go with the profile and
    the group.
    """
    source = state.get(vm.host, Host)
    before = {use.device_key: gpu for gpu in source.gpus for use in gpu.uses if use.vm == vm.moid}

    def is_alike(key: int, gpu: Gpu) -> bool:
        old = before[key]
        return (gpu.board, gpu.ecc_enabled, gpu.nvswitch) == (old.board, old.ecc_enabled, old.nvswitch)

    def take(host: Host) -> Admission:
        try:
            return admit(state, vm, host, pick, suits=is_alike)
        except vim.fault.InsufficientGraphicsResourcesFault:
            admit(state, vm, host, pick)
        vm.log.append(f"The GPUs of '{host.name}' differ from those that the virtual machine runs on.")
        raise refusals.migration_feature(host, is_source=False)

    return drs.place(state, vm, candidates, take)
