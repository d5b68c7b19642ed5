"""RDMA of the host itself: trust, PFC and DSCP of its NIC driver, and the VMkernel NIC that carries PVRDMA.

The words of the driver's kernel modules set RoCE. nmlx5_core: `pfctx` and `pfcrx`, the bit of the priority
that PFC protects, which must be equal; `trust_state=2` for DSCP. A host that trusts PCP names no trust_state
at all: that is how VMware's guide sets it up, and that a 1 means the same is derived from the Linux driver's
own numbers (unproven on ESXi; it is read as PCP and never written). nmlx5_rdma: `pcp_force`, `dscp_force`.
The words hold for every port of the driver, and for the next boot: the values in force cannot be read.

A NIC that is passed through whole has no such words here; its guest sets RoCE.

`Net.PVRDMAVmknic` names the VMkernel NIC of PVRDMA (a text, empty by default). If the plan file names a
network instead, the value here is that network, and the name is looked up when it is written; of one that the
same plan makes, the lowest free number is used, and the reading afterwards shows whether that was right. The
ruleset `pvrdma` of the host's firewall opens TCP 28250 to 28761. That an empty text undoes the choice is
derived from its being the default, and unproven.

Belief: pfc-module-options, trust-state-one-is-pcp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from vgpu_cfg.changes.kinds.change_host import ModuleWrite, OptionWrite, RulesetWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.plan_file import PvrdmaEntry, RoceEntry
from vgpu_cfg.model.plan_values import NicUse
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
from vgpu_cfg.planning.host_settings.modules import merge_options, option_of
from vgpu_cfg.planning.host_settings.nics.uplinks import base_unread
from vgpu_cfg.planning.host_settings.nics.vmknics import VMKNIC, network_name, next_vmknic, vmknic_on

CORE = "nmlx5_core"
RDMA = "nmlx5_rdma"

WORDS: Mapping[str, tuple[str, ...]] = {
    CORE: ("pfctx", "pfcrx", "trust_state"),
    RDMA: ("pcp_force", "dscp_force"),
}
"""The words that this tool sets in a module's option string, and takes out again; all others stay."""

_TRUST_DSCP, _TRUST_PCP = "2", "1"
_BITMAPS = ("pfctx", "pfcrx")

OPTION = "Net.PVRDMAVmknic"
RULESET = "pvrdma"
OPEN, CLOSED = "open", "closed"

_SOURCE = "vSphere Networking 8.0, Configure an ESXi Host for PVRDMA (GUID-4A5EBD44)"


def _words(module: str, roce: RoceEntry | bool) -> dict[str, str]:  # noqa: FBT001 - as the plan file has it
    if not isinstance(roce, RoceEntry):
        return {}
    is_dscp = roce.trust == "dscp"
    if module == RDMA:
        force = {"pcp_force": str(roce.priority)}
        return force | ({"dscp_force": str(roce.dscp)} if is_dscp else {})
    bit = f"0x{1 << roce.priority:02x}"
    return {"pfctx": bit, "pfcrx": bit} | ({"trust_state": _TRUST_DSCP} if is_dscp else {})


