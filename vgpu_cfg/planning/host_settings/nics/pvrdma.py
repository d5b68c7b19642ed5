"""Which VMkernel NIC carries PVRDMA, and the ruleset of the host's firewall that lets it through.

`Net.PVRDMAVmknic` names the VMkernel NIC (a text, empty by default). Where the plan file names a
network instead, the value here is that network, and the name is looked up when it is written; of one
that the same plan makes, the lowest free number is taken, and the reading afterwards shows whether
that was right. The ruleset `pvrdma` opens TCP 28250 to 28761. That an empty text takes the choice back is
derived from its being the default, and unproven.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.kinds.change_host import OptionWrite, RulesetWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.plan_file import PvrdmaEntry
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading
from vgpu_cfg.planning.host_settings.esxcli_calls import EsxcliCall, by_esxcli
from vgpu_cfg.planning.host_settings.nics.uplinks import base_unread
from vgpu_cfg.planning.host_settings.nics.vmknics import VMKNIC, network_name, next_vmknic, vmknic_on

OPTION = "Net.PVRDMAVmknic"
RULESET = "pvrdma"
OPEN, CLOSED = "open", "closed"

_SOURCE = "vSphere Networking 8.0, Configure an ESXi Host for PVRDMA (GUID-4A5EBD44)"


def _desired_settings(entry: DesiredHosts, _view: HostView) -> Iterator[DesiredSetting]:
    match entry.pvrdma:
        case False:
            yield DesiredSetting(OPTION_KEY, "")
        case PvrdmaEntry(vmknic=str(vmknic)):
            yield DesiredSetting(OPTION_KEY, vmknic)
        case PvrdmaEntry(network=str(network)):
            yield DesiredSetting(OPTION_KEY, network_name(network), device=network_name(network))
        case _:
            return


def _read(view: HostView, device: str) -> Reading:
    """Read the VMkernel NIC that is chosen or, where a network is desired, the network it is on."""
    facts = view.facts
    found = facts.options.get(OPTION)
    if found is None:
        if FactGroup.OPTIONS in facts.groups:
            return Reading(unread=f"the host has no option {OPTION}", is_absent=True)
        return Reading(unread=facts.unread.get(FactGroup.OPTIONS, "the advanced options were not read"))
    chosen = str(found)
    if not device:
        return Reading(configured=chosen)
    if reason := base_unread(view):
        return Reading(unread=reason)
    on = next((one.network for one in facts.vmknics if one.device == chosen), "")
    return Reading(configured=device if on.casefold() == device.casefold() else on or chosen)


def _chosen(view: HostView, desired: DesiredSetting) -> str:
    if not desired.device:
        return desired.value
    found = vmknic_on(view, desired.device)
    return found.device if found is not None else next_vmknic(view)


def _call(view: HostView, desired: DesiredSetting) -> EsxcliCall:
    options = (("option", f"/{OPTION.replace('.', '/')}"), ("string-value", _chosen(view, desired)))
    return EsxcliCall("system.settings.advanced.set", options)


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    chosen = _chosen(view, desired)
    return Instructions(
        why=(
            "Virtual RDMA adapters (PVRDMA) talk between hosts through one VMkernel NIC of each. Their RDMA "
            "NIC must be the only uplink of the distributed switch; else the traffic falls back to TCP "
            "silently. PVRDMA does no GPUDirect."
        ),
        client=f"host > Configure > System > Advanced System Settings > {OPTION}: {chosen or '(empty)'}",
        commands=(f"govc host.option.set -host {{host}} {OPTION} '{chosen}'", _call(view, desired).line),
        expected="nothing is printed",
        verify=(f"govc host.option.ls -host {{host}} {OPTION}",),
        undo=(f"govc host.option.set -host {{host}} {OPTION} '{view.facts.options.get(OPTION, '')}'",),
    )


def _desired_ruleset(entry: DesiredHosts, _view: HostView) -> Iterator[DesiredSetting]:
    if entry.pvrdma is not None:
        yield DesiredSetting(FIREWALL_KEY, OPEN if entry.pvrdma else CLOSED)


def _read_ruleset(view: HostView, _device: str) -> Reading:
    if reason := base_unread(view):
        return Reading(unread=reason)
    is_open = view.facts.rulesets.get(RULESET)
    if is_open is None:
        return Reading(unread=f"the host's firewall has no ruleset {RULESET}", is_absent=True)
    return Reading(configured=OPEN if is_open else CLOSED)


def _ruleset_call(is_open: bool) -> EsxcliCall:  # noqa: FBT001 - the one thing that the call says
    options = (("ruleset-id", RULESET), ("enabled", str(is_open).lower()))
    return EsxcliCall("network.firewall.ruleset.set", options)


def _how_ruleset(_view: HostView, desired: DesiredSetting) -> Instructions:
    is_open = desired.value == OPEN
    return Instructions(
        why="Hosts set up RDMA connections for their VMs over TCP 28250 to 28761, which the firewall blocks.",
        client=f"host > Configure > System > Firewall > {RULESET}: {desired.value}",
        commands=(_ruleset_call(is_open).line,),
        expected="nothing is printed",
        verify=(f"esxcli network firewall ruleset list --ruleset-id={RULESET}",),
        undo=(_ruleset_call(not is_open).line,),
    )


OPTION_KEY, FIREWALL_KEY = "pvrdma", "pvrdma_firewall"

PVRDMA = HostSetting(
    key=OPTION_KEY,
    title="PVRDMA VMkernel NIC",
    source=_SOURCE,
    desired_settings=_desired_settings,
    read=_read,
    write=lambda view, desired_settings: [
        OptionWrite(options={OPTION: _chosen(view, desired)}) for desired in desired_settings
    ],
    impact=lambda _view, _desired: Impact.NONE,
    how=_how,
    group=OPTION_KEY,
    in_file="only esxcli tells it, host by host",
    remembered=None,
    facts=frozenset({FactGroup.OPTIONS}),
    after=(VMKNIC.key,),
    other_way=lambda view, desired_settings: by_esxcli(
        [_call(view, desired) for desired in desired_settings]
    ),
)

PVRDMA_FIREWALL = HostSetting(
    key=FIREWALL_KEY,
    title="PVRDMA firewall rule",
    source=_SOURCE,
    desired_settings=_desired_ruleset,
    read=_read_ruleset,
    write=lambda _view, desired_settings: [
        RulesetWrite(ruleset=RULESET, is_enabled=desired.value == OPEN) for desired in desired_settings
    ],
    impact=lambda _view, _desired: Impact.NONE,
    how=_how_ruleset,
    group=FIREWALL_KEY,
    in_file="only esxcli tells it, host by host",
    remembered=None,
    other_way=lambda _view, desired_settings: by_esxcli(
        [_ruleset_call(desired.value == OPEN) for desired in desired_settings]
    ),
)
