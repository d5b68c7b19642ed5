"""Checks of a guest's training network: NICs, RDMA devices, GIDs, RoCE, and ports that the guest owns.

A port that a guest owns is checked for trust, PFC, buffers and ECN, by OFED's tools or Linux's.

Belief: roce-mtu-rule.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import RoceModule
from vgpu_cfg.parsers.guest_system import Interface, bus_of, parse_interfaces
from vgpu_cfg.parsers.rdma.devices import (
    Gid,
    RdmaDevice,
    RdmaPort,
    parse_devinfo,
    parse_show_gids,
    parse_sysfs_gids,
)
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware
from vgpu_cfg.parsers.rdma.settings import (
    PortQos,
    parse_dcb,
    parse_dcb_buffers,
    parse_qos,
    parse_rate,
    parse_traffic_class,
)
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import Asking, Command, Step, failed, is_absent, missing, passed, skipped
from vgpu_cfg.verification.learned import Learned, RdmaNic
from vgpu_cfg.verification.views import GuestView

RDMA_MTUS = (4096, 2048, 1024, 512, 256)
"""The MTUs of an RDMA device; RoCE uses the largest that fits into the interface's MTU."""

ROCE_HEADROOM = 96
"""The bytes that the kernel subtracts for RoCE's headers: GRH 40, UDP 8, BTH 12, XRC 4, atomics 28, ICRC 4.

Source: `iboe_get_mtu`, include/rdma/ib_addr.h; mlx5 makes `active_mtu` by it.
"""

_SYSFS = "/sys/class/infiniband"
_DRIVER = re.compile(r"^driver: *(\S+)", re.MULTILINE)
_TABLES = ("gids", "gid_attrs/types", "gid_attrs/ndevs")
_GIDS = " ".join(["grep -s .", *(f"{_SYSFS}/*/ports/*/{table}/*" for table in _TABLES)])

ENDED = ("timeout", "20")
"""Before dcb: if a driver does not answer, dcb reads on without an end (seen with 6.1)."""

ECN_MASKS = "ROCE_CC_PRIO_MASK_P"
"""How the firmware's parameters begin that say on which priorities it answers ECN marks, a bit for each."""


def rdma_mtu(mtu: int) -> int:
    """Return the RDMA MTU that an interface's MTU leaves room for: 4096 for 9000, 1024 for 1500."""
    return next((size for size in RDMA_MTUS if size + ROCE_HEADROOM <= mtu), RDMA_MTUS[-1])


# ---------------------------------------------------------------- interfaces


def ask_nics(view: GuestView) -> Asking:
    """See whether every planned NIC is there and up, with its MTU and addresses."""
    if not view.nics:
        return skipped("the plan does not configure the VM's NICs")
    answer = yield Command(("ip", "-json", "address", "show"))
    interfaces = parse_interfaces(answer.stdout)
    if any(nic.driver and not (nic.mac or nic.name) for nic in view.nics):
        interfaces = yield from _with_drivers(interfaces)
    learned = view.learned.model_copy(update={"interfaces": interfaces})
    wrong: list[str] = []
    right: list[str] = []
    for nic in view.nics:
        seen = learned.interface_of(nic)
        faults = _faults_of(nic, seen)
        name = seen.name if seen is not None else nic.name or nic.mac or f"the {nic.driver} NIC"
        (wrong if faults else right).append(f"{name} {', '.join(faults)}" if faults else _nic_text(seen))
    if wrong:
        return failed(VerifyCode.NIC_WRONG, "; ".join(wrong), "as planned")
    return passed("; ".join(right), learned=learned)


def _with_drivers(interfaces: tuple[Interface, ...]) -> Generator[Step, ShellResult, tuple[Interface, ...]]:
    """Ask which driver each interface has; one without hardware has none."""
    found: list[Interface] = []
    for interface in interfaces:
        answer = yield Command(("ethtool", "-i", interface.name))
        driver = _DRIVER.search(answer.stdout) if answer.status == 0 else None
        found.append(interface.model_copy(update={"driver": driver[1]}) if driver is not None else interface)
    return tuple(found)


def _faults_of(nic: GuestNic, seen: Interface | None) -> list[str]:
    if seen is None:
        return ["does not exist"]
    faults = [] if seen.is_up else ["is down"]
    if nic.mtu is not None and seen.mtu != nic.mtu:
        faults.append(f"has MTU {seen.mtu}, not {nic.mtu}")
    faults += [f"is missing {address}" for address in nic.addresses if address not in seen.addresses]
    if nic.dhcp and not seen.addresses:
        faults.append(f"did not get {'an IPv4 address, only IPv6' if seen.has_ipv6 else 'a DHCP address'}")
    return faults


def _nic_text(seen: Interface | None) -> str:
    if seen is None:
        return ""
    return f"{seen.name} {seen.addresses[0] if seen.addresses else 'no address'}, MTU {seen.mtu}"


# ---------------------------------------------------------------- RDMA devices and GIDs


