"""A distributed switch or portgroup is made or changed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach, users_of, users_of_switch
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, changed, edit_value, plain, plain_rows
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Inventory


class NetworkEditBase(Frozen):
    """The questions that every edit of distributed networks answers, as a change does."""

    @property
    @abstractmethod
    def is_new(self) -> bool:
        """Whether it makes something that is not there."""

    @abstractmethod
    def by_hand(self, tables: Tables) -> Part:
        """Return the manual steps, without the edits."""

    @abstractmethod
    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """Yield whom it disturbs."""

    @abstractmethod
    def privileges(self, at: Places) -> Iterator[Needed]:
        """Yield the privileges the account needs."""

    @abstractmethod
    def no_way_back(self) -> Iterator[str]:
        """Yield the parts that a rollback cannot undo."""


class MakeSwitch(NetworkEditBase):
    """Make a distributed switch in the datacenter's network folder."""

    kind: Literal["make_switch"] = "make_switch"
    datacenter_moid: str
    name: str
    mtu: int | None = None

    @property
    def is_new(self) -> bool:
        return True

    def by_hand(self, tables: Tables) -> Part:
        mtu = ("-mtu", self.mtu) if self.mtu is not None else ()
        return Part(
            what=f"Create the distributed switch {self.name}.",
            why="the plan's networks are port groups on this switch",
            client="Networking > the datacenter > Distributed Switch > New Distributed Switch",
            commands=(command("govc", "dvs.create", *mtu, self.name),),
            expected="the task completes without error",
            verify=(command("govc", "ls", "network"),),
            undo=("delete the switch if it contains no hosts",),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.MAKE_SWITCH, self.datacenter_moid)

    def no_way_back(self) -> Iterator[str]:
        yield "new switches and port groups are kept"


