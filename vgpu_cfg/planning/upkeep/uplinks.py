"""The switches of a host that use a NIC as uplink, their rest without it, and their users.

A host reports the uplinks of its switches, and which of them have a link. The standard switch of a portgroup
is not reported: it is known only if the host has one such switch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.model.observed.host_facts import HostFacts, HostSwitch
from vgpu_cfg.model.observed.inventory import Host, Inventory, Network, NetworkKind
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.vms.lookup.moving import running_vms


@dataclass(frozen=True, slots=True)
class LostUplink:
    """A switch of a host that loses a NIC: which other NICs it has, `up` those with a link.

    `networks` are the portgroups on it by moid, `names` by name; where `is_told` is False they are those that
    could be on it. `vmknics` are the host's own, as in "vmk0 (management)", `vms` the running VMs on them.
    """

    switch: str
    others: tuple[str, ...]
    up: tuple[str, ...]
    is_told: bool
    networks: frozenset[str]
    names: tuple[str, ...]
    vmknics: tuple[str, ...]
    vms: tuple[Vm, ...]

    @property
    def is_last(self) -> bool:
        """Whether the switch has no way out left: no other NIC, or none with a link."""
        return not self.up

    @property
    def cut_off(self) -> tuple[Vm, ...]:
        """The running VMs that are known to lose a network."""
        return self.vms if self.is_last and self.is_told else ()

    def names_of(self, vm: Vm, observed: Inventory) -> tuple[str, ...]:
        """Return the names of its networks that a VM is on."""
        own = observed.networks_of(vm.detail) if vm.detail is not None else frozenset()
        moids = own & self.networks
        return tuple(sorted(one.name for one in observed.networks if one.moid in moids))


def lost_uplinks(host: Host, device: str, observed: Inventory) -> tuple[LostUplink, ...]:
    """List the switches of a host that use a NIC; nothing where the host's switches were not read."""
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or not device:
        return ()
    return tuple(
        _lost(host, device, switch, facts, observed) for switch in facts.switches if device in switch.uplinks
    )


def is_read(host: Host, observed: Inventory) -> bool:
    """Whether the host reported its switches."""
    facts = observed.facts.hosts.get(host.moid)
    return facts is not None and bool(facts.switches)


def _lost(host: Host, device: str, switch: HostSwitch, facts: HostFacts, observed: Inventory) -> LostUplink:
    others = tuple(one for one in switch.uplinks if one != device)
    speeds = {nic.device: nic.speed_mbps for nic in host.nics}
    networks = [one for one in observed.networks if one.moid in host.network_moids and not one.is_uplink]
    own, is_told = _on(switch, facts, networks)
    moids = frozenset(one.moid for one in own)
    names = {one.name for one in own}
    return LostUplink(
        switch.name,
        others,
        tuple(one for one in others if speeds.get(one)),
        is_told,
        moids,
        tuple(sorted(names)),
        tuple(
            f"{one.device} ({', '.join(one.services)})" if one.services else one.device
            for one in facts.vmknics
            if (one.network_moid in moids if one.network_moid else switch.switch_uuid is None and is_told)
        ),
        tuple(
            vm
            for vm in running_vms(host, observed)
            if vm.detail is not None and not moids.isdisjoint(observed.networks_of(vm.detail))
        ),
    )


def _on(
    switch: HostSwitch, facts: HostFacts, networks: Iterable[Network]
) -> tuple[tuple[Network, ...], bool]:
    """Return the networks on a switch, and whether they are known."""
    if switch.switch_uuid is not None:
        return tuple(one for one in networks if one.switch_uuid == switch.switch_uuid), True
    is_only = sum(one.switch_uuid is None for one in facts.switches) == 1
    return tuple(one for one in networks if one.kind is not NetworkKind.DISTRIBUTED), is_only
