"""Forty things that go wrong with machines that train, and what an administrator must read of each.

They were written down by somebody who knew machines and had not read what `verify` asks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import nics_of_guest
from vgpu_cfg.lab.state.guest import Guest, RoceSetting
from vgpu_cfg.lab.state.host import Gpu, Host, VgpuUse
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

PAIR, HEAD, HALF = "plans/planted.yaml", "plans/planted-head.yaml", "plans/planted-half.yaml"
"""Two workers; with a head, a shared folder and metrics; on half a GPU each."""

Change = Callable[[LabState], object]


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault. `words` are regular expressions: what one failed row says to be wrong has all of them.

    `code` is the finding's, "" for one that `verify` passes.
    """

    name: str
    wrong: str
    change: Change
    words: tuple[str, ...]
    code: str = ""
    plan: str = PAIR


def vm_of(state: LabState, name: str) -> VirtualMachine:
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def _guest(state: LabState, number: int) -> Guest:
    return guest_of(vm_of(state, f"hvd-0{number}"))


def _roce(state: LabState, number: int) -> RoceSetting:
    (setting,) = _guest(state, number).roce.values()
    return setting


def _in(number: int, change: Callable[[Guest], object]) -> Change:
    return lambda state: change(_guest(state, number))


def _fault(number: int, word: str, value: str) -> Change:
    return lambda state: _guest(state, number).faults.update({word: value})


def _all(*changes: Change) -> Change:
    return lambda state: [change(state) for change in changes]


def _set_roce(*numbers: int, **values: object) -> Change:
    def change(state: LabState) -> None:
        for number in numbers:
            for name, value in values.items():
                setattr(_roce(state, number), name, value)

    return change


def _addresses(number: int, *addresses: str) -> Change:
    def change(state: LabState) -> None:
        (setting,) = (one for one in _guest(state, number).settings.values() if one.mtu == 9000)
        setting.addresses = addresses

    return change


def _mtu(number: int, mtu: int) -> Change:
    def change(state: LabState) -> None:
        (setting,) = (one for one in _guest(state, number).settings.values() if one.mtu == 9000)
        setting.mtu = mtu

    return change


def _replaced(number: int, path: str, old: str, new: str) -> Change:
    def change(state: LabState) -> None:
        file = _guest(state, number).files[path]
        assert old in file.content, file.content
        file.content = file.content.replace(old, new)

    return change


def _host(state: LabState, number: int) -> Host:
    vm = vm_of(state, f"hvd-0{number}")
    return state.get(vm.host, Host)


def _gpu(number: int, change: Callable[[Gpu], object]) -> Change:
    def do(state: LabState) -> None:
        change(_host(state, number).gpus[0])

    return do


def _to_other_node(state: LabState) -> None:
    host = _host(state, 2)
    gpu = host.gpus[0]
    gpu.pci = dataclasses.replace(gpu.pci, numa_node=1, parent_bridge=None)
    rest = [
        dataclasses.replace(node, pci_ids=tuple(each for each in node.pci_ids if each != gpu.pci_id))
        for node in host.numa_nodes
    ]
    host.numa_nodes = tuple(
        dataclasses.replace(node, pci_ids=(*node.pci_ids, gpu.pci_id)) if node.node_id == 1 else node
        for node in rest
    )


def _ecc_off(gpu: Gpu) -> None:
    gpu.ecc_enabled = gpu.ecc_pending = False


def _never_cold_booted(state: LabState) -> None:
    host = _host(state, 2)
    for nic in host.nics:
        known = nic.firmware.get("ATS_ENABLED")
        if known is not None and nic.is_on("ATS_ENABLED"):
            known.next_boot, known.current = known.current, "False(0)"


def _without(guest: Guest, unit: str) -> None:
    guest.services[unit] = False


def _pruned(guest: Guest) -> None:
    guest.images.clear()
    guest.services["vgpu-cfg-worker"] = False


def _updated(guest: Guest) -> None:
    guest.kernel = "5.15.0-130-generic"
    guest.faults["driver"] = "missing"


def _full(guest: Guest) -> None:
    guest.free_mib = 0


def _storm(guest: Guest) -> None:
    guest.faults["counts"] = "rx_prio3_pause 9000000\nrx_prio3_pause_duration 5100000"
    guest.faults["send"] = "31"


def _tenant(state: LabState) -> None:
    """Power another's VM on, as its owner would: it has the other half of the GPU of hvd-02."""
    vm, host = vm_of(state, "desktop-07"), _host(state, 2)
    vm.power_state = "poweredOn"
    host.gpus[0].uses.append(VgpuUse(vm.moid, 13000, "grid_a100-20c"))


