"""Deviations of distributed switches and portgroups from `networks`, and the VMkernel NICs that need them.

A line of `networks` that names a switch is a portgroup there; the NIC rules of `hosts` that name the switch
define the hosts that are its members, and their NICs. Only settings in the plan file are compared, and only
differences are changed: a VLAN or MTU that it leaves out stays, members are added and never taken away.
Nothing is changed under users outside the plan (`planning.networks.network_users`). An MTU is the switch's
own: of several lines for one switch the largest counts. Standard switches are each host's own.

A host's settings know a network by its name alone, which is enough for a standard one. A distributed one gets
its id here; one that the plan makes has none until it is made, and the run fills it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, ChangeHost, ChangeNetwork
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import ORDINARY_MTU, DesiredHosts, DesiredNetwork, DesiredPlan, network_mtu
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, HostFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory, Network, NetworkKind
from vgpu_cfg.planning.estate.site import datacenter_of, find_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.match import nic_rules
from vgpu_cfg.planning.host_settings.nics.handed_out import nic_names
from vgpu_cfg.planning.host_settings.nics.uplinks import cut_off
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of
from vgpu_cfg.planning.networks.network_users import check_lower_mtu, check_vlan


@dataclass(slots=True)
class _Switch:
    """A switch that the plan file names: as it was found, or to be made."""

    name: str
    found: DistributedSwitch | None
    lines: list[DesiredNetwork] = field(default_factory=list)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    mtus: list[int] = field(default_factory=list)
    """The MTUs of the lines, stated or implied by a NIC on them with RDMA."""

    @property
    def subject(self) -> Subject:
        return Subject(
            kind="network", name=self.name, moid=self.found.moid if self.found is not None else None
        )

    @property
    def wanted_mtu(self) -> int | None:
        return max(self.mtus, default=None)

    @property
    def is_mtu_implied(self) -> bool:
        """Whether no line states the MTU that the switch is to get."""
        return self.wanted_mtu not in [line.mtu for line in self.lines]

    @property
    def mtu_now(self) -> int:
        """The present MTU; a new one gets the ordinary MTU unless stated otherwise."""
        return (self.found.mtu if self.found is not None else None) or ORDINARY_MTU

    @property
    def mtu_then(self) -> int:
        return self.mtu_now if self.wanted_mtu is None else self.wanted_mtu


def plan_networks(desired: DesiredPlan, observed: Inventory, findings: Findings) -> list[ChangeNetwork]:
    """List the changes that make the distributed switches and portgroups match `networks`, in order.

    A change needs those before it on the same switch. Impossible requests are findings: a switch that is
    missing and may not be made, an MTU above the switch's, a NIC that another switch uses.
    """
    switches = _switches(desired, observed, findings)
    for entry in desired.hosts:
        for host in hosts_of(entry, desired, observed):
            _take_members(entry, host, switches, observed, findings)
    _check_mtus(desired, switches, observed, findings)
    changes: list[ChangeNetwork] = []
    for switch in switches.values():
        changes += _changes_of(switch, desired, observed, findings)
    return changes


def _switches(desired: DesiredPlan, observed: Inventory, findings: Findings) -> dict[str, _Switch]:
    """Find the switches of the lines and of the rules; keyed by name, whatever the case."""
    by_name = {one.name.casefold(): one for one in observed.facts.switches}
    switches: dict[str, _Switch] = {}
    for line in desired.networks:
        if line.switch is None:
            continue
        found = by_name.get(line.switch.casefold())
        may_make = any(
            one.make_switch and one.switch is not None and one.switch.casefold() == line.switch.casefold()
            for one in desired.networks
        )
        if found is None and not may_make:
            remedy = _other_switch(line, observed)
            message = f"the distributed switch {line.switch!r} does not exist and is not created by the plan"
            findings.add(Code.SWITCH_NOT_FOUND, Subject(kind="network", name=line.name), message, remedy)
            continue
        name = found.name if found is not None else line.switch
        switch = switches.setdefault(name.casefold(), _Switch(name, found))
        switch.lines.append(line)
        mtu = network_mtu(desired, line)
        switch.mtus += [mtu] if mtu is not None else []
    for one in observed.facts.switches:
        if any(rule.switch == one.name for entry in desired.hosts for rule in entry.nics):
            switches.setdefault(one.name.casefold(), _Switch(one.name, one))
    return switches


def _other_switch(line: DesiredNetwork, observed: Inventory) -> str:
    """Say which switch to state for a network: the one that it is on, or else one that there is."""
    found = find_named(line.name, observed.networks)
    uuids = {one.switch_uuid for one in found if one.switch_uuid is not None}
    if on := [one.name for one in observed.facts.switches if one.uuid in uuids]:
        return f"set `switch: {on[0]}`, which has this port group, or choose another network name"
    if found:
        return f"remove `switch` and `vlan`: {line.name} is on a standard switch; set its VLAN there"
    known = [one.name for one in observed.facts.switches]
    return did_you_mean(line.switch or "", known, noun="switches") or _MAKE_IT


_MAKE_IT = "set `switch: {name: …, make: true}`, or create it manually"


# ---------------------------------------------------------------- members


def _take_members(
    entry: DesiredHosts, host: Host, switches: dict[str, _Switch], observed: Inventory, findings: Findings
) -> None:
    """Add the host's NICs to the switches that the entry's rules name."""
    facts = observed.facts.hosts.get(host.moid, HostFacts())
    view = HostView(host=host, facts=facts, names=nic_names(host))
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    standard = {switch.name.casefold() for switch in facts.switches if switch.switch_uuid is None}
    for nic, rule in nic_rules(entry, view):
        if not rule.switch or not nic.device or rule.switch.casefold() in standard:
            continue
        switch = switches.get(rule.switch.casefold())
        if switch is None:
            known = [*standard, *(one.name for one in observed.facts.switches)]
            message = f"the rule for {nic.device} refers to the switch {rule.switch!r}, which does not exist"
            remedy = did_you_mean(rule.switch, known, noun="switches") or _MAKE_IT
            findings.add(Code.SWITCH_NOT_FOUND, subject, message, remedy)
            continue
        now = switch.members.get(host.moid) or _members_now(switch, host)
        if nic.device in now:
            continue
        lost = cut_off(view, nic.device, observed.facts.switches)
        if lost is not None:
            remedy = f"remove the NIC from {lost.switch} first, then run `plan` again"
            findings.add(Code.NIC_IN_USE, subject, str(lost), remedy)
            continue
        edit = Edit(
            key=f"uplinks of {host.name}", before=_uplink_text(now), after=_uplink_text((*now, nic.device))
        )
        if entry.mode == "check":
            message = f"{nic.device} is not an uplink of {switch.name}, as the plan file requires"
            findings.add(
                Code.SETTING_DIFFERS, subject, message, "add the NIC manually, or set `mode: enforce`"
            )
            continue
        switch.members[host.moid] = (*now, nic.device)
        switch.edits = [one for one in switch.edits if one.key != edit.key]
        switch.edits.append(edit.model_copy(update={"before": _uplink_text(_members_now(switch, host))}))


def _members_now(switch: _Switch, host: Host) -> tuple[str, ...]:
    return switch.found.members.get(host.moid, ()) if switch.found is not None else ()


def _uplink_text(uplinks: Iterable[str]) -> str | None:
    return ", ".join(uplinks) or None


# -------------------------------------------------------------------- MTU


def _check_mtus(
    desired: DesiredPlan, switches: dict[str, _Switch], observed: Inventory, findings: Findings
) -> None:
    """Complain of VMkernel NICs whose MTU is above what their switch will have."""
    lines = {line.name.casefold(): switch for switch in switches.values() for line in switch.lines}
    for entry in desired.hosts:
        for vmknic in entry.vmknics:
            mtu = lines[key].mtu_then if (key := vmknic.network.casefold()) in lines else None
            if mtu is None:
                mtu = mtu_of_switch(vmknic.network, observed)
            if vmknic.mtu is not None and mtu is not None and vmknic.mtu > mtu:
                message = (
                    f"VMkernel NICs on {vmknic.network} require MTU {vmknic.mtu}, but its switch has {mtu}"
                )
                remedy = f"set `mtu: {vmknic.mtu}` on the network, which also sets it on the switch"
                subject = Subject(kind="network", name=vmknic.network)
                findings.add(Code.MTU_TOO_SMALL, subject, message, remedy)


def mtu_of_switch(name: str, observed: Inventory) -> int | None:
    """Return the MTU of the distributed switch that a network is on, None where that is not known."""
    uuids = {one.switch_uuid for one in find_named(name, observed.networks) if one.switch_uuid is not None}
    return next((one.mtu for one in observed.facts.switches if one.uuid in uuids), None)


# ---------------------------------------------------------------- changes


def _changes_of(
    switch: _Switch, desired: DesiredPlan, observed: Inventory, findings: Findings
) -> list[ChangeNetwork]:
    changes: list[ChangeNetwork] = []
    needs: tuple[str, ...] = ()
    if switch.found is None:
        changes.append(_made(switch, desired, observed))
        needs = (changes[-1].id,)
    edited = _edited(switch, needs, desired, observed, findings)
    if edited is not None:
        changes.append(edited)
        needs = (edited.id,)
    for line in switch.lines:
        portgroup = _portgroup(line, switch, desired, observed, findings)
        if portgroup is not None:
            changes.append(portgroup.model_copy(update={"needs": needs}))
    return changes


def _made(switch: _Switch, desired: DesiredPlan, observed: Inventory) -> ChangeNetwork:
    """Make the switch in the plan's datacenter; the run looks the network folder up."""
    datacenter = datacenter_of(desired, observed)
    place = datacenter.moid if datacenter is not None else ""
    mtu = switch.wanted_mtu
    edits = [Edit(key="switch", after=switch.name)]
    if mtu is not None:
        edits.append(Edit(key="MTU", after=str(mtu), is_default=switch.is_mtu_implied))
    return ChangeNetwork(
        id=f"make switch {switch.name}",
        subject=switch.subject,
        edits=tuple(edits),
        network=MakeSwitch(datacenter_moid=place, name=switch.name, mtu=mtu),
    )


