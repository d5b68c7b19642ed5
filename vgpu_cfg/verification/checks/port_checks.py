"""What is asked about a port that a guest owns: trust, PFC, buffers and ECN, by OFED's tools or Linux's."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from vgpu_cfg.model.guests.modules import RoceModule
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.guest_system import bus_of
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware
from vgpu_cfg.parsers.rdma.settings import PortQos, parse_dcb, parse_dcb_buffers, parse_qos
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import Command, Step, is_absent
from vgpu_cfg.verification.learned import RdmaNic

ENDED = ("timeout", "20")
"""Before dcb: where a driver does not tell what it is asked, dcb reads on without an end (seen with 6.1)."""

ECN_MASKS = "ROCE_CC_PRIO_MASK_P"
"""How the firmware's parameters begin that say on which priorities it answers ECN marks, a bit for each."""


@dataclass
class PortAnswer:
    """What was found of one port: what is wrong, what is as planned, and what nobody could tell."""

    wrong: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def ask_port(roce: RoceModule, nic: RdmaNic) -> Generator[Step, ShellResult, PortAnswer]:
    """Ask mlnx_qos or, without OFED, dcb; and for ECN the driver or else the firmware."""
    found = PortAnswer()
    answer = yield Command(("mlnx_qos", "-i", nic.interface))
    if not is_absent(answer):
        _assess(roce, nic, parse_qos(answer.stdout or answer.stderr), found)
    else:
        yield from _ask_dcb(roce, nic, found)
    yield from _ask_ecn(roce, nic, found)
    return found


def _assess(roce: RoceModule, nic: RdmaNic, seen: PortQos, found: PortAnswer) -> None:
    faults = [] if seen.trust == roce.trust else [f"trusts {seen.trust}, not {roce.trust}"]
    if seen.protected != {roce.priority}:
        now = ", ".join(map(str, sorted(seen.protected))) or "none"
        faults.append(f"protects priority {now} by PFC, not {roce.priority}")
    priority = seen.priority_of.get(roce.dscp)
    if roce.trust == "dscp" and priority is not None and priority != roce.priority:
        faults.append(f"puts DSCP {roce.dscp} on priority {priority}, not {roce.priority}")
    found.wrong += [f"{nic.interface} {fault}" for fault in faults]
    found.reported.append(f"trust {seen.trust}, PFC on {', '.join(map(str, sorted(seen.protected)))}")


def _ask_dcb(roce: RoceModule, nic: RdmaNic, found: PortAnswer) -> Generator[Step, ShellResult, None]:
    pfc = yield Command((*ENDED, "dcb", "-j", "pfc", "show", "dev", nic.interface))
    if is_absent(pfc):
        found.unknown.append(f"trust and PFC of {nic.interface}: neither mlnx_qos nor dcb is in the guest")
        return
    app = yield Command((*ENDED, "dcb", "-j", "app", "show", "dev", nic.interface))
    if pfc.status != 0 or app.status != 0:
        found.unknown.append(f"trust and PFC of {nic.interface}: its driver does not tell dcb")
        return
    seen = parse_dcb(pfc.stdout, app.stdout)
    _assess(roce, nic, seen, found)
    if roce.trust == "dscp" and roce.dscp not in seen.priority_of:
        found.wrong.append(f"{nic.interface} gives DSCP {roce.dscp} no priority")
    buffers = yield Command((*ENDED, "dcb", "-j", "buffer", "show", "dev", nic.interface))
    if buffers.status != 0:
        return  # older firmware tells none, and parts them by itself
    sharing, size = parse_dcb_buffers(buffers.stdout, roce.priority)
    if sharing or not size:
        found.wrong.append(f"{nic.interface} has no receive buffer for priority {roce.priority} alone")


def _ask_ecn(roce: RoceModule, nic: RdmaNic, found: PortAnswer) -> Generator[Step, ShellResult, None]:
    ecn = f"/sys/class/net/{nic.interface}/ecn"
    files = [f"{ecn}/{side}/enable/{roce.priority}" for side in ("roce_np", "roce_rp")]
    answer = yield Command(("grep", "-s", ".", *files))
    told = [line.rpartition(":")[2].strip() for line in answer.stdout.splitlines() if ":" in line]
    if len(told) == len(files):
        is_on = told == ["1"] * len(files)
    else:
        masks = yield from _firmware_masks(nic)
        if not masks:
            found.unknown.append(
                f"whether {nic.interface} answers ECN marks: neither driver nor firmware says"
            )
            return
        is_on = all(mask >> roce.priority & 1 for mask in masks)
    if is_on:
        found.reported.append(f"ECN on {roce.priority}")
    else:
        found.wrong.append(f"{nic.interface} ignores ECN marks on priority {roce.priority}")


def _firmware_masks(nic: RdmaNic) -> Generator[Step, ShellResult, list[int]]:
    answer = yield Command(("ethtool", "-i", nic.interface))
    address = bus_of(answer.stdout) if answer.status == 0 else None
    if address is None:
        return []
    for tool in ("mlxconfig", "mstconfig"):
        answer = yield Command((tool, "-d", address, "-e", "q"), timeout_seconds=60)
        if is_absent(answer):
            continue
        try:
            firmware = parse_firmware(answer.stdout)
        except UnreadableOutput:
            return []
        values = [value.current for name, value in firmware.parameters.items() if name.startswith(ECN_MASKS)]
        return [int(value, 0) for value in values if value is not None and _is_number(value)]
    return []


def _is_number(text: str) -> bool:
    try:
        int(text, 0)
    except ValueError:
        return False
    return True
