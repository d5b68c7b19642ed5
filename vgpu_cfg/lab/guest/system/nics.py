"""NICs that a guest sees (adapters, virtual functions, host NICs passed through whole), and packets' targets.

Names are those of systemd on a VM of vSphere: adapters on the slots 192, 224, 256 (`ens192`), handed through
devices on the slots from 161 on, with the port's name behind. A guest's own addresses come from netplan,
else from the lab's DHCP.

A packet's sender NIC, its address and the switch decide which guest it reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.devices import dynamic_of, fixed_of, network_of, nics_of
from vgpu_cfg.lab.state.guest import NicSetting, fault_of
from vgpu_cfg.lab.state.host import Host, Nic
from vgpu_cfg.lab.state.inventory import LabState, Network
from vgpu_cfg.lab.state.vm import VirtualMachine

ADAPTER_SLOTS = (192, 224, 256, 161, 193, 225, 257, 162, 194, 226)
ADAPTER_BUSES = (0x0B, 0x13, 0x1B, 0x04, 0x0C, 0x14, 0x1C, 0x05, 0x0D, 0x15)
FIRST_WHOLE_SLOT = 33
DHCP_PREFIX = 16
USUAL_MTU = 1500
MLX5, VMXNET3, PVRDMA = "mlx5_core", "vmxnet3", "vmw_pvrdma"

_VD = vim.vm.device

IP_HEADERS, RDMA_HEADERS = 28, 64


@dataclass(frozen=True, slots=True)
class SeenNic:
    """A NIC as the guest sees it. `nic` is the host's, if one of its functions is passed through.

    `key` is its virtual device's, -1 for a device of the host. `rdma` is the name of its RDMA device, "" for
    one without. `addresses` are CIDR.
    """

    mac: str
    name: str
    driver: str
    pci_id: str
    key: int
    network: str = ""
    nic: Nic | None = None
    is_whole: bool = False
    rdma: str = ""
    addresses: tuple[str, ...] = ()
    mtu: int = USUAL_MTU

    @property
    def ipv4(self) -> str:
        """Its first IPv4 address without the prefix length, "" for none."""
        return next((each.partition("/")[0] for each in self.addresses if ":" not in each), "")


def nics_of_guest(state: LabState, vm: VirtualMachine) -> list[SeenNic]:
    """Return the NICs of a running guest: its adapters first, then passed-through ones."""
    settings = guest_of(vm).settings
    seen: list[SeenNic] = []
    rdma = 0
    for nic in [*_adapters(state, vm), *_whole(state, vm)]:
        name = ""
        if nic.driver in (MLX5, PVRDMA) and guest_of(vm).ofed != "none":
            name, rdma = f"{'mlx5' if nic.driver == MLX5 else 'rocep'}_{rdma}", rdma + 1
        seen.append(_set_up(nic, settings.get(nic.mac), name))
    return seen


def _set_up(nic: SeenNic, setting: NicSetting | None, rdma: str) -> SeenNic:
    addresses, mtu, name = nic.addresses, nic.mtu, nic.name
    if setting is not None:
        addresses = (*setting.addresses, *(nic.addresses if setting.dhcp else ()))
        mtu, name = setting.mtu or mtu, setting.name or name
    elif nic.is_whole:
        addresses = ()
    return SeenNic(
        nic.mac,
        name,
        nic.driver,
        nic.pci_id,
        nic.key,
        nic.network,
        nic.nic,
        nic.is_whole,
        rdma,
        addresses,
        mtu,
    )


def _adapters(state: LabState, vm: VirtualMachine) -> Iterator[SeenNic]:
    host = state.find(vm.host, Host)
    for index, device in enumerate(nics_of(vm.devices)):
        network = state.find(network_of(device), Network)
        slot = index % len(ADAPTER_SLOTS)
        yield SeenNic(
            mac=(device.macAddress or "").lower(),
            name=f"ens{ADAPTER_SLOTS[slot]}",
            driver=_driver_of(device),
            pci_id=f"0000:{ADAPTER_BUSES[slot]:02x}:00.0",
            key=device.key,
            network=network.name if network is not None else "",
            nic=_behind(host, device, network),
            addresses=(f"{dhcp_address(vm, index)}/{DHCP_PREFIX}",),
        )


def _driver_of(device: Any) -> str:
    if isinstance(device, _VD.VirtualSriovEthernetCard):
        return MLX5
    pvrdma = getattr(_VD, "VirtualVmxnet3Vrdma", None)
    return PVRDMA if pvrdma is not None and isinstance(device, pvrdma) else VMXNET3


def _behind(host: Host | None, device: Any, network: Network | None) -> Nic | None:
    """Return the host's NIC whose port a virtual function or a PVRDMA adapter uses."""
    if host is None or _driver_of(device) == VMXNET3:
        return None
    backing = getattr(device, "sriovBacking", None)
    physical = getattr(backing, "physicalFunctionBacking", None)
    named = getattr(physical, "id", "") or ""
    found = next((nic for nic in host.nics if nic.pci.pci_id == named), None)
    if found is not None or network is None:
        return found
    return next((nic for nic in host.nics if nic.uplink_of in (network.switch, network.name)), None)


