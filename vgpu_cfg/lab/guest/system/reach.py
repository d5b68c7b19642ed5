"""Which guest a packet gets to: by what its sender's NIC, its address and the switch let through."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.faults import fault_of
from vgpu_cfg.lab.guest.system.nics import SeenNic, nics_of_guest
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.lab.state.vm import VirtualMachine

IP_HEADERS, RDMA_HEADERS = 28, 64


def is_down(vm: VirtualMachine, nic: SeenNic) -> bool:
    """Whether a port has no link."""
    return bool(nic.rdma) and fault_of(guest_of(vm), "port") == "down"


def is_cut(vm: VirtualMachine, nic: SeenNic) -> bool:
    """Whether nothing gets from a NIC to others of its network: no link, or another VLAN at the switch."""
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