def ask_rdma(view: GuestView) -> Asking:
    """See whether each RDMA NIC has a device whose port is active, on Ethernet, with the right MTU."""
    if not view.rdma_nics:
        return skipped("the VM has no RDMA NIC")
    answer = yield Command(("ibv_devinfo",))
    if is_absent(answer):
        return missing("ibv_devinfo", "ibverbs-utils (Debian, Ubuntu) or libibverbs-utils (Red Hat)")
    devices = parse_devinfo(answer.stdout or answer.stderr)
    if not devices:
        return failed(VerifyCode.RDMA_DOWN, "no RDMA device", "an active RDMA device on Ethernet")
    answer = yield Command(("show_gids",))
    if is_absent(answer):
        answer = yield Command(("sh", "-c", _GIDS))
        gids = parse_sysfs_gids(answer.stdout)
    else:
        gids = parse_show_gids(answer.stdout)
    found: list[RdmaNic] = []
    wrong: list[str] = []
    for nic in view.rdma_nics:
        interface = view.learned.interface_of(nic)
        if interface is None:
            wrong.append(f"{nic.name or nic.mac or nic.driver} has no network interface")
            continue
        device, port = _port_of(interface, devices, gids, only=len(view.rdma_nics) == 1)
        if device is None or port is None:
            wrong.append(f"{interface.name} has no RDMA device")
            continue
        wrong += [f"{device.name} {fault}" for fault in _port_faults(port, interface)]
        rate = yield Command(("cat", f"{_SYSFS}/{device.name}/ports/{port.number}/rate"))
        found.append(
            _rdma_nic(view, nic, interface, device, port, gids, rate.stdout if rate.status == 0 else "")
        )
    if wrong:
        return failed(
            VerifyCode.RDMA_DOWN, "; ".join(wrong), "PORT_ACTIVE, Ethernet, and the interface's MTU"
        )
    learned = view.learned.model_copy(update={"devices": devices, "gids": gids, "rdma": tuple(found)})
    words = "; ".join(_rdma_text(one) for one in found)
    rates = [one.port_rate_gbps for one in found if one.port_rate_gbps is not None]
    return passed(words, measured={"line_rate_gbps": min(rates)} if rates else {}, learned=learned)


def _port_of(
    interface: Interface, devices: tuple[RdmaDevice, ...], gids: tuple[Gid, ...], *, only: bool
) -> tuple[RdmaDevice | None, RdmaPort | None]:
    """Return the device and port of an interface: as the GIDs say, else the only one that there is."""
    named = next(((gid.device, gid.port) for gid in gids if gid.netdev == interface.name), None)
    if named is None and only and len(devices) == 1 and len(devices[0].ports) == 1:
        named = (devices[0].name, devices[0].ports[0].number)
    if named is None:
        return None, None
    device = next((one for one in devices if one.name == named[0]), None)
    ports = device.ports if device is not None else ()
    return device, next((one for one in ports if one.number == named[1]), None)


def _port_faults(port: RdmaPort, interface: Interface) -> list[str]:
    faults = [] if port.is_active else [f"is {port.state or 'in an unknown state'}"]
    if port.link_layer != "Ethernet":
        faults.append(f"uses {port.link_layer or 'an unknown link layer'}, not Ethernet")
    wanted = rdma_mtu(interface.mtu) if interface.mtu is not None else None
    if port.is_active and wanted is not None and (port.active_mtu or 0) < wanted:
        faults.append(f"has active_mtu {port.active_mtu}, not {wanted}")
    return faults


def _rdma_nic(
    view: GuestView,
    nic: GuestNic,
    interface: Interface,
    device: RdmaDevice,
    port: RdmaPort,
    gids: tuple[Gid, ...],
    rate: str,
) -> RdmaNic:
    own = [address.partition("/")[0] for address in (*nic.addresses, *interface.addresses)]
    at = [gid for gid in gids if (gid.device, gid.port) == (device.name, port.number)]
    fitting = [gid for gid in at if gid.version == 2 and gid.ipv4 is not None]
    chosen = next((gid for address in own for gid in fitting if gid.ipv4 == address), None)
    try:
        port_rate = parse_rate(rate) or None
    except UnreadableOutput:
        port_rate = None
    model_rate = view.rates_gbps.get(device.part_id) if device.part_id is not None else None
    return RdmaNic(
        interface=interface.name,
        # The address that the GID holds: only over that one do both ends meet as RDMA devices.
        address=chosen.ipv4 if chosen is not None and chosen.ipv4 else own[0] if own else "",
        mtu=interface.mtu,
        device=device.name,
        port=port.number,
        gid=chosen.index if chosen is not None else None,
        port_rate_gbps=port_rate,
        model_rate_gbps=model_rate,
        line_rate_gbps=view.thresholds.line_gbps or model_rate or port_rate,
    )