def _whole(state: LabState, vm: VirtualMachine) -> Iterator[SeenNic]:
    host = state.find(vm.host, Host)
    if host is None:
        return
    nics = {nic.pci.pci_id: nic for nic in host.nics}
    ports = 0
    for key, pci_id in whole_devices(vm):
        nic = nics.get(pci_id)
        if nic is not None:
            yield SeenNic(
                mac=nic.mac.lower(),
                name=f"ens{FIRST_WHOLE_SLOT + ports}np0",
                driver=MLX5,
                pci_id=passthrough_address(key),
                key=-1,
                nic=nic,
                is_whole=True,
            )
            ports += 1


def whole_devices(vm: VirtualMachine) -> list[tuple[int, str]]:
    """Return (device key, host address) of devices passed through whole to a running VM, by key."""
    fixed = [(device.key, str(device.backing.id or "")) for device in fixed_of(vm.devices)]
    dynamic = [(device.key, str(device.backing.assignedId or "")) for device in dynamic_of(vm.devices)]
    return sorted((key, address) for key, address in (*fixed, *dynamic) if address)


def passthrough_address(key: int) -> str:
    """Return where a guest finds a passthrough device, by its key."""
    nth = key - 13000
    return f"0000:{2 + nth // 31:02x}:{nth % 31 + 1:02x}.0"


def dhcp_address(vm: VirtualMachine, index: int = 0) -> str:
    """Return the address that the lab's DHCP gives an adapter: the same as ever for the same VM."""
    digits = "".join(char for char in vm.moid if char.isdigit())
    number = int(digits or 0)
    return f"10.{index}.{number >> 8 & 0xFF}.{number & 0xFF}"


def find_nic(seen: list[SeenNic], *, mac: str = "", driver: str = "", name: str = "") -> SeenNic | None:
    """Return the NIC of a MAC, else the first of a driver, else of a name; None where there is none."""
    if mac:
        return next((nic for nic in seen if nic.mac == mac.lower()), None)
    if driver:
        return next((nic for nic in seen if _drives(nic, driver)), None)
    return next((nic for nic in seen if name and nic.name == name), None)


def _drives(nic: SeenNic, driver: str) -> bool:
    """Whether a driver of this name has the NIC: a PVRDMA adapter's network side is vmxnet3's."""
    return nic.driver == driver or (driver == VMXNET3 and nic.driver == PVRDMA)


def is_down(vm: VirtualMachine, nic: SeenNic) -> bool:
    """Whether a port has no link."""
    return bool(nic.rdma) and fault_of(guest_of(vm), "port") == "down"


def is_cut(vm: VirtualMachine, nic: SeenNic) -> bool:
    """Whether nothing gets from a NIC to others of its network: no link, another VLAN, InfiniBand."""
    if nic.nic is not None and nic.nic.is_infiniband:
        return True
    return is_down(vm, nic) or (bool(nic.rdma) and fault_of(guest_of(vm), "switch") == "vlan")


def carried(vm: VirtualMachine, nic: SeenNic) -> int:
    """Return the largest packet that gets from a NIC through its switch, in bytes."""
    kind, _, size = fault_of(guest_of(vm), "switch").partition(" ")
    return min(nic.mtu, int(size)) if nic.rdma and kind == "mtu" else nic.mtu


def nic_towards(state: LabState, vm: VirtualMachine, address: str) -> SeenNic | None:
    """Return the NIC by which packets to an address leave: one of its network, else the first adapter."""
    nics = nics_of_guest(state, vm)
    near = [nic for nic in nics if any(_holds(each, address) for each in nic.addresses)]
    return next(iter([*near, *(nic for nic in nics if not nic.is_whole)]), None)


def reach(state: LabState, vm: VirtualMachine, address: str) -> tuple[VirtualMachine, SeenNic] | None:
    """Return the running VM, and its NIC, that answers a VM at an address: itself where it has that too."""
    own = next((nic for nic in nics_of_guest(state, vm) if _has(nic, address)), None)
    if own is not None:
        return vm, own
    leaves = nic_towards(state, vm, address)
    if leaves is None or is_cut(vm, leaves):
        return None
    for other in state.all(VirtualMachine):
        if other is vm or not other.is_on or not guest_of(other).is_up:
            continue
        for nic in nics_of_guest(state, other):
            if _has(nic, address) and not is_cut(other, nic):
                return (other, nic) if nic.is_whole is leaves.is_whole or not nic.is_whole else None
    return None


def _has(nic: SeenNic, address: str) -> bool:
    return any(each.partition("/")[0] == address for each in nic.addresses)


def _holds(interface: str, address: str) -> bool:
    try:
        return ip_address(address) in ip_interface(interface).network
    except ValueError:
        return False
