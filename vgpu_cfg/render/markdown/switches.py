"""The physical switch in a runbook: what each port needs, and the same as lines for two kinds of switch.

Each line names the document it is from. None was tried on a switch: they are a proposal for who runs it.

Belief: switch-commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from vgpu_cfg.planning.networks.network_users import LARGEST_FRAME, SwitchNeeds

ROCE = "Cumulus Linux: RDMA over Converged Ethernet"
QOS = "Cumulus Linux: Quality of Service"
PORT = "Cumulus Linux: Switch Port Attributes"
BRIDGE = "Cumulus Linux: VLAN-aware Bridge Mode"
PFC = "Nexus 9000 QoS guide: Configuring Priority Flow Control"
CLASSES = "Nexus 9000 QoS guide: Configuring Classification"
QUEUES = "Nexus 9000 QoS guide: Configuring Queuing and Scheduling"
NETWORK = "Nexus 9000 QoS guide: Configuring Network QoS"
BLUEPRINT = "Cisco: Data Center Networking Blueprint for AI/ML Applications"
VLANS = "Nexus 9000 Layer 2 guide: Configuring VLANs"
ACCESS = "Nexus 9000 Interfaces guide: Configuring Layer 2 Interfaces"

_CUMULUS = "https://docs.nvidia.com/networking-ethernet-software/cumulus-linux/"
_PORTS = f"{_CUMULUS}Layer-1-and-Switch-Ports/"
_NEXUS = (
    "https://www.cisco.com/c/en/us/td/docs/dcn/nx-os/nexus9000/105x/configuration/qos/"
    "cisco-nexus-9000-series-nx-os-quality-of-service-configuration-guide-105x/"
)
DOCUMENTS = {
    ROCE: f"{_PORTS}Quality-of-Service/RDMA-over-Converged-Ethernet-RoCE/",
    QOS: f"{_PORTS}Quality-of-Service/",
    PORT: f"{_PORTS}Interface-Configuration-and-Management/Switch-Port-Attributes/",
    PFC: f"{_NEXUS}m-configuring-priority-flow-control.html",
}
"""The address of a document, as far as it was seen."""

_ROCE_PROFILE = (26, 3)
"""(DSCP, priority) that Cumulus' own profile protects."""


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """A line of a switch's configuration, and the name of its source document."""

    text: str
    document: str


def why_not_proposed(needs: SwitchNeeds) -> str:
    """Say why no lines are proposed, "" where they are."""
    if 1 <= needs.priority <= 5:
        return ""
    whose = "everything else" if needs.priority == 0 else "notifications and inter-switch traffic"
    return f"priority {needs.priority} is already used for {whose}; assign RDMA a priority from 1 to 5"


def documents_of(lines: Iterable[SwitchLine]) -> tuple[tuple[str, str], ...]:
    """List the documents of lines in their order, each with its address, "" where none was seen."""
    return tuple((name, DOCUMENTS.get(name, "")) for name in dict.fromkeys(line.document for line in lines))


def numbered(lines: Sequence[SwitchLine], comment: str) -> tuple[str, ...]:
    """Write lines, with a line of comment for the number of their document wherever it changes."""
    names = [name for name, _ in documents_of(lines)]
    written = []
    for document, group in groupby(lines, key=lambda line: line.document):
        written += [f"{comment} {names.index(document) + 1}", *(line.text for line in group)]
    return tuple(written)


def port_words(needs: SwitchNeeds) -> Iterator[tuple[str, str]]:
    """Yield (what, value) of each thing that all ports of a network need."""
    yield "VLAN", _vlan_words(needs)
    yield "MTU", f"{LARGEST_FRAME} bytes: {needs.mtu or 9000} for the NICs plus headers"
    yield "Trust", "DSCP (layer 3), not PCP"
    yield "RDMA packets", f"map DSCP {needs.dscp} to priority {needs.priority}"
    yield "PFC", f"priority {needs.priority} only, send and receive; 802.3x flow control off"
    yield "ECN", f"mark packets in the priority {needs.priority} queue before PFC pauses it"
    yield "CNP", "DSCP 48, priority 6, in a strict priority queue"


def _vlan_words(needs: SwitchNeeds) -> str:
    if needs.vlan is None:
        return "the network's VLAN (not specified in the plan)"
    if needs.vlan == 0:
        return "none"
    return f"{needs.vlan}, {'tagged' if needs.is_tagged else 'untagged (an access port)'}"


