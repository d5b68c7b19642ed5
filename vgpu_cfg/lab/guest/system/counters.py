"""What NICs count in the lab: mlx5's statistics of a port, and its RDMA device's counters in sysfs.

Names are those of the kernel's documentation of mlx5's counters and of recorded `hw_counters`. A virtual
function tells nothing of the physical port. That a transfer whose ends disagree about PFC loses packets, and
how many, is the lab's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.lab.guest.system.faults import counted_besides
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.state.guest import Guest, RoceSetting

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


def hardware_counters(guest: Guest, nic: SeenNic) -> Mapping[str, int]:
    """Return the counters of a NIC's RDMA device."""
    counted = guest.counters.get(nic.mac, {})
    return {name: counted.get(name, 10 if name == "lifespan" else 0) for name in HARDWARE}


def statistics(guest: Guest, nic: SeenNic) -> Mapping[str, int]:
    """Return what `ethtool -S` tells of an interface."""
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