class EditSwitch(NetworkEditBase):
    """Set a distributed switch's MTU, or add hosts with their uplinks; empty values stay.

    `members` maps a host's moid to the vmnics that become its uplinks on this switch.
    """

    kind: Literal["edit_switch"] = "edit_switch"
    switch_name: str
    switch_moid: str | None = None
    mtu: int | None = None
    members: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return False

    def by_hand(self, tables: Tables) -> Part:
        name = self.switch_name
        lines = [command("govc", "dvs.change", "-mtu", self.mtu, name)] if self.mtu is not None else []
        for moid, nics in self.members.items():
            add = ("govc", "dvs.add", "-dvs", name, "-pnic")
            lines += [command(*add, nic, tables.host_name(moid)) for nic in nics[:1]]
        more = any(len(nics) > 1 for nics in self.members.values())
        note = " govc accepts one uplink per host; add the others in the vSphere Client." if more else ""
        return Part(
            what=f"Change the distributed switch {name}.{note}",
            why=(
                "the smallest MTU along the path limits the packet size, and traffic leaves the host only "
                "through uplinks"
            ),
            client=f"Networking > {name} > Actions > Edit Settings, or Add and Manage Hosts",
            commands=tuple(lines),
            expected="the task completes without error, and every host is listed with its uplinks",
            verify=(command("govc", "object.collect", "-s", f"network/{name}", "config.maxMtu"),),
            undo=("restore the values in the “before” column",),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """Say whose links go down: another MTU takes the uplinks of all members down and up (KB 419088).

        A member without an uplink there has no link to lose, nor have the VMs on it.
        """
        observed = reach.observed
        found = next((one for one in observed.facts.switches if one.moid == self.switch_moid), None)
        if self.mtu is None or found is None:
            return
        networks = {one.moid for one in observed.networks if found.uuid and one.switch_uuid == found.uuid}
        members = [moid for moid, uplinks in found.members.items() if uplinks]
        for moid in members:
            host = observed.host_by_moid.get(moid)
            name = host.name if host is not None else moid
            is_free = _is_free_of_vmknics(moid, networks, observed)
            yield reach.thing(
                "host", name, moid, Experience.LINK_DOWN, through=found.name, is_harmless=is_free
            )
        for vm in users_of_switch(found, observed):
            if vm.host_moid is None or vm.host_moid in members:
                yield reach.vm(vm, Experience.LINK_DOWN, through=found.name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        switch = at.switch(self.switch_moid, self.switch_name)
        if switch is not None:
            yield Needed(privileges.SWITCH_MEMBERS if self.members else privileges.EDIT_SWITCH, switch)
        yield from (Needed(privileges.HOST_NETWORK, host_moid) for host_moid in self.members)

    def no_way_back(self) -> Iterator[str]:
        if self.members:
            yield "hosts and uplinks remain on the switch"


class SetPortgroup(NetworkEditBase):
    """Make a portgroup on a distributed switch (`portgroup_moid` None), or set its VLAN.

    A new one starts with so many `ports` as a new one of the vSphere Client, bound when a NIC is tied to it
    (static binding), and gets more as they are needed (elastic).
    """

    kind: Literal["set_portgroup"] = "set_portgroup"
    switch_name: str
    switch_moid: str | None = None
    portgroup_moid: str | None = None
    name: str
    vlan: int | None = None
    ports: int = 8

    @property
    def is_new(self) -> bool:
        return self.portgroup_moid is None

    def by_hand(self, tables: Tables) -> Part:
        vlan = ("-vlan", self.vlan) if self.vlan is not None else ()
        ports = ("-nports", self.ports, "-auto-expand=true")  # by itself govc makes 128, and no more
        made = command("govc", "dvs.portgroup.add", "-dvs", self.switch_name, *ports, *vlan, self.name)
        set_vlan = command("govc", "dvs.portgroup.change", *vlan, self.name)
        verb = "Create" if self.is_new else "Set the VLAN of"
        return Part(
            what=f"{verb} the port group {self.name} on the distributed switch {self.switch_name}.",
            why="it connects VMs and VMkernel NICs to the network and its VLAN",
            client=f"Networking > {self.switch_name} > Distributed Port Group",
            commands=(made if self.is_new else set_vlan,),
            expected="the task completes without error",
            verify=(command("govc", "dvs.portgroup.info", "-pg", self.name, self.switch_name),),
            undo=("delete the port group if it is not in use" if self.is_new else "restore the old VLAN",),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        networks = reach.observed.networks
        network = next((one for one in networks if one.moid == self.portgroup_moid), None)
        if network is not None:
            for vm in users_of([network], reach.observed):
                yield reach.vm(vm, Experience.LINK_DOWN, through=network.name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        if self.portgroup_moid is not None:
            yield Needed(privileges.EDIT_PORTGROUP, self.portgroup_moid)
        elif (switch := at.switch(self.switch_moid, self.switch_name)) is not None:
            yield Needed(privileges.MAKE_PORTGROUP, switch)

    def no_way_back(self) -> Iterator[str]:
        if self.is_new:
            yield "new switches and port groups are kept"


class ChangeNetwork(ChangeBase):
    """Make or change a distributed switch or portgroup: one task.

    A switch that the same plan makes has no moid yet: the run fills it in by name.
    """

    face = Face("set", "network changed", done="network* changed", noun="network change")

    kind: Literal["change_network"] = "change_network"
    network: Annotated[MakeSwitch | EditSwitch | SetPortgroup, Field(discriminator="kind")]

    @property
    def sign(self) -> str:
        return "+" if self.network.is_new else "~"

    def home(self) -> tuple[str, str, str] | None:
        made = self.network
        return ("network", made.name, made.datacenter_moid) if made.kind == "make_switch" else None

    def head(self, place: Placement | None) -> None:
        return None

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        for edit in self.edits:
            yield edit.key, changed(edit) if edit.before else plain(edit_value(edit))

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        rows = plain_rows(self.edits)
        return (replace(self.network.by_hand(tables), rows=rows),)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return self.network.disturbs(reach)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return self.network.privileges(at)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        return self.network.no_way_back()


def _is_free_of_vmknics(host_moid: str, networks: Collection[str], observed: Inventory) -> bool:
    """Whether no VMkernel NIC of a host is on the networks; a host that was not read may have one."""
    facts = observed.facts.hosts.get(host_moid)
    if facts is None or FactGroup.BASE in facts.unread:
        return False
    return not any(
        one.network_moid in networks or not (one.network_moid or one.network) for one in facts.vmknics
    )
