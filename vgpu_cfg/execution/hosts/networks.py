"""Changes to clusters, vCenter, distributed switches and kept NIC names for hosts: read, change, read again.

A switch or portgroup that this very run makes is known by its name until it has been made.

The names that NICs had before they were passed through are kept on their host. A host lists no NIC for a
function that it has handed out, and so a plan file that names the vmnic would not find it again. The name is
kept before passthrough is asked for, and goes once the host lists the NIC again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import assert_never

from vgpu_cfg.changes.change import Change, ChangeHost, ChangeNetwork, SetClusterOption, SetVCenterOption
from vgpu_cfg.changes.kinds.change_host import PassthroughWrite
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, EstateFacts, FactGroup, HostAttribute
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.host_settings.entry import HostView

_BASE = frozenset({FactGroup.BASE})


def set_cluster_option(change: SetClusterOption, hosts: HostSession) -> Step:
    """Set or remove one option of a cluster's DRS, unless it is so."""
    if _has_cluster_option(_read(hosts), change):
        return StepResult(is_needed=False, message="already done")
    yield from hosts.run.run_task(
        lambda: hosts.tools.writer.set_cluster_option(change), f"set {change.option}", change.subject.name
    )
    yield from _confirm(change, hosts, lambda facts: _has_cluster_option(facts, change) is not False)
    return StepResult()


def set_vcenter_option(change: SetVCenterOption, hosts: HostSession) -> Step:
    """Set one advanced setting of vCenter, unless it is so."""
    if _has_vcenter_option(_read(hosts), change):
        return StepResult(is_needed=False, message="already done")
    hosts.run.begin(lambda: hosts.tools.writer.set_vcenter_option(change))
    yield from _confirm(change, hosts, lambda facts: _has_vcenter_option(facts, change) is not False)
    return StepResult()


def change_network(change: ChangeNetwork, hosts: HostSession) -> Step:
    """Make or change a distributed switch or portgroup, unless it is so: one task."""
    network = change.network
    match network:
        case MakeSwitch():
            return _make_switch(change, network, hosts)
        case EditSwitch():
            return _edit_switch(change, network, hosts)
        case SetPortgroup():
            return _set_portgroup(change, network, hosts)
        case _:
            assert_never(network)


def _make_switch(change: ChangeNetwork, wanted: MakeSwitch, hosts: HostSession) -> Step:
    found = _switch_named(wanted.name, _read(hosts))
    if found is not None:
        if wanted.mtu not in (None, found.mtu):
            raise StalePlan(
                f"a switch named {wanted.name} now exists with a different MTU",
                subject=wanted.name,
                remedy=PLAN_AGAIN,
            )
        hosts.run.networks[wanted.name] = found.moid
        return StepResult(is_needed=False, message="already exists")
    moid = yield from _run_task(change, hosts)
    if moid is not None:
        hosts.run.networks[wanted.name] = moid
    facts = yield from _confirm(change, hosts, lambda seen: _switch_named(wanted.name, seen) is not None)
    made = _switch_named(wanted.name, facts)
    if made is not None:
        hosts.run.networks[wanted.name] = made.moid
    return StepResult()


def _edit_switch(change: ChangeNetwork, wanted: EditSwitch, hosts: HostSession) -> Step:
    facts = _read(hosts)
    moid = _switch_moid(wanted, facts, hosts)
    if _has_edit(wanted, moid, facts):
        return StepResult(is_needed=False, message="already done")
    filled = change.model_copy(update={"network": wanted.model_copy(update={"switch_moid": moid})})
    yield from _run_task(filled, hosts)
    yield from _confirm(change, hosts, lambda seen: _has_edit(wanted, moid, seen))
    return StepResult()


def _set_portgroup(change: ChangeNetwork, wanted: SetPortgroup, hosts: HostSession) -> Step:
    facts = _read(hosts)
    switch = _switch_moid(wanted, facts, hosts)
    moid = wanted.portgroup_moid or _portgroup_named(wanted.name, switch, hosts)
    if moid is not None:
        hosts.run.networks[wanted.name] = moid
        if _has_vlan(wanted, moid, facts):
            return StepResult(is_needed=False, message="already done")
    filled = wanted.model_copy(update={"switch_moid": switch, "portgroup_moid": moid})
    yield from _run_task(change.model_copy(update={"network": filled}), hosts)
    made = moid or _portgroup_named(wanted.name, switch, hosts)
    if made is None:
        raise _not_shown(change)
    hosts.run.networks[wanted.name] = made
    yield from _confirm(change, hosts, lambda seen: _has_vlan(wanted, made, seen))
    return StepResult()