def nvue_lines(needs: SwitchNeeds) -> Iterator[SwitchLine]:
    """Yield the lines for NVUE (Cumulus Linux 5); `swpN` is a placeholder for the ports of the table.

    The profile of RoCE has DSCP 26 on priority 3, with buffers, ECN and CNP; others are moved there, as the
    document shows.
    """
    yield SwitchLine("nv set qos roce mode lossless", ROCE)
    priority = needs.priority
    if (needs.dscp, priority) != _ROCE_PROFILE:
        if priority != _ROCE_PROFILE[1]:
            yield SwitchLine(f"nv set qos pfc default-global switch-priority {priority}", ROCE)
            mapping = "nv set qos egress-queue-mapping default-global"
            yield SwitchLine(f"{mapping} switch-priority {priority} traffic-class 3", ROCE)
            yield SwitchLine(f"{mapping} switch-priority 3 traffic-class 0", ROCE)
        yield SwitchLine("nv set qos mapping default-global trust both", ROCE)
        yield SwitchLine(
            f"nv set qos mapping default-global dscp {needs.dscp} switch-priority {priority}", QOS
        )
    yield SwitchLine(f"nv set interface swpN link mtu {LARGEST_FRAME}", PORT)
    if needs.vlan:
        yield SwitchLine(f"nv set bridge domain br_default vlan {needs.vlan}", BRIDGE)
        yield SwitchLine("nv set interface swpN bridge domain br_default", BRIDGE)
        what = "vlan" if needs.is_tagged else "access"
        yield SwitchLine(f"nv set interface swpN bridge domain br_default {what} {needs.vlan}", BRIDGE)
    yield SwitchLine("nv config diff", ROCE)
    yield SwitchLine("nv config apply", ROCE)


def nxos_lines(needs: SwitchNeeds) -> Iterator[SwitchLine]:
    """Yield the lines for NX-OS on a Nexus 9000; `Ethernet1/N` is a placeholder for the ports of the table.

    The thresholds of ECN are the blueprint's, for 100 Gb/s; faster ports take more.
    """
    group = needs.priority
    yield SwitchLine("class-map type qos match-all ROCE", CLASSES)
    yield SwitchLine(f"  match dscp {needs.dscp}", CLASSES)
    yield SwitchLine("class-map type qos match-all CNP", CLASSES)
    yield SwitchLine("  match dscp 48", CLASSES)
    yield SwitchLine("policy-map type qos ROCE-IN", CLASSES)
    yield SwitchLine("  class ROCE", CLASSES)
    yield SwitchLine(f"    set qos-group {group}", CLASSES)
    yield SwitchLine("  class CNP", BLUEPRINT)
    yield SwitchLine("    set qos-group 7", BLUEPRINT)
    yield SwitchLine("policy-map type network-qos ROCE-NETWORK", NETWORK)
    yield SwitchLine(f"  class type network-qos c-8q-nq{group}", NETWORK)
    yield SwitchLine(f"    pause pfc-cos {group}", PFC)
    yield SwitchLine(f"    mtu {LARGEST_FRAME}", NETWORK)
    yield SwitchLine("  class type network-qos c-8q-nq-default", NETWORK)
    yield SwitchLine(f"    mtu {LARGEST_FRAME}", NETWORK)
    yield SwitchLine("policy-map type queuing ROCE-OUT", QUEUES)
    yield SwitchLine(f"  class type queuing c-out-8q-q{group}", QUEUES)
    yield SwitchLine("    bandwidth remaining percent 50", QUEUES)
    yield SwitchLine(
        "    random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes "
        "drop-probability 7 weight 0 ecn",
        BLUEPRINT,
    )
    yield SwitchLine("  class type queuing c-out-8q-q7", BLUEPRINT)
    yield SwitchLine("    priority level 1", BLUEPRINT)
    yield SwitchLine("  class type queuing c-out-8q-q-default", QUEUES)
    yield SwitchLine("    bandwidth remaining percent 50", QUEUES)
    yield SwitchLine("system qos", QUEUES)
    yield SwitchLine("  service-policy type network-qos ROCE-NETWORK", NETWORK)
    yield SwitchLine("  service-policy type queuing output ROCE-OUT", QUEUES)
    if needs.vlan:
        yield SwitchLine(f"vlan {needs.vlan}", VLANS)
    yield SwitchLine("interface Ethernet1/N", ACCESS)
    if needs.vlan:
        yield SwitchLine("  switchport", ACCESS)
        if needs.is_tagged:
            yield SwitchLine("  switchport mode trunk", ACCESS)
            yield SwitchLine(f"  switchport trunk allowed vlan add {needs.vlan}", ACCESS)
        else:
            yield SwitchLine(f"  switchport access vlan {needs.vlan}", ACCESS)
    yield SwitchLine(f"  mtu {LARGEST_FRAME}", ACCESS)
    yield SwitchLine("  priority-flow-control mode on", PFC)
    yield SwitchLine("  service-policy type qos input ROCE-IN", CLASSES)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Lines for one kind of switch, each with the number of its document; and the documents."""

    system: str
    lines: tuple[str, ...]
    documents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SwitchView:
    """A network of a runbook."""

    needs: SwitchNeeds
    words: tuple[tuple[str, str], ...]
    why_not: str
    proposals: tuple[Proposal, ...]


def switch_view(needs: SwitchNeeds) -> SwitchView:
    """Describe the requirements of a network's ports, and propose lines if there are any."""
    why_not = why_not_proposed(needs)
    kinds = (
        ("NVUE (Cumulus Linux 5)", tuple(nvue_lines(needs)), "#"),
        ("NX-OS (Nexus 9000)", tuple(nxos_lines(needs)), "!"),
    )
    proposals = tuple(
        Proposal(system, numbered(lines, comment), documents_of(lines)) for system, lines, comment in kinds
    )
    return SwitchView(needs, tuple(port_words(needs)), why_not, () if why_not else proposals)