PLANTED = (
    Planted(
        "port-down",
        "the NIC port has no link because its cable was pulled",
        _fault(2, "port", "down"),
        (r"(?i)no link|\bis down",),
        code="VG664",
    ),
    Planted(
        "pfc-priority-one-end",
        "PFC protects priority 4 on one worker and 3 everywhere else",
        _set_roce(2, priority=4),
        ("PFC", "4"),
        code="VG667",
    ),
    Planted(
        "pfc-priority-both-ends",
        "PFC protects priority 4 on both workers and 3 on the switch",
        _set_roce(1, 2, priority=4),
        ("PFC", "4"),
        code="VG667",
    ),
    Planted(
        "trust-pcp",
        "the port trusts PCP and not DSCP",
        _set_roce(2, trust="pcp"),
        ("(?i)trust.*pcp",),
        code="VG667",
    ),
    Planted(
        "dscp-0",
        "RDMA packets of one worker carry DSCP 0",
        _set_roce(2, dscp=0),
        ("(?i)dscp|tclass|traffic class",),
        code="VG667",
    ),
    Planted(
        "ecn-off",
        "ECN is off on one worker",
        _fault(
            2,
            "files",
            "/sys/class/net/ens33np0/ecn/roce_np/enable/3 0\n/sys/class/net/ens33np0/ecn/roce_rp/enable/3 0",
        ),
        ("ECN",),
        code="VG667",
    ),
    Planted(
        "guest-mtu",
        "the NIC of one worker has MTU 1500",
        _mtu(2, 1500),
        ("MTU", "1500"),
        code="VG664",
    ),
    Planted(
        "switch-mtu",
        "the switch has MTU 1500, both workers have 9000",
        _all(_fault(1, "switch", "mtu 1500"), _fault(2, "switch", "mtu 1500")),
        ("9000", "on the path has a smaller MTU"),
        code="VG675",
    ),
    Planted(
        "pfc-off",
        "PFC is off on both workers",
        _set_roce(1, 2, priority=None),
        ("PFC", "(?i)off|none|no priority"),
        code="VG667",
    ),
    Planted(
        "symbol-errors",
        "a bad cable: symbol errors grow with the traffic",
        _fault(2, "counts", "rx_symbol_err_phy 8456\nrx_pcs_symbol_err_phy 8456\nrx_crc_errors_phy 8456"),
        ("(?i)symbol|cable|physical",),
        code="VG691",
    ),
    Planted(
        "out-of-sequence",
        "packets arrive out of order during the measurement",
        _all(_fault(2, "counts", "out_of_sequence 5120"), _fault(1, "counts", "packet_seq_err 5120")),
        ("(?i)out_of_sequence|out of (order|sequence)|lost|retransmi",),
        code="VG689",
    ),
    Planted(
        "pause-storm",
        "the switch sends pause frames continuously",
        _in(2, _storm),
        ("(?i)paus",),
        code="VG676",
    ),
    Planted(
        "wrong-vlan",
        "the switch port of one worker is in another VLAN",
        _fault(2, "switch", "vlan"),
        ("(?i)vlan",),
        code="VG649",
    ),
    Planted(
        "duplicate-address",
        "both workers have the same address",
        _addresses(1, "10.111.0.11/24", "10.111.0.12/24"),
        (r"10\.111\.0\.12", "(?i)twice|two machines|both|more than once"),
        code="VG714",
    ),
    Planted(
        "lost-address",
        "the NIC of one worker lost its IPv4 address and its GID",
        _addresses(2),
        (r"(?i)no (ipv4 )?address|no .*gid|has none|10\.111\.0\.12",),
        code="VG664",
    ),
    Planted(
        "gid-moved",
        "an additional address moved the GID of RoCE v2 to another index than NCCL uses",
        _addresses(2, "10.111.9.9/24", "10.111.0.12/24"),
        ("GID", "(?i)index", "5"),
        code="VG687",
    ),
    Planted(
        "nic-firmware",
        "the NIC of one worker has older firmware than the other's",
        _fault(2, "firmware", "22.31.1014"),
        ("(?i)firmware", r"22\.31\.1014"),
        code="VG692",
    ),
    Planted(
        "peermem-gone",
        "nvidia_peermem is not loaded",
        _in(2, lambda guest: setattr(guest, "peermem", False)),
        ("nvidia_peermem",),
        code="VG668",
    ),
    Planted(
        "numa-apart",
        "the GPU and the NIC are on two NUMA nodes",
        _to_other_node,
        ("(?i)node",),
        code="VG715",
    ),
    Planted(
        "ats-not-in-force",
        "ATS is set in the NIC's firmware, but the host was not power-cycled",
        _never_cold_booted,
        ("ATS", "(?i)cold|power"),
        code="VG669",
    ),
    Planted(
        "gpu-memory-held",
        "a leftover process holds 36 GiB of GPU memory",
        _fault(2, "held", "36864"),
        ("(?i)memory", "(?i)process|held|holds|in use|used by"),
        code="VG693",
    ),
    Planted(
        "other-tenant",
        "another tenant's vGPU uses time slices of the same GPU",
        _tenant,
        ("desktop-07",),
        plan=HALF,
        code="VG693",
    ),
    Planted(
        "power-cap",
        "the GPU of one host is limited to 150 W",
        _gpu(2, lambda gpu: setattr(gpu, "power_limit_watts", 150)),
        ("(?i)power", "150"),
        code="VG694",
    ),
    Planted(
        "ecc-off",
        "ECC is off on the GPU of one host",
        _gpu(2, _ecc_off),
        ("ECC",),
        code="VG692",
    ),
    Planted(
        "compute-prohibited",
        "the compute mode of one GPU is Prohibited",
        _fault(2, "compute", "Prohibited"),
        ("(?i)compute mode", "Prohibited"),
        code="VG702",
    ),
    Planted(
        "kernel-updated",
        "the guest has a new kernel without a driver",
        _in(2, _updated),
        ("(?i)driver", "(?i)kernel"),
        code="VG659",
    ),
    Planted(
        "library-mismatch",
        "the driver's libraries were updated, but its module was not reloaded",
        _fault(2, "driver", "580.105.08"),
        ("(?i)mismatch|librar",),
        code="VG659",
    ),
    Planted(
        "nouveau-back",
        "nouveau is using the GPU",
        _in(2, lambda guest: setattr(guest, "has_nouveau", True)),
        ("nouveau",),
        code="VG659",
    ),
    Planted(
        "gridd-stopped",
        "nvidia-gridd is stopped, and its licence was returned",
        _in(2, lambda guest: _without(guest, "nvidia-gridd")),
        ("gridd",),
        code="VG662",
    ),
    Planted(
        "toolkit-gone",
        "NVIDIA Container Toolkit was removed",
        _in(2, lambda guest: guest.toolkit.clear()),
        ("(?i)toolkit",),
        code="VG671",
    ),
    Planted(
        "image-pruned",
        "the worker was stopped and the image pruned",
        _in(2, _pruned),
        ("(?i)image", "tensorflow|pull|not there|gone"),
        code="VG671",
    ),
    Planted(
        "worker-not-at-boot",
        "the worker runs but does not start at boot",
        _fault(2, "boot", "vgpu-cfg-worker"),
        ("worker", "(?i)boot|enabled|disabled"),
        code="VG673",
    ),
    Planted(
        "names-by-management",
        "/etc/hosts of one worker lists the management address of the other",
        lambda state: _replaced(1, "/etc/hosts", "10.111.0.12 hvd-02", f"{_management(state, 2)} hvd-02")(
            state
        ),
        (r"10\.0\.0\.", "(?i)hosts|resolve|name"),
        code="VG714",
    ),
    Planted(
        "host-key-new",
        "a worker has a new ssh host key",
        _replaced(2, "/etc/vgpu-cfg/mesh/host_key.pub", "ssh-ed25519 AAAA", "ssh-ed25519 BBBB"),
        ("(?i)host key|known_hosts",),
        code="VG674",
    ),
    Planted(
        "worker-not-in-host-file",
        "a worker is missing from the host file, so training uses only the other",
        _replaced(1, "/opt/vgpu-cfg/hostfile", "hvd-02 slots=1\n", ""),
        ("(?i)host ?file", "hvd-02"),
        code="VG658",
    ),
    Planted(
        "disk-full",
        "the disk of one worker is full",
        _in(2, _full),
        ("(?i)full|space|free|room",),
        code="VG712",
    ),
    Planted(
        "root-read-only",
        "the root file system of one worker was remounted read-only",
        _fault(2, "root", "ro"),
        ("(?i)read-only",),
        code="VG712",
    ),
    Planted(
        "another-export",
        "the shared folder of one worker is on another server",
        _in(2, lambda guest: guest.mounts.update({"/srv/training": "10.20.0.99"})),
        ("/srv/training|shared folder", r"hvd-02\b.*(another server|10\.20\.0\.99)"),
        plan=HEAD,
        code="VG707",
    ),
    Planted(
        "target-down",
        "Prometheus cannot reach one worker: up is 0",
        _fault(2, "firewall", "closed"),
        ("Prometheus|target", r"hvd-02|10\.20\.0\.13"),
        plan=HEAD,
        code="VG708",
    ),
    Planted(
        "wrong-sums",
        "the GPU of one worker computes wrong sums",
        _fault(2, "sums", "wrong"),
        ("(?i)sum|wrong|exact",),
        code="VG680",
    ),
)


def _management(state: LabState, number: int) -> str:
    return nics_of_guest(state, vm_of(state, f"hvd-0{number}"))[0].ipv4