def _run_task(change: ChangeNetwork, hosts: HostSession) -> Waiting[str | None]:
    start = partial(hosts.tools.writer.change_network, change)
    update = yield from hosts.run.run_task(start, change.id, change.subject.name)
    return update.result_moid


def _read(hosts: HostSession) -> EstateFacts:
    """Read clusters, switches and vCenter's options; clusters come with the plan's hosts."""
    return hosts.run.reader.read_facts(hosts.moids, _BASE)


def _confirm(
    change: Change, hosts: HostSession, is_shown: Callable[[EstateFacts], bool]
) -> Waiting[EstateFacts]:
    run = hosts.run
    deadline = run.now() + run.options.settle_seconds
    while not is_shown(facts := _read(hosts)):
        if run.now() >= deadline:
            raise _not_shown(change)
        yield from wait(run.options.poll_seconds)
    return facts


def _not_shown(change: Change) -> NotConfirmed:
    return NotConfirmed(
        f"the task did not change {change.subject.name} as planned ({change.id})",
        subject=change.subject.name,
        remedy="check in vCenter who else is changing it; then " + PLAN_AGAIN,
    )


def _has_cluster_option(facts: EstateFacts, change: SetClusterOption) -> bool | None:
    """Whether the cluster shows the option so; None where the cluster was not read."""
    cluster = facts.clusters.get(change.cluster_moid)
    if cluster is None:
        return None
    return cluster.drs_options.get(change.option, "") == (change.value or "")


def _has_vcenter_option(facts: EstateFacts, change: SetVCenterOption) -> bool | None:
    """Whether vCenter shows the setting so; None if unknown."""
    found = facts.vcenter_options.get(change.option)
    return None if found is None else found.casefold() == str(change.value).casefold()


def _switch_named(name: str, facts: EstateFacts) -> DistributedSwitch | None:
    return next((switch for switch in facts.switches if switch.name == name), None)


def _switch_moid(wanted: EditSwitch | SetPortgroup, facts: EstateFacts, hosts: HostSession) -> str:
    named = _switch_named(wanted.switch_name, facts)
    moid = wanted.switch_moid or hosts.run.networks.get(wanted.switch_name) or (named.moid if named else None)
    if moid is None:
        raise StalePlan(
            f"the switch {wanted.switch_name} was not created", subject=wanted.switch_name, remedy=PLAN_AGAIN
        )
    return moid


def _has_edit(wanted: EditSwitch, moid: str, facts: EstateFacts) -> bool:
    switch = next((one for one in facts.switches if one.moid == moid), None)
    if switch is None or wanted.mtu not in (None, switch.mtu):
        return False
    return all(set(switch.members.get(host, ())) == set(nics) for host, nics in wanted.members.items())


def _has_vlan(wanted: SetPortgroup, moid: str, facts: EstateFacts) -> bool:
    if wanted.vlan is None:
        return True
    vlans = [one.portgroup_vlans[moid] for one in facts.switches if moid in one.portgroup_vlans]
    return wanted.vlan in vlans


def _portgroup_named(name: str, switch_moid: str, hosts: HostSession) -> str | None:
    """Find a portgroup of a switch by its name, which facts do not hold."""
    return hosts.run.reader.read_portgroups(switch_moid).get(name)


def keep_names(change: ChangeHost, view: HostView, hosts: HostSession) -> None:
    """Keep the names of the NICs that a change is about to hand out: one call, none where they are kept."""
    if not isinstance(change.write, PassthroughWrite):
        return
    handed_out = {device.pci_id for device in change.write.devices if device.is_passthrough}
    names = {nic.pci_id: nic.device for nic in view.host.nics if nic.pci_id in handed_out and nic.device}
    _write(change.host, view, {**view.facts.vmnics, **names}, hosts)


def drop_names(ref: HostRef, view: HostView, hosts: HostSession) -> None:
    """Drop the names of NICs that the host has to itself again: no call where there are none."""
    own = _own(view.host)
    kept = {pci_id: name for pci_id, name in view.facts.vmnics.items() if pci_id not in own}
    _write(ref, view, kept, hosts)


def _own(host: Host) -> frozenset[str]:
    """Return the addresses of the NICs that are not handed out, nor will be at the next boot."""
    return frozenset(
        nic.pci_id
        for nic in host.nics
        if nic.pci_id and not (nic.pci and (nic.pci.passthrough_active or nic.pci.passthrough_enabled))
    )


def _write(ref: HostRef, view: HostView, names: dict[str, str], hosts: HostSession) -> None:
    if names != dict(view.facts.vmnics):
        text = json.dumps(names, sort_keys=True, separators=(",", ":")) if names else None
        hosts.tools.writer.set_host_attribute(ref.moid, HostAttribute.VMNICS, text)
