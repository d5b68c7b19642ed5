"""A lab spoken to over its wire, for VMs with device groups: how they are made, started and moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.unit.lab.host_rig import HostRig
from tests.unit.lab.rig import add, change, estate_of, options, passthrough
from tests.unit.lab.wire.client import everything
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.rules.gpu_load import GpuChoice
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.devices import vgpu_backing
from vgpu_cfg.lab.state.inventory import Host

A100D, H100XM = "grid_a100d-80c", "nvidia_h100xm-80c"
PAIR = f"Nvidia:2@{A100D}%NVLink"
CHOICES: tuple[GpuChoice, ...] = ("least_loaded", "lowest", "random")

_Groups: Any = vim.vm.VirtualDeviceGroups


def hgx_group(size: int) -> str:
    return f"Nvidia:{size}@{H100XM}%NVLink"


class GroupRig(HostRig):
    """`made` is a client's VM by name; names of hosts are those of the estate."""

    def __init__(
        self, estate: str | Path = "nvlink-4xa100", choice: GpuChoice = "least_loaded", seed: int = 0
    ) -> None:
        super().__init__(open_lab(estate, clock=VirtualClock(), gpu_choice=choice, seed=seed))

    def seen(self, name: str) -> Any:
        """Return a VM as a client has it."""
        return next(vm for vm in everything(self.instance, vim.VirtualMachine) if vm.name == name)

    def first(self) -> Host:
        return self.lab.state.all(Host)[0]

    def create(self, name: str, config: Any, *, host: str = "", version: int = 20) -> Any:
        """Make a VM from nothing and return its task's info."""
        on = self.host(host or self.first().name)
        config.name, config.version, config.guestId = name, f"vmx-{version:02d}", "ubuntu64Guest"
        config.files = vim.vm.FileInfo(vmPathName="[vsan]")
        folder = everything(self.instance, vim.Datacenter)[0].vmFolder
        return self.end(folder.CreateVM_Task(config, on.parent.resourcePool, on if host else None))

    def made(self, name: str, config: Any, **more: Any) -> Any:
        """Make a VM that can be made, and return it."""
        info = self.create(name, config, **more)
        assert info.state == "success", info.error
        return info.result

    def on(self, name: str, config: Any, **more: Any) -> Any:
        """Make a VM and start it."""
        vm = self.made(name, config, **more)
        self.done(vm.PowerOnVM_Task())
        return vm

    def reconfigured(self, vm: Any, **fields: Any) -> Any:
        """Reconfigure a VM and return the fault, None where there is none."""
        return self.end(vm.ReconfigVM_Task(vim.vm.ConfigSpec(**fields))).error

    def places(self, name: str, *, host: str = "") -> list[int | str]:
        """Return where a VM's vGPUs run: module ids, or addresses on boards without."""
        moid = self.vm(name).moid
        found = self.state(host).gpus if host else self.lab.state.get(self.vm(name).host, Host).gpus
        gpus = [gpu for gpu in found if any(use.vm == moid for use in gpu.uses)]
        return sorted((gpu.module_id or gpu.pci_id for gpu in gpus), key=str)

    def where(self, name: str) -> str:
        return self.host_of(name)


def config(*devices: Any, memory_mib: int = 32768, window_gb: int = 2048, **fields: Any) -> Any:
    """Return a ConfigSpec that runs, with some devices."""
    keys = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": str(window_gb)}
    return vim.vm.ConfigSpec(
        numCPUs=8,
        memoryMB=memory_mib,
        memoryReservationLockedToMax=True,
        firmware="efi",
        extraConfig=options(**keys, **fields.pop("extra", {})),
        deviceChange=list(devices),
        **fields,
    )


def member(profile: str, group: int, sequence: int, key: int) -> Any:
    """Return the spec that adds one device of a group."""
    info: Any = vim.vm.device.VirtualDevice.DeviceGroupInfo
    device = passthrough(vgpu_backing(profile), key=key)
    device.deviceGroupInfo = info(groupInstanceKey=group, sequenceId=sequence)
    return add(device)


def members(profile: str, size: int, group: int = -1, key: int = -100) -> list[Any]:
    return [member(profile, group, at, key - at) for at in range(size)]


def single(profile: str, key: int = -1) -> Any:
    return add(passthrough(vgpu_backing(profile), key=key))


def group(name: str, key: int = -1) -> Any:
    return _Groups.VendorDeviceGroup(groupInstanceKey=key, deviceGroupName=name)


def named(*groups: Any) -> Any:
    return _Groups(deviceGroup=list(groups))


def of_groups(*names: str, **fields: Any) -> Any:
    """Return a ConfigSpec with device groups, each with the members that its name tells."""
    devices, groups = [], []
    for at, name in enumerate(names):
        size, profile = int(name.split(":")[1].split("@")[0]), name.split("@")[1].split("%")[0]
        devices += members(profile, size, -1 - at, -100 - 10 * at)
        groups.append(group(name, -1 - at))
    extra_devices = fields.pop("devices", [])
    return config(*devices, *extra_devices, deviceGroups=named(*groups), **fields)


def taken_out(vm: Any, *keys: int) -> list[Any]:
    """Return the specs that remove devices of a VM, all of its vGPUs where no key is named."""
    kind = vim.vm.device.VirtualPCIPassthrough
    found = [device for device in vm.config.hardware.device if isinstance(device, kind)]
    return [change("remove", device) for device in found if not keys or device.key in keys]


def rig_of(text: str, tmp_path: Path, choice: GpuChoice = "least_loaded", seed: int = 0) -> GroupRig:
    return GroupRig(estate_of(text, tmp_path), choice, seed)
