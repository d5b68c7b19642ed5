"""NICs that a host uses itself: uplinks of standard switches with their MTU, and the loss of such a NIC.

A value names the switch and, if the entry's VMkernel NICs need more than the ordinary 1500, the least MTU:
`vSwitch1 mtu 9000`. A larger one is right too, and none is ever lowered: others may use the switch. An empty
value takes the NIC out of its standard switch.

Distributed switches are the whole estate's matter: `planning.networks`. A `switch` that no standard switch of
the host is called is taken to be one.

With a NIC that it uses itself, a host loses an uplink, VMkernel NICs and their services.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.kinds.change_host import SwitchWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import ORDINARY_MTU, DesiredHosts
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, FactGroup, HostSwitch, Vmknic
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    EsxcliCall,
    HostSetting,
    HostView,
    Instructions,
    Reading,
    by_esxcli,
)
from vgpu_cfg.planning.host_settings.match import nic_rules

KEY = "uplink"

_MTU = " mtu "


def base_unread(view: HostView) -> str:
    """Return why services, switches and VMkernel NICs of a host are not known; empty where they are."""
    facts = view.facts
    if FactGroup.BASE in facts.groups:
        return ""
    return facts.unread.get(FactGroup.BASE, "the host's network was not read")


def _standard(view: HostView, name: str) -> HostSwitch | None:
    return next((one for one in view.facts.switches if one.name == name and one.switch_uuid is None), None)


def _spelled(switch: str, mtu: int | None) -> str:
    return f"{switch}{_MTU}{mtu}" if mtu is not None else switch


def _taken_apart(value: str) -> tuple[str, int | None]:
    """Return the switch of a value and the MTU, if it names one."""
    switch, found, mtu = value.rpartition(_MTU)
    return (switch, int(mtu)) if found and mtu.isdigit() else (value, None)


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    largest = max((one.mtu or 0 for one in entry.vmknics), default=0)
    mtu = largest if largest > ORDINARY_MTU else None
    for nic, rule in nic_rules(entry, view):
        if rule.switch is None or not nic.device:
            continue
        if rule.switch:
            if _standard(view, rule.switch) is not None:
                yield DesiredSetting(KEY, _spelled(rule.switch, mtu), device=nic.device)
        elif _standard(view, view.facts.uplink_of(nic.device) or "") is not None:
            yield DesiredSetting(KEY, "", device=nic.device, cuts_off=str(cut_off(view, nic.device) or ""))


def _read(view: HostView, device: str) -> Reading:
    if reason := base_unread(view):
        return Reading(unread=reason)
    name = view.facts.uplink_of(device)
    if name is None:
        return Reading(configured="")
    switch = _standard(view, name)
    return Reading(configured=_spelled(name, (switch.mtu or ORDINARY_MTU) if switch is not None else None))


def _same(wanted: str, found: str) -> bool:
    """Whether a NIC is on the switch that is wanted, and that takes packets as large as are wanted."""
    switch, mtu = _taken_apart(wanted)
    found_switch, found_mtu = _taken_apart(found)
    return switch == found_switch and (found_mtu or ORDINARY_MTU) >= (mtu or 0)


def _objects(view: HostView, desired: DesiredSetting) -> Objection | None:
    home, (switch, _) = view.facts.uplink_of(desired.device), _taken_apart(desired.value)
    if home is None or home == switch or not switch:
        return None
    message = f"{desired.device} is an uplink of {home}"
    return Objection(Code.NIC_IN_USE, message, f"remove the NIC from {home}, then run `plan` again")


def _write(view: HostView, desired_settings: Sequence[DesiredSetting]) -> list[SwitchWrite]:
    """Make one write per NIC, each with the uplinks that the writes before it have left."""
    now = {one.name: one.uplinks for one in view.facts.switches if one.switch_uuid is None}
    writes = []
    for desired in desired_settings:
        wanted, mtu = _taken_apart(desired.value)
        name = wanted or view.facts.uplink_of(desired.device) or ""
        before = now.get(name, ())
        kept = tuple(uplink for uplink in before if uplink != desired.device)
        uplinks = (*kept, desired.device) if wanted else kept
        raised = _raised(view, name, mtu)
        if desired.device in before and wanted:
            writes.append(SwitchWrite(switch=name, mtu=raised))
        else:
            now[name] = uplinks
            writes.append(SwitchWrite(switch=name, mtu=raised, uplinks=uplinks, before=before))
    return writes


def _raised(view: HostView, name: str, mtu: int | None) -> int | None:
    """Return the MTU that a switch must get, None if its own is enough."""
    switch = _standard(view, name)
    has = (switch.mtu if switch is not None else None) or ORDINARY_MTU
    return mtu if mtu is not None and mtu > has else None


def _calls(view: HostView, desired: DesiredSetting) -> list[EsxcliCall]:
    (write,) = _write(view, [desired])
    switch = ("vswitch-name", write.switch)
    calls = []
    if write.uplinks is not None:
        verb = "add" if desired.device in write.uplinks else "remove"
        options = (("uplink-name", desired.device), switch)
        calls.append(EsxcliCall(f"network.vswitch.standard.uplink.{verb}", options))
    if write.mtu is not None:
        calls.append(EsxcliCall("network.vswitch.standard.set", (switch, ("mtu", str(write.mtu)))))
    return calls


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    (write,) = _write(view, [desired])
    start = "esxcli network vswitch standard"
    undo = []
    if write.uplinks is not None:
        verb = "remove" if _taken_apart(desired.value)[0] else "add"
        undo.append(f"{start} uplink {verb} --uplink-name={desired.device} --vswitch-name={write.switch}")
    if write.mtu is not None:
        switch = _standard(view, write.switch)
        before = (switch.mtu if switch is not None else None) or ORDINARY_MTU
        undo.append(f"{start} set --vswitch-name={write.switch} --mtu={before}")
    return Instructions(
        why=(
            f"The host's RoCE traffic uses {desired.device}, so it must be an uplink. Switches drop packets "
            "that exceed their MTU, and the physical switch must allow a larger MTU (9216 for 9000)."
        ),
        client=f"host > Configure > Networking > Virtual switches > {write.switch} > Manage adapters",
        commands=tuple(call.line for call in _calls(view, desired)),
        expected="no output",
        verify=(f"{start} list --vswitch-name={write.switch}",),
        undo=tuple(undo) or ("nothing to undo: the host is unchanged",),
    )


UPLINK = HostSetting(
    key=KEY,
    title="uplink",
    source="vSphere API, HostNetworkSystem.UpdateVirtualSwitch, HostVirtualSwitchSpec",
    desired_settings=_desired_settings,
    read=_read,
    write=_write,
    impact=lambda _view, _desired: Impact.NONE,
    how=_how,
    group=KEY,
    in_file="part of the host's own network",
    remembered=None,
    same=_same,
    objects=_objects,
    other_way=lambda view, desired_settings: by_esxcli(
        [call for desired in desired_settings for call in _calls(view, desired)]
    ),
)


@dataclass(frozen=True, slots=True)
class CutOff:
    """The users of a NIC. `vmknics` and `services` may be on its switch; only distributed ones are certain.

    `others` are the switch's remaining uplinks: with one of them left nothing is cut off, only thinner.
    """

    nic: str
    switch: str
    others: tuple[str, ...] = ()
    vmknics: tuple[str, ...] = ()
    services: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.others:
            return f"{self.nic} is an uplink of {self.switch}; {listed(self.others)} would remain"
        reported = f"{self.nic} is the only uplink of {self.switch}"
        if self.vmknics:
            reported = f"{reported}, with {listed(self.vmknics, shown=6)}"
        return f"{reported} ({listed(self.services, shown=8)})" if self.services else reported


def cut_off(view: HostView, vmnic: str, distributed: Sequence[DistributedSwitch] = ()) -> CutOff | None:
    """Return the losses with a NIC; None if no switch uses it.

    A host does not report the standard switch of a portgroup: with several of them every VMkernel NIC that is
    on no distributed switch is named. `distributed` are the switches of the estate.
    """
    switch = next((one for one in view.facts.switches if vmnic in one.uplinks), None)
    if switch is None:
        return None
    others = tuple(uplink for uplink in switch.uplinks if uplink != vmnic)
    found = [vmknic for vmknic in view.facts.vmknics if _may_be_on(vmknic, switch, distributed)]
    services = dict.fromkeys(service for vmknic in found for service in vmknic.services)
    return CutOff(vmnic, switch.name, others, tuple(one.device for one in found), tuple(services))


def _may_be_on(vmknic: Vmknic, switch: HostSwitch, distributed: Sequence[DistributedSwitch]) -> bool:
    home = next((one for one in distributed if vmknic.network_moid in one.portgroup_vlans), None)
    if switch.switch_uuid is None:
        return home is None
    return home.uuid == switch.switch_uuid if home is not None else not distributed
