"""The plan's devices of a VM by the requests of its plan file, and the findings on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice, VirtualNic, Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.devices import Device, OwnedDevices, Wanting, device_text, owned_devices
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.gpu_match import DeviceNames, is_wanted_device
from vgpu_cfg.planning.vms.lookup.nic_match import AnyNic, functions_of, is_wanted_function
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, SRIOV, VMXNET3, WantedFunction, WantedNic


def devices_of(
    vm: DesiredVm, existing: Vm, nics: Sequence[AnyNic] | None, names: DeviceNames, host: Host | None
) -> OwnedDevices:
    """Separate the devices of an existing VM; `nics` are those that the plan file requests."""
    if nics is None:
        return owned_devices(existing, None, _gpus(vm, names), None)
    has_group = any(gpu.group for gpu in vm.gpus)
    virtual = [nic for nic in nics if isinstance(nic, WantedNic) or nic.function.kind == SRIOV]
    passed = [nic for nic in functions_of(nics) if nic.function.kind != SRIOV]
    # A NIC of the GPU's device group comes and goes with the GPU.
    passed = [nic for nic in passed if nic.function.pin or nic.function.label or not has_group]

    def is_nic(number: int, device: Device) -> bool:
        return is_like(number, device) and _has_mac(virtual[number], device)

    def is_like(number: int, device: Device) -> bool:
        nic = virtual[number]
        if isinstance(nic, WantedFunction):
            return isinstance(device, VirtualNic) and is_wanted_function(nic, device, host)
        return isinstance(device, VirtualNic) and (device.network, device.kind) == (nic.network, nic.kind)

    def is_function(number: int, device: Device) -> bool:
        return isinstance(device, PassthroughDevice) and is_wanted_function(passed[number], device, host)

    return owned_devices(
        existing, Wanting(len(virtual), is_nic, is_like), _gpus(vm, names), Wanting(len(passed), is_function)
    )


def _gpus(vm: DesiredVm, names: DeviceNames) -> Wanting | None:
    if not vm.is_managed("gpus"):
        return None

    def is_gpu(number: int, device: Device) -> bool:
        gpu = vm.gpus[number]
        if isinstance(device, VgpuDevice):
            return device.profile in {profile.name for profile in gpu.profile}
        if gpu.kind == "vgpu" or not isinstance(device, PassthroughDevice):
            return False
        return is_wanted_device(gpu, device, names)

    return Wanting(len(vm.gpus), is_gpu)


def _has_mac(nic: AnyNic, device: Device) -> bool:
    return nic.mac is None or (isinstance(device, VirtualNic) and device.mac.casefold() == nic.mac.casefold())


def report_others(
    vm: DesiredVm, owned: OwnedDevices, networks: Mapping[str, str], findings: Findings
) -> None:
    """Say which devices of a VM the plan did not make, and what to do about them."""
    of_gpus = [
        one for one in owned.others if not isinstance(one, VirtualNic) and not getattr(one, "is_nic", False)
    ]
    of_nics = [one for one in owned.others if one not in of_gpus]
    for key, what, devices in (("gpus", "GPUs", of_gpus), ("nics", "NICs", of_nics)):
        if not devices:
            continue
        named = listed(device_text(one, networks) for one in devices)
        place = " and use capacity on the host" if any(_needs_host(one) for one in devices) else ""
        message = f"{what} that the plan did not create are kept{place}: {named}"
        remedy = f"to manage such a device, add it to `{key}`; otherwise remove it in the vSphere Client"
        if any(isinstance(one, VirtualNic) and one.kind not in (VMXNET3, PVRDMA, SRIOV) for one in devices):
            remedy = (
                "remove it in the vSphere Client, or set `ignore: [nics]`; plan files do not support this "
                "type"
            )
        findings.add_vm(Code.DEVICES_OF_OTHERS, vm, message, remedy)


def _needs_host(device: Device) -> bool:
    return not isinstance(device, VirtualNic) or device.kind in (PVRDMA, SRIOV)
