"""Doings of others in the lab before a command: disks, NICs and vGPUs added to VMs, programs in guests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim

from tests.properties.witness.stage import ESTATE, Stage
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.operations.vms.drafts import device_name
from vgpu_cfg.lab.simulation.operations import find_operation
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, Network, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab


def tamper(stage: Stage, tampers: Iterable[str]) -> None:
    """Let others do something: "disk on own-1", or a program, "serve in notebook on own-1"."""
    for text in tampers:
        what, _, name = text.partition(" on ")
        lab = stage.vgpu_cfg.lab(ESTATE)
        if what == "vmknic":
            add_vmknic(lab, next(one for one in lab.state.all(Host) if one.name == name))
            continue
        vm = next(one for one in lab.state.all(VirtualMachine) if one.name == name)
        if what == "disk":
            stage.foreign_disks |= attach_disk(lab, vm)
        elif what in ("nic", "vgpu"):
            stage.foreign_devices |= {(vm.name, label) for label in add_device(lab, vm, what)}
        else:
            program, _, container = what.partition(" in ")
            with lab.transaction():
                guest_of(vm).workloads.append(Workload(program, "docker" if container else "", container))
                lab.state.touch(vm)


def add_vmknic(lab: Lab, host: Host) -> None:
    """Give a host a VMkernel NIC on the shared switch; there it counts as always having been."""
    network = next(one for one in lab.state.all(Network) if one.name == "roce")
    switch = lab.state.get(network.switch, DistributedSwitch)
    port = vim.dvs.PortConnection(switchUuid=switch.uuid, portgroupKey=network.moid)
    ip = vim.host.IpConfig(dhcp=False, ipAddress="10.9.0.1", subnetMask="255.255.255.0")
    nic = vim.host.VirtualNic.Specification(ip=ip, distributedVirtualPort=port)
    with lab.transaction():
        find_operation("HostNetworkSystem", "AddVirtualNic")(lab, host, portgroup="", nic=nic)


def add_device(lab: Lab, vm: VirtualMachine, what: str) -> set[str]:
    """Add a NIC or a vGPU to a VM, and return its label."""
    kinds, before = vim.vm.device, set(vm.devices)
    network = next(one for one in lab.state.all(Network) if one.name == "vm-network")
    nic = kinds.VirtualEthernetCard.NetworkBackingInfo(
        deviceName=network.name, network=vim.Network(network.moid)
    )
    vgpu = kinds.VirtualPCIPassthrough.VmiopBackingInfo(vgpu="grid_a100-10c")
    device = (
        kinds.VirtualVmxnet3(key=-1, backing=nic)
        if what == "nic"
        else kinds.VirtualPCIPassthrough(key=-1, backing=vgpu)
    )
    change = kinds.VirtualDeviceSpec(operation="add", device=device)
    lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[change]))
    lab.run_until_idle()
    return {device_name(one) for key, one in vm.devices.items() if key not in before}


def attach_disk(lab: Lab, vm: VirtualMachine) -> set[str]:
    """Attach a new disk to a VM, and return its file."""
    before = set(vm.devices)
    flat: Any = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
    file = flat(fileName=f"[vsan] others/{vm.name}.vmdk", diskMode="persistent")
    size = 5 * 1024 * 1024
    disk = vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, capacityInKB=size, backing=file)
    change = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
    lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[change]))
    lab.run_until_idle()
    return {one.backing.fileName for one in disks_of(vm.devices) if one.key not in before}