def _rdma_text(nic: RdmaNic) -> str:
    rate = f", {nic.port_rate_gbps:g} Gb/s" if nic.port_rate_gbps else ""
    return f"{nic.device} on {nic.interface}{rate}"


def ask_gid(view: GuestView) -> Asking:
    """See whether each RDMA NIC has a RoCE v2 GID with its IPv4 address, and at which index."""
    yield from ()
    if not view.learned.rdma:
        return skipped("the VM has no RDMA NIC")
    without = [nic for nic in view.learned.rdma if nic.gid is None]
    if without:
        words = "; ".join(_gids_of(view.learned, nic) for nic in without)
        return failed(
            VerifyCode.NO_GID, words, f"RoCE v2 with {', '.join(nic.address or 'IPv4' for nic in without)}"
        )
    words = "; ".join(f"{nic.device} index {nic.gid} ({nic.address})" for nic in view.learned.rdma)
    return passed(words)


def _gids_of(learned: Learned, nic: RdmaNic) -> str:
    seen = [
        f"{gid.index} v{gid.version} {gid.ipv4 or gid.gid}"
        for gid in learned.gids
        if gid.device == nic.device
    ]
    return f"{nic.device} has {', '.join(seen) or 'no GID'}"


# ---------------------------------------------------------------- RoCE


def ask_roce(view: GuestView) -> Asking:
    """Check that trust, PFC, ECN and traffic class are as planned; a port's hidden values are no pass."""
    roce = view.roce
    if roce is None or not view.learned.rdma:
        return skipped("the VM has no RDMA NIC")
    wrong: list[str] = []
    reported: list[str] = []
    unknown: list[str] = []
    for nic in view.learned.rdma:
        if roce.owns_port:
            port = yield from ask_port(roce, nic)
            wrong += port.wrong
            reported += port.reported
            unknown += port.unknown
        answer = yield Command(("cat", f"{_SYSFS}/{nic.device}/tc/{nic.port}/traffic_class"))
        if answer.status == 0:
            tclass = parse_traffic_class(answer.stdout)
            reported.append(f"tclass {tclass}")
            if tclass != roce.traffic_class:
                wrong.append(
                    f"{nic.device} marks packets with tclass {tclass or 0}, not {roce.traffic_class}"
                )
    expected = _roce_text(roce)
    if wrong:
        return failed(VerifyCode.ROCE_UNSET, "; ".join(wrong), expected)
    if unknown:
        return failed(VerifyCode.ROCE_UNKNOWN, "; ".join(unknown), expected)
    if not reported:
        return skipped(
            f"not reported by the inbox driver; training marks its own packets ({expected})",
            is_asked=True,
        )
    return passed(", ".join(dict.fromkeys(reported)), expected)


def _roce_text(roce: RoceModule) -> str:
    port = f"trust {roce.trust}, PFC and ECN on {roce.priority}, " if roce.owns_port else ""
    return f"{port}tclass {roce.traffic_class}"


@dataclass
class PortAnswer:
    """The findings of one port: wrong values, planned values, and unknown ones."""

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
        faults.append(f"has PFC on priority {now}, not {roce.priority}")
    priority = seen.priority_of.get(roce.dscp)
    if roce.trust == "dscp" and priority is not None and priority != roce.priority:
        faults.append(f"maps DSCP {roce.dscp} to priority {priority}, not {roce.priority}")
    found.wrong += [f"{nic.interface} {fault}" for fault in faults]
    found.reported.append(f"trust {seen.trust}, PFC on {', '.join(map(str, sorted(seen.protected)))}")


def _ask_dcb(roce: RoceModule, nic: RdmaNic, found: PortAnswer) -> Generator[Step, ShellResult, None]:
    pfc = yield Command((*ENDED, "dcb", "-j", "pfc", "show", "dev", nic.interface))
    if is_absent(pfc):
        found.unknown.append(
            f"trust and PFC on {nic.interface}: neither mlnx_qos nor dcb is installed in the guest"
        )
        return
    app = yield Command((*ENDED, "dcb", "-j", "app", "show", "dev", nic.interface))
    if pfc.status != 0 or app.status != 0:
        found.unknown.append(f"trust and PFC on {nic.interface}: its driver does not support dcb")
        return
    seen = parse_dcb(pfc.stdout, app.stdout)
    _assess(roce, nic, seen, found)
    if roce.trust == "dscp" and roce.dscp not in seen.priority_of:
        found.wrong.append(f"{nic.interface} does not map DSCP {roce.dscp} to a priority")
    buffers = yield Command((*ENDED, "dcb", "-j", "buffer", "show", "dev", nic.interface))
    if buffers.status != 0:
        return  # older firmware tells none, and parts them by itself
    sharing, size = parse_dcb_buffers(buffers.stdout, roce.priority)
    if sharing or not size:
        found.wrong.append(f"{nic.interface} has no dedicated receive buffer for priority {roce.priority}")


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
                f"neither the driver nor the firmware reports whether {nic.interface} reacts to ECN marks"
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
