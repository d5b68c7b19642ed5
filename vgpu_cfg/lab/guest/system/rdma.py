"""The current RDMA path of a guest: each link of the ATS chain, GIDs, the resulting bandwidth, NIC counters.

Address translation is on where the host's kernel setting, the firmware in force and, for peer access, the
VM's options all are (NVIDIA AI Enterprise guide, ch. 4). The loss for a missing link is the lab's own, except
"about half", which users report.

NIC counters are mlx5's statistics of a port, and its RDMA device's counters in sysfs. Names are those of the
kernel's documentation of mlx5's counters and of recorded `hw_counters`. A virtual function has no counters of
the physical port. That a transfer whose ends disagree about PFC loses packets, and how many, is the lab's
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.gpus import SeenGpu, driven_gpus
from vgpu_cfg.lab.guest.system.nics import RDMA_HEADERS, SeenNic, carried, nics_of_guest
from vgpu_cfg.lab.state.guest import Guest, RoceSetting, counted_besides, fault_of
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

LINE_RATE = 0.965
WITHOUT_ATS = 0.5
WITHOUT_PFC = 0.72
SMALL_MTU = 0.88
P2P, RELAX = "pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P"
KERNEL = ("atsSupport", "vtdAtsSupport")

HARDWARE = (
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_write_requests",
)
PORT = (
    "rx_discards_phy",
    "tx_discards_phy",
    "rx_pause_ctrl_phy",
    "rx_crc_errors_phy",
    "rx_symbol_err_phy",
    "rx_pcs_symbol_err_phy",
    "link_down_events_phy",
    "tx_pause_ctrl_phy",
    "tx_pause_storm_warning_events",
    "tx_pause_storm_error_events",
    "outbound_pci_stalled_wr_events",
    *(
        f"{side}_prio{priority}_{what}"
        for priority in range(8)
        for side in ("rx", "tx")
        for what in ("bytes", "packets", "pause", "pause_duration")
    ),
    *(f"rx_prio{priority}_{what}" for priority in range(8) for what in ("buf_discard", "cong_discard")),
)
LOST_PER_MILLION = 40
PACKET_BYTES = 4096


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
    """Return the bandwidth of a transfer from one end to the other, in Gbit/s."""
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


def hardware_counters(guest: Guest, nic: SeenNic) -> Mapping[str, int]:
    """Return the counters of a NIC's RDMA device."""
    counted = guest.counters.get(nic.mac, {})
    return {name: counted.get(name, 10 if name == "lifespan" else 0) for name in HARDWARE}


def statistics(guest: Guest, nic: SeenNic) -> Mapping[str, int]:
    """Return the `ethtool -S` counters of an interface."""
    counted = guest.counters.get(nic.mac, {})
    own = {"rx_packets": 1048, "tx_packets": 911, "rx_out_of_buffer": 0}
    return own | {name: counted.get(name, 0) for name in (PORT if nic.is_whole else ())}


def count_transfer(
    sender: Guest, one: SeenNic, receiver: Guest, other: SeenNic, amount: int, *, is_lossless: bool
) -> None:
    """Count a transfer on both NICs, each on the priority that its port puts it on."""
    lost = 0 if is_lossless else amount // PACKET_BYTES * LOST_PER_MILLION // 1_000_000 + 1
    sent, got = _priority(sender.roce.get(one.mac)), _priority(receiver.roce.get(other.mac))
    _add(sender, one.mac, {f"tx_prio{sent}_bytes": amount, "packet_seq_err": lost})
    _add(
        receiver,
        other.mac,
        {f"rx_prio{got}_bytes": amount, "out_of_sequence": lost, "rx_write_requests": amount // 65536},
    )


def _priority(setting: RoceSetting | None) -> int:
    if setting is None or setting.trust != "dscp" or setting.priority is None:
        return 0
    return setting.priority


def _add(guest: Guest, mac: str, amounts: Mapping[str, int]) -> None:
    counted = guest.counters.setdefault(mac, {})
    for name, amount in (*amounts.items(), *counted_besides(guest).items()):
        counted[name] = counted.get(name, 0) + amount