def _desired_settings_of(module: str, entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    """Yield one desired setting for the module; its value holds all rules that contradict each other.

    A NIC of another driver gets a desired setting of its own, which is then refused.
    """
    wanted: list[str] = []
    ruled: list[str] = []
    for nic, rule in nic_rules(entry, view):
        if rule.roce is None or rule.use is NicUse.PASSTHROUGH:
            continue
        words = [f"{name}={value}" for name, value in _words(module, rule.roce).items()]
        if nic.driver not in ("", CORE):
            if module == CORE and words:
                yield DesiredSetting(CORE, " ".join(words), device=nic.device or nic.pci_id)
            continue
        ruled.append(nic.device)
        wanted += [word for word in words if word not in wanted]
    if ruled:
        others = [nic.device for nic in view.host.nics if nic.driver == CORE and nic.device not in ruled]
        note = f"also applies to {listed(others)}, which use the same driver" if others else ""
        yield DesiredSetting(module, " ".join(wanted), note=note)


def _read_module(module: str, view: HostView, device: str) -> Reading:
    if device:
        nic = view.nic(device)
        driver = nic.driver if nic is not None else "unknown"
        return Reading(unread=f"{device} uses the driver {driver}, not {CORE}", is_absent=True)
    facts = view.facts
    if FactGroup.MODULES in facts.unread or FactGroup.MODULES not in facts.groups:
        return Reading(unread=facts.unread.get(FactGroup.MODULES, "the kernel modules were not read"))
    if module not in facts.modules:
        return Reading(unread=f"the kernel module {module} does not exist", is_absent=True)
    return Reading(configured=_ours(module, facts.modules[module]))


def _ours(module: str, options: str) -> str:
    """Return the words of an option string that are this tool's matter, in one spelling."""
    reported = []
    for name in WORDS[module]:
        value = option_of(options, name)
        if value is None or (name == "trust_state" and value == _TRUST_PCP):
            continue
        reported.append(f"{name}={_bitmap(value) if name in _BITMAPS else value}")
    return " ".join(reported)


def _bitmap(value: str) -> str:
    """Spell a bitmap as two hexadecimal digits; the driver takes decimal ones too."""
    try:
        return f"0x{int(value, 0):02x}"
    except ValueError:
        return value


def _objects_to(module: str, view: HostView, desired: DesiredSetting) -> Objection | None:
    reading = _read_module(module, view, desired.device)
    if reading.is_absent:
        remedy = f"use a NIC with the driver {CORE}, or remove `roce` for this one"
        return Objection(Code.NOT_SUPPORTED, reading.unread, remedy)
    names = [word.partition("=")[0] for word in desired.value.split()]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        message = f"the rules for this driver conflict: {desired.value}"
        remedy = (
            f"set the same `roce` for all {CORE} NICs on a host, because it applies to all of them "
            f"({listed(twice)})"
        )
        return Objection(Code.HOST_TWICE, message, remedy)
    return None


def _merged(module: str, view: HostView, desired: DesiredSetting) -> str:
    changes: dict[str, str | None] = dict.fromkeys(WORDS[module])
    for word in desired.value.split():
        name, _, value = word.partition("=")
        changes[name] = value
    return merge_options(view.facts.modules.get(module, ""), changes)


def _write_module(
    module: str, view: HostView, desired_settings: Sequence[DesiredSetting]
) -> list[ModuleWrite]:
    before = view.facts.modules.get(module, "")
    return [
        ModuleWrite(module=module, options=_merged(module, view, desired), before=before)
        for desired in desired_settings
    ]


def _call(module: str, options: str) -> EsxcliCall:
    return EsxcliCall("system.module.parameters.set", (("module", module), ("parameter-string", options)))


def _how(module: str, view: HostView, desired: DesiredSetting) -> Instructions:
    before = view.facts.modules.get(module, "")
    what = "which priority PFC makes lossless, and whether DSCP or PCP selects it"
    if module == RDMA:
        what = "the DSCP and the priority of the host's own RDMA traffic"
    return Instructions(
        why=(
            f"The option string of {module} sets {what}. `pfctx` must equal `pfcrx`; if they are set, "
            "global pause is disabled. The whole option string is written, including its other options. It "
            "applies to all of the driver's ports, and the physical switch must use the same values."
        ),
        commands=(_call(module, _merged(module, view, desired)).line,),
        expected="no output; the host must be rebooted",
        verify=(
            f"esxcli system module parameters list -m {module}",
            *(("esxcli network nic dcb status get -n vmnicN",) if module == CORE else ()),
        ),
        undo=(_call(module, before).line,),
    )


def _module_setting(module: str, title: str) -> HostSetting:
    return HostSetting(
        key=module,
        title=title,
        source=(
            "VMware vSphere Storage 7.0, Configure Lossless Ethernet (GUID-B764140D); Mellanox DOC-2581; "
            "NVIDIA native ESXi driver manual 4.19.71"
        ),
        desired_settings=partial(_desired_settings_of, module),
        read=partial(_read_module, module),
        write=partial(_write_module, module),
        impact=lambda _view, _desired: Impact.HOST_REBOOT,
        how=partial(_how, module),
        group=f"module {module}",
        in_file="readable only with esxcli, per host",
        remembered=None,
        facts=frozenset({FactGroup.MODULES}),
        objects=partial(_objects_to, module),
        other_way=lambda view, desired_settings: by_esxcli(
            [_call(module, _merged(module, view, desired)) for desired in desired_settings]
        ),
    )


NMLX5_CORE = _module_setting(CORE, "nmlx5_core PFC and trust mode")
NMLX5_RDMA = _module_setting(RDMA, "nmlx5_rdma DSCP and priority")


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
    """Read the chosen VMkernel NIC or, if a network is desired, the network it is on."""
    facts = view.facts
    found = facts.options.get(OPTION)
    if found is None:
        if FactGroup.OPTIONS in facts.groups:
            return Reading(unread=f"the host does not have the option {OPTION}", is_absent=True)
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


def _pvrdma_call(view: HostView, desired: DesiredSetting) -> EsxcliCall:
    options = (("option", f"/{OPTION.replace('.', '/')}"), ("string-value", _chosen(view, desired)))
    return EsxcliCall("system.settings.advanced.set", options)


def _pvrdma_how(view: HostView, desired: DesiredSetting) -> Instructions:
    chosen = _chosen(view, desired)
    return Instructions(
        why=(
            "Paravirtual RDMA adapters (PVRDMA) communicate between hosts through one VMkernel NIC per "
            "host. Their RDMA NIC must be the only uplink of the distributed switch; otherwise traffic "
            "silently falls back to TCP. PVRDMA does not support GPUDirect."
        ),
        client=f"host > Configure > System > Advanced System Settings > {OPTION}: {chosen or '(empty)'}",
        commands=(
            f"govc host.option.set -host {{host}} {OPTION} '{chosen}'",
            _pvrdma_call(view, desired).line,
        ),
        expected="no output",
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
        return Reading(unread=f"the host's firewall does not have the ruleset {RULESET}", is_absent=True)
    return Reading(configured=OPEN if is_open else CLOSED)


def _ruleset_call(is_open: bool) -> EsxcliCall:  # noqa: FBT001 - the one thing that the call says
    options = (("ruleset-id", RULESET), ("enabled", str(is_open).lower()))
    return EsxcliCall("network.firewall.ruleset.set", options)


def _how_ruleset(_view: HostView, desired: DesiredSetting) -> Instructions:
    is_open = desired.value == OPEN
    return Instructions(
        why=(
            "Hosts establish RDMA connections for their VMs over TCP ports 28250 to 28761, which the "
            "firewall blocks."
        ),
        client=f"host > Configure > System > Firewall > {RULESET}: {desired.value}",
        commands=(_ruleset_call(is_open).line,),
        expected="no output",
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
    how=_pvrdma_how,
    group=OPTION_KEY,
    in_file="readable only with esxcli, per host",
    remembered=None,
    facts=frozenset({FactGroup.OPTIONS}),
    after=(VMKNIC.key,),
    other_way=lambda view, desired_settings: by_esxcli(
        [_pvrdma_call(view, desired) for desired in desired_settings]
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
    in_file="readable only with esxcli, per host",
    remembered=None,
    other_way=lambda _view, desired_settings: by_esxcli(
        [_ruleset_call(desired.value == OPEN) for desired in desired_settings]
    ),
)