def _edited(
    switch: _Switch, needs: tuple[str, ...], desired: DesiredPlan, observed: Inventory, findings: Findings
) -> ChangeNetwork | None:
    mtu = _new_mtu(switch, desired, observed, findings)
    edits = list(switch.edits)
    if mtu is not None:
        edits.insert(0, _mtu_edit(switch, mtu))
    if not edits:
        return None
    return ChangeNetwork(
        id=f"switch {switch.name}",
        subject=switch.subject,
        edits=tuple(edits),
        needs=needs,
        network=EditSwitch(
            switch_name=switch.name,
            switch_moid=switch.found.moid if switch.found is not None else None,
            mtu=mtu,
            members=dict(switch.members),
        ),
    )


def _mtu_edit(switch: _Switch, mtu: int) -> Edit:
    is_implied = switch.is_mtu_implied
    return Edit(key="MTU", before=str(switch.mtu_now), after=str(mtu), is_default=is_implied)


def _new_mtu(switch: _Switch, desired: DesiredPlan, observed: Inventory, findings: Findings) -> int | None:
    """Return the MTU that a switch that is there is to get, None where it keeps its own."""
    if switch.found is None or switch.mtu_then == switch.mtu_now:
        return None
    if switch.is_mtu_implied and switch.mtu_then < switch.mtu_now:
        return None  # more than RDMA needs is no harm
    if switch.mtu_then < switch.mtu_now and not check_lower_mtu(
        switch.found, switch.mtu_then, desired, observed, findings
    ):
        return None
    return switch.mtu_then


