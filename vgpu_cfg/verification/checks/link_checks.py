"""What is asked of a guest about its NICs' links: whether port and PCIe run at what the board is made for.

A port that came up slower reports its own speed as the line rate, so that measurements against it look
well. What it should be comes from elsewhere: the plan file, else the catalogue of NICs, and what the port
says it could do.
"""

from __future__ import annotations

from dataclasses import replace

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.rdma.devices import PcieLink, PortSpeed, parse_pcie_link, parse_port_speed
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    failed,
    is_absent,
    missing,
    passed,
    skipped,
    unproven,
)
from vgpu_cfg.verification.learned import RdmaNic
from vgpu_cfg.verification.views import GuestView

_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def pcie_files(interface: str) -> tuple[str, ...]:
    """Return the words that print a NIC's PCIe link."""
    return ("grep", "-s", ".", *(f"/sys/class/net/{interface}/device/{name}" for name in _FILES))


def ask_port(view: GuestView) -> Asking:
    """See whether each RDMA NIC's port runs at the line rate of its board."""
    if not view.learned.rdma:
        return skipped("no NIC of it carries RDMA")
    slow: list[str] = []
    unknown: list[str] = []
    right: list[str] = []
    rates: list[float] = []
    found: list[RdmaNic] = []
    for nic in view.learned.rdma:
        answer = yield Command(("ethtool", nic.interface))
        if is_absent(answer):
            return missing("ethtool", "ethtool")
        try:
            port = parse_port_speed(answer.stdout or answer.stderr)
        except UnreadableOutput:
            port = PortSpeed()
        now = port.gbps or nic.port_rate_gbps
        nominal, why = _nominal(view, nic, port)
        found.append(nic.model_copy(update={"line_rate_gbps": nominal or now}))
        if now is None:
            unknown.append(f"{nic.interface} does not tell its speed")
        elif nominal is None:
            unknown.append(f"{nic.interface} runs at {now:g} Gb/s, and {why}")
        elif now < nominal:
            slow.append(f"{nic.interface} runs at {now:g} Gb/s")
            rates.append(nominal)
        else:
            right.append(f"{nic.interface} {now:g} Gb/s")
            rates.append(nominal)
    learned = view.learned.model_copy(update={"rdma": tuple(found)})
    if slow:
        verdict = failed(VerifyCode.PORT_SLOW, "; ".join(slow), f"{min(rates):g} Gb/s")
    elif unknown:
        verdict = unproven(f"{'; '.join(unknown)}: write what it shall run at as `verify: {{line_gbps: N}}`")
    else:
        verdict = passed("; ".join(right), measured={"port_gbps": min(rates)})
    return replace(verdict, learned=learned)


def _nominal(view: GuestView, nic: RdmaNic, port: PortSpeed) -> tuple[float | None, str]:
    """Return what a port shall run at; None, and why, where that is not known."""
    stated = view.thresholds.line_gbps
    if stated is not None:
        return stated, ""
    listed = nic.model_rate_gbps
    if listed is None:
        if port.most_gbps is not None:
            return port.most_gbps, ""
        return None, "neither the port nor the catalogue tells what it could"
    if port.most_gbps is not None and port.most_gbps < listed:
        return None, f"its port can {port.most_gbps:g}, where most boards of the model have {listed:g}"
    return listed, ""


def ask_pcie(view: GuestView) -> Asking:
    """See whether the PCIe link of each RDMA NIC has all its lanes and carries what the port needs."""
    if not view.learned.rdma:
        return skipped("no NIC of it carries RDMA")
    bad: list[str] = []
    words: list[str] = []
    for nic in view.learned.rdma:
        answer = yield Command(pcie_files(nic.interface))
        link = parse_pcie_link(answer.stdout)
        fault = _link_fault(view, nic, link)
        (bad if fault else words).append(f"{nic.interface} {link.words}{fault}")
    if bad:
        needed = max((nic.line_rate_gbps or 0 for nic in view.learned.rdma), default=0)
        return failed(VerifyCode.PCIE_NARROW, "; ".join(bad), f"all lanes, and {needed:g} Gb/s")
    if all("not told" in one for one in words):
        return skipped("the guest's kernel does not tell the link: the bandwidth tells")
    return passed("; ".join(words))


def _link_fault(view: GuestView, nic: RdmaNic, link: PcieLink) -> str:
    if link.gbps is None:
        return ""
    needed = nic.line_rate_gbps
    if needed is not None and link.gbps < needed:
        return f", which carries {link.gbps:.0f} Gb/s"
    # A board in a slot of fewer lanes is somebody's choice only where the plan file says what it shall carry.
    is_narrow = link.width is not None and link.most_width is not None and link.width < link.most_width
    return ", fewer lanes than it has" if is_narrow and view.thresholds.line_gbps is None else ""
