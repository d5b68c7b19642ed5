"""Acts on hosts: they are updated, restarted, emptied or reconnected, or get a driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from shlex import quote

from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.observed.host_facts import FirmwareValue, HostFacts, ShellFacts
from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, Host, Inventory
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms import existing_vms
from vgpu_cfg.suggestions.acts import (
    NEWEST_ESXI,
    NEWEST_HARDWARE,
    back_in_use,
    carried_out,
    change_facts,
    change_host,
    change_shell,
    path_of,
    served_by_driver,
    set_in_cluster,
    set_in_detail,
    set_in_facts,
    set_in_host,
    set_in_shell,
    together,
    updated,
    with_facts,
)
from vgpu_cfg.suggestions.candidate import Candidate, Cost, Effect, act
from vgpu_cfg.suggestions.proposals.room import is_protected, move_away, switch_off
from vgpu_cfg.suggestions.situation import Situation

_NEWER_ESXI = (
    Code.PROFILE_NEEDS_NEWER_ESXI,
    Code.CLASSES_CANNOT_SHARE,
    Code.MULTI_VGPU_NEEDS_FULL,
    Code.TOO_MANY_VGPUS,
    Code.NVSWITCH_NEEDS_NEWER_ESXI,
    Code.HARDWARE_VERSION,
    Code.TOO_MANY_PASSTHROUGH,
    Code.PROFILE_NOT_OFFERED,
)
_NO_DRIVER = (Code.NO_HOST_DRIVER, Code.NOT_SHARED_DIRECT, Code.PROFILE_NOT_OFFERED)
_HELD = (Code.NIC_IN_USE, Code.GPU_SERVES_VGPUS, Code.HOST_NOT_EMPTIED, Code.NIC_CUT_OFF)
_WAITING = (Code.PASSTHROUGH_NOT_ACTIVE, Code.RESTART_PENDING, Code.NIC_NOT_READY)


def propose_acts_on_hosts(situation: Situation) -> Iterator[Candidate]:
    """Yield acts on the hosts of VMs with errors, or of their possible places; then on hosts with errors."""
    for host in situation.concerned_hosts(*_NEWER_ESXI):
        if host.version < NEWEST_ESXI or (host.max_hardware_version or 0) < NEWEST_HARDWARE:
            profiles = [one.name for vm in situation.desired.vms for gpu in vm.gpus for one in gpu.profile]
            says = f"update {host.name} from ESXi {host.version} to {NEWEST_ESXI} or later"
            yield _on_empty(host, says, partial(updated, known=profiles))
    yield from _drivers(situation)
    for host in situation.concerned_hosts(Code.NVLINK_GROUP_ABSENT):
        says = f"install NVIDIA's GPU management daemon on {host.name} to create the device groups"
        yield _on_empty(host, says, partial(_with_groups, situation))
    for host in situation.concerned_hosts(Code.LATENCY_NEEDS_CPU):
        if not host.cpu_mhz:
            says = f"make sure that {host.name} is connected and reports its CPU clock rate"
            yield act(says, together((back_in_use(host.moid), set_in_host(host.moid, cpu_mhz=2000))))
    for host in situation.concerned_hosts(Code.NIC_HOSTS_OWN):
        for nic in host.nics:
            yield _off_its_switch(host, nic.device)
    for host in situation.concerned_hosts(*_WAITING):
        says, command = (
            f"restart {host.name} to activate passthrough",
            f"govc host.shutdown -r {path_of(host)}",
        )
        yield _on_empty(host, says, _restarted, command, Cost.HOST_RESTART)
    for found in situation.in_the_way:
        named = situation.host(found.subject.name) if found.subject.kind == "host" else None
        if named is not None:
            yield from _prepared(situation, named, found)


def _on_empty(
    host: Host, says: str, change: Callable[[Host], Host], command: str = "", cost: Cost = Cost.WORK
) -> Candidate:
    """Change a host that must be empty for it."""
    return act(says, change_host(host.moid, change), command, cost, empties=(host.moid,))


def _drivers(situation: Situation) -> Iterator[Candidate]:
    is_refused = any(situation.errors(*_NO_DRIVER))
    for host in situation.concerned_hosts():
        if is_refused or (situation.unplaced and situation.lacks_driver(host)):
            says = f"install NVIDIA's host driver on {host.name}, with graphics type Shared Direct"
            if host.creatable_profiles:
                says = f"update NVIDIA's host driver on {host.name} to a version that supports these profiles"
            boards = [board for gpu in host.gpus if (board := situation.board_of(gpu)) is not None]
            offers = [entry for board in boards for entry in board.profiles]
            names = tuple(one.name for one in offers if one.profile.sharing is not Sharing.MIG)
            yield _on_empty(host, says, partial(served_by_driver, names=names))


def _with_groups(situation: Situation, host: Host) -> Host:
    groups: list[DeviceGroupInfo] = []
    for vm in situation.desired.vms:
        asked = [(int(gpu.nvlink), gpu.profile[0].name) for gpu in vm.gpus if gpu.nvlink and gpu.profile]
        for (_, profile), count in Counter(asked).items():
            name = f"Nvidia:{count}@{profile}%NVLink"
            groups.append(DeviceGroupInfo.of_peers(name, profile, count, "NVLink"))
    return host.model_copy(update={"device_groups": (*host.device_groups, *groups)})


def _restarted(host: Host) -> Host:
    """Return a host whose passthrough is as it was configured."""
    devices = {
        one.pci_id: one.model_copy(update={"passthrough_active": one.passthrough_enabled})
        for one in host.pci_devices
    }
    passed = {pci_id for pci_id, one in devices.items() if one.passthrough_active}
    gpus = []
    for gpu in host.gpus:
        pci = devices.get(gpu.pci_id, gpu.pci)
        graphics = None if pci.passthrough_active else gpu.configured_graphics_type
        gpus.append(gpu.model_copy(update={"pci": pci, "graphics_type": graphics}))
    nics = tuple(nic for nic in host.nics if nic.pci_id not in passed)
    update = {"pci_devices": tuple(devices.values()), "gpus": tuple(gpus), "nics": nics}
    return host.model_copy(update=update)


def _off_its_switch(host: Host, device: str) -> Candidate:
    """Take a NIC of a host from the virtual switch that it is an uplink of, of either kind."""

    def of_host(facts: HostFacts) -> HostFacts:
        switches = tuple(
            one.model_copy(update={"uplinks": tuple(up for up in one.uplinks if up != device)})
            for one in facts.switches
        )
        return facts.model_copy(update={"switches": switches})

    def of_vcenter(observed: Inventory) -> Inventory:
        switches = []
        for one in observed.facts.switches:
            own = tuple(up for up in one.members.get(host.moid, ()) if up != device)
            members = {**one.members, host.moid: own} if host.moid in one.members else one.members
            switches.append(one.model_copy(update={"members": members}))
        return with_facts(observed, switches=tuple(switches))

    says = f"remove {device} on {host.name} from its switch"
    return act(says, together((of_vcenter, change_facts(host.moid, of_host))))


def _prepared(situation: Situation, host: Host, found: Diagnostic) -> Iterator[Candidate]:
    """Yield the acts against a finding about a host."""
    name, moid = host.name, host.moid
    firmware = _newer_firmware(situation, host)
    acts: dict[str, tuple[str, tuple[Effect, ...]]] = {
        Code.LOCKDOWN: (
            f"disable lockdown mode on {name} while the host is changed",
            (set_in_facts(moid, lockdown="lockdownDisabled"),),
        ),
        Code.OTHERS_MAINTENANCE: (
            f"finish the other plan's work on {name}: rerun its `vgpu-cfg apply`",
            (set_in_facts(moid, mark=None), back_in_use(moid)),
        ),
        Code.SETTING_OWNED: (
            f"detach the host profile or cluster image that manages {name}'s settings",
            (set_in_facts(moid, owners=()), partial(_unowned, host)),
        ),
        Code.SETTING_UNREAD: (
            f"make {name}'s shell accessible: {found.message}",
            (set_in_facts(moid, unread={}), set_in_shell(moid, unread={}), firmware),
        ),
        Code.NO_FIRMWARE_TOOLS: (
            f"install NVIDIA's firmware tools on {name}",
            (set_in_shell(moid, has_firmware_tools=True), firmware),
        ),
        Code.NOT_SUPPORTED: (
            f"update the firmware of the NICs in {name}, or make its advanced parameters visible",
            (firmware,),
        ),
    }
    if found.code in acts:
        says, effects = acts[found.code]
        yield act(says, together(effects))
    elif found.code in (Code.HOST_SILENT, Code.NO_USABLE_HOST):
        yield act(f"reconnect {name}", back_in_use(moid), f"govc host.reconnect -host {path_of(host)}")
    elif found.code in _HELD:
        yield from _holders(situation, host, found.message)
    elif found.code == Code.CLUSTER_TOO_FULL:
        yield from _holders(situation, host, "")


def _holders(situation: Situation, host: Host, message: str) -> Iterator[Candidate]:
    """VMs on a host that keep it from being prepared: away, off, or without the device."""
    here = situation.observed.vms_by_host.get(host.moid, ())
    named = [vm for vm in here if not message or vm.name in message or vm.is_on]
    concerned = [vm for vm in named if not (vm.is_template or is_protected(situation, vm))]
    running = [vm for vm in concerned if vm.is_on]
    for vm in concerned:
        if vm.is_on:
            yield from move_away(situation, [vm])
            yield switch_off(situation, [vm], host)
        if vm.detail is not None and vm.detail.passthrough:
            says = f"have the owner remove the passthrough device from {vm.name}"
            off = carried_out([existing_vms.switch_off(vm)], situation.catalog)
            effect = together((off, set_in_detail(vm.moid, passthrough=())))
            yield act(says, effect, cost=Cost.POWER_CYCLE, touches=(vm.moid,))
    if len(running) > 1:
        yield from move_away(situation, running)
        yield switch_off(situation, running, host)
    cluster = situation.observed.cluster_by_moid.get(host.cluster_moid or "")
    if cluster is not None and (not cluster.drs_enabled or cluster.drs_behavior != "fullyAutomated"):
        yield act(
            f"set DRS in {cluster.name} to fully automated",
            set_in_cluster(cluster.moid, drs_enabled=True, drs_behavior="fullyAutomated"),
            f"govc cluster.change -drs-enabled -drs-mode fullyAutomated {quote(cluster.inventory_path)}",
        )
    for nic in host.nics:
        if nic.device in message and "vSwitch" in message:
            yield _off_its_switch(host, nic.device)


def _newer_firmware(situation: Situation, host: Host) -> Effect:
    """Let the NICs of a host know the parameters that the plan file names, as firmware has them at first."""
    value = FirmwareValue(default="False(0)", current="False(0)", next_boot="False(0)")
    entries = situation.entries_for(host.name)
    asked = {key: value for entry in entries for rule in entry.nics for key in rule.firmware}

    def newer(shell: ShellFacts) -> ShellFacts:
        known = {nic.pci_id: {**asked, **shell.firmware.get(nic.pci_id, {})} for nic in host.nics}
        return shell.model_copy(update={"firmware": known})

    return change_shell(host.moid, newer)


def _unowned(host: Host, observed: Inventory) -> Inventory:
    """Return an estate whose image and configuration profile own nothing of a host."""
    known = observed.facts.clusters
    moid = host.cluster_moid or ""
    if moid not in known:
        return observed
    freed = known[moid].model_copy(update={"image_managed": False, "config_managed": False})
    return with_facts(observed, clusters={**known, moid: freed})