def _portgroup(
    line: DesiredNetwork, switch: _Switch, desired: DesiredPlan, observed: Inventory, findings: Findings
) -> ChangeNetwork | None:
    """Make the portgroup of a line or set its VLAN; None where it is right, or cannot be."""
    subject = Subject(kind="network", name=line.name)
    name = line.name.rstrip("/").rpartition("/")[2]
    same_name = find_named(line.name, observed.networks)
    found = [one for one in same_name if _is_on(one, switch)]
    if not found and same_name:
        message = f"{line.name} exists but is not a port group on {switch.name}"
        findings.add(Code.NETWORK_KIND, subject, message, _other_switch(line, observed))
        return None
    spec = SetPortgroup(
        switch_name=switch.name,
        switch_moid=switch.found.moid if switch.found is not None else None,
        portgroup_moid=found[0].moid if found else None,
        name=name,
        vlan=line.vlan,
    )
    edits: Sequence[Edit] = [Edit(key="VLAN", after=str(line.vlan))] if line.vlan is not None else ()
    if found:
        edits = _vlan_edits(line, found[0], switch, findings)
        if not edits or not check_vlan(line, found[0], desired, observed, findings):
            return None
    else:
        ports = f"{spec.ports}, static binding, elastic"
        made = (
            Edit(key="portgroup", after=f"{name} on {switch.name}"),
            Edit(key="ports", after=ports, is_default=True),
        )
        edits = (*made, *edits)
    return ChangeNetwork(id=f"network {name}", subject=subject, edits=tuple(edits), network=spec)


