"""The RDMA path of a guest as it is in force: each link of the ATS chain, GIDs, what bandwidth comes of it.

Address translation is on where the host's kernel setting, the firmware in force and, for peer access,
the VM's options all are (NVIDIA AI Enterprise guide, ch. 4). How much is lost where a link is missing is the
lab's own, but for "about half", which users report.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.faults import fault_of
from vgpu_cfg.lab.guest.system.gpus import SeenGpu, driven_gpus
from vgpu_cfg.lab.guest.system.nics import SeenNic, nics_of_guest
from vgpu_cfg.lab.guest.system.reach import RDMA_HEADERS, carried
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

LINE_RATE = 0.965
WITHOUT_ATS = 0.5
WITHOUT_PFC = 0.72
SMALL_MTU = 0.88
P2P, RELAX = "pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P"
KERNEL = ("atsSupport", "vtdAtsSupport")


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table."""

    index: int
    gid: str
    ipv4: str
    version: str


DCB_SINCE = {"ubuntu": 22.04, "debian": 12, "rhel": 9, "rocky": 9}
"""Systems whose iproute2 has `dcb`, which came with 5.11: by their first version. RHEL's is recalled."""


def has_dcb(guest: Guest) -> bool:
    """Whether a guest's iproute2 has it."""
    name, _, version = guest.os.partition("-")
    try:
        return float(version) >= DCB_SINCE.get(name, 0)
    except ValueError:
        return False


def rdma_nics(state: LabState, vm: VirtualMachine) -> list[SeenNic]:
    """Return the guest's NICs with an RDMA device."""
    return [nic for nic in nics_of_guest(state, vm) if nic.rdma]


def nic_of_device(state: LabState, vm: VirtualMachine, device: str) -> SeenNic | None:
    """Return the NIC of an RDMA device."""
    return next((nic for nic in rdma_nics(state, vm) if nic.rdma == device), None)


def gids_of(nic: SeenNic) -> list[Gid]:
    """Return the GID table: two entries by MAC, two for each IPv4 address."""
    gids = [Gid(0, _link_local(nic.mac), "", "v1"), Gid(1, _link_local(nic.mac), "", "v2")]
    for address in [each for each in nic.addresses if ":" not in each]:
        ipv4 = address.partition("/")[0]
        gids += [
            Gid(len(gids), _mapped(ipv4), ipv4, "v1"),
            Gid(len(gids) + 1, _mapped(ipv4), ipv4, "v2"),
        ]
    return gids


def _mapped(ipv4: str) -> str:
    try:
        digits = f"{int(IPv4Address(ipv4)):08x}"
    except AddressValueError:
        digits = "0" * 8
    return f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"


def _link_local(mac: str) -> str:
    parts = [int(part, 16) for part in mac.split(":")] if mac else [0] * 6
    parts[0] ^= 2
    digits = "".join(f"{part:02x}" for part in (*parts[:3], 0xFF, 0xFE, *parts[3:]))
    return f"fe80:0000:0000:0000:{digits[:4]}:{digits[4:8]}:{digits[8:12]}:{digits[12:]}"


def has_ats_capability(nic: SeenNic) -> bool:
    """Whether the NIC shows the capability: its firmware has it switched on, and in force."""
    return nic.nic is not None and nic.is_whole and nic.nic.is_on("ATS_ENABLED")


def is_ats_on(state: LabState, vm: VirtualMachine, nic: SeenNic) -> bool:
    """Whether the host translates addresses for the NIC."""
    host = state.find(vm.host, Host)
    if host is None or not has_ats_capability(nic):
        return False
    kernel = next((host.kernel[name].runtime for name in KERNEL if name in host.kernel), "FALSE")
    return kernel.upper() == "TRUE" and _is_true(vm, P2P) and _is_true(vm, RELAX)


def _is_true(vm: VirtualMachine, key: str) -> bool:
    return vm.extra_config.get(key, "").upper() == "TRUE"


def active_mtu(nic: SeenNic) -> int:
    """Return the RDMA MTU that fits the interface's: a power of two, at most 4096."""
    return next((size for size in (4096, 2048, 1024, 512) if size + 64 <= nic.mtu), 256)


def has_peermem(state: LabState, vm: VirtualMachine) -> bool:
    """Whether nvidia-peermem is loaded: wanted, and the driver is there."""
    return guest_of(vm).peermem and bool(driven_gpus(state, vm))


def is_near(state: LabState, vm: VirtualMachine, gpu: SeenGpu, nic: SeenNic) -> bool:
    """Whether a GPU and a NIC are on one NUMA node of the host."""
    return nic.nic is not None and gpu.gpu.numa_node == nic.nic.pci.numa_node


def gbps_of(nic: SeenNic) -> float:
    """Return the line rate of a NIC's port, in Gbit/s."""
    return (nic.nic.speed_mbps if nic.nic is not None else 10_000) / 1000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a transfer."""

    vm: VirtualMachine
    nic: SeenNic
    uses_gpu: bool


def bandwidth_gbps(state: LabState, one: Endpoint, other: Endpoint) -> float:
    """Return what a transfer from one end to the other reaches, in Gbit/s."""
    rate = min(gbps_of(one.nic), gbps_of(other.nic)) * LINE_RATE
    if min(active_mtu(one.nic), active_mtu(other.nic)) < 4096:
        rate *= SMALL_MTU
    if not is_lossless(one, other):
        rate *= WITHOUT_PFC
    if any(end.uses_gpu and not _direct(state, end) for end in (one, other)):
        rate *= WITHOUT_ATS
    most = fault_of(guest_of(one.vm), "send")
    return min(rate, float(most)) if most else rate


def is_carried(one: Endpoint, other: Endpoint) -> bool:
    """Whether RDMA's packets between two ends are no larger than their switch takes."""
    size = min(active_mtu(one.nic), active_mtu(other.nic)) + RDMA_HEADERS
    return size <= min(carried(one.vm, one.nic), carried(other.vm, other.nic))


def is_lossless(one: Endpoint, other: Endpoint) -> bool:
    """Whether two ports agree about PFC; of virtual functions the hosts' drivers see to it."""
    roce = [guest_of(end.vm).roce.get(end.nic.mac) for end in (one, other)]
    kinds = {(each.trust, each.priority) if each is not None else None for each in roce}
    return len(kinds) == 1 or not all(end.nic.is_whole for end in (one, other))


def _direct(state: LabState, end: Endpoint) -> bool:
    gpus = driven_gpus(state, end.vm)
    near = any(is_near(state, end.vm, gpu, end.nic) for gpu in gpus)
    return near and (not end.nic.is_whole or is_ats_on(state, end.vm, end.nic))