def _is_on(network: Network, switch: _Switch) -> bool:
    return (
        network.kind is NetworkKind.DISTRIBUTED
        and not network.is_uplink
        and switch.found is not None
        and network.switch_uuid == switch.found.uuid
    )


def _vlan_edits(line: DesiredNetwork, found: Network, switch: _Switch, findings: Findings) -> Sequence[Edit]:
    vlans = switch.found.portgroup_vlans if switch.found is not None else {}
    if line.vlan is None:
        return ()
    if found.moid not in vlans:
        subject = Subject(kind="network", name=line.name)
        message = f"the VLAN of {line.name} could not be read"
        remedy = f"grant the account read access to {switch.name}"
        findings.add(Code.SETTING_UNREAD, subject, message, remedy)
        return ()
    now = vlans[found.moid]
    if now == line.vlan:
        return ()
    return (Edit(key="VLAN", before="trunk" if now is None else str(now), after=str(line.vlan)),)


def tie_vmknics(changes: Sequence[Change], observed: Inventory) -> list[Change]:
    """Return the changes with each VMkernel NIC after what its network and that one's switch lack.

    Done twice it is the same as done once.
    """
    networks = list(of_kind(changes, ChangeNetwork))
    writes = (change for change in of_kind(changes, ChangeHost) if change.write.joins)
    tied = {change.id: _tied(change, networks, observed) for change in writes}
    return [tied.get(change.id, change) for change in changes]


def _tied(change: ChangeHost, networks: Iterable[ChangeNetwork], observed: Inventory) -> ChangeHost:
    write = change.write
    found = _network(change.host.moid, write.joins, observed)
    switches = {_switch_of(found, observed)} - {None}
    needs = [one.id for one in networks if _concerns(one, write.joins, switches)]
    if found is not None and found.kind is NetworkKind.DISTRIBUTED:
        write = write.on_network(found.moid)
    return change.model_copy(update={"write": write, "needs": tuple(dict.fromkeys((*change.needs, *needs)))})


def _network(host_moid: str, name: str, observed: Inventory) -> Network | None:
    """Return the network of a name that the host sees, else a distributed one: the host may join yet."""
    found = [one for one in find_named(name, observed.networks) if not one.is_uplink]
    host = observed.host_by_moid.get(host_moid)
    seen = host.network_moids if host is not None else ()
    return next(
        (one for one in found if one.moid in seen),
        next((one for one in found if one.kind is NetworkKind.DISTRIBUTED), None),
    )


def _switch_of(network: Network | None, observed: Inventory) -> str | None:
    if network is None or network.switch_uuid is None:
        return None
    return next((one.name for one in observed.facts.switches if one.uuid == network.switch_uuid), None)


def _concerns(change: ChangeNetwork, name: str, switches: set[str | None]) -> bool:
    """Whether a change makes or changes a network of this name, or a switch of these."""
    network = change.network
    if isinstance(network, MakeSwitch):
        return network.name in switches
    if network.kind == "set_portgroup":
        return network.name.casefold() == name.casefold()
    return network.switch_name in switches
