"""Acts outside of the plan file: in vCenter, on a host, by the owner of another VM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from shlex import join, quote

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import MarkVm
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.model.observed.drs import ClusterRule, VmHostRule
from vgpu_cfg.model.observed.host_facts import FirmwareValue, HostFacts
from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, Host, Inventory, Network
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms import existing_vms
from vgpu_cfg.planning.vms.import_vms import make_import_plan, with_marks
from vgpu_cfg.suggestions.acts import (
    NEWEST_ESXI,
    NEWEST_HARDWARE,
    back_in_use,
    carried_out,
    change_facts,
    change_host,
    gone,
    path_of,
    served_by_driver,
    set_in_cluster,
    set_in_detail,
    set_in_facts,
    set_in_host,
    set_in_shell,
    set_in_vm,
    together,
    updated,
    with_folders,
    with_network,
)
from vgpu_cfg.suggestions.candidate import Candidate, Cost, Effect
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


def propose_acts(situation: Situation) -> Iterator[Candidate]:
    """Yield what people do in vCenter and on hosts against such errors."""
    yield from _names(situation)
    yield from _taken_in(situation)
    yield from _allowed(situation)
    yield from _templates(situation)
    yield from _hosts(situation)
    yield from _prepared_hosts(situation)
    yield from _objects(situation)
    yield from _rules(situation)


def _act(says: str, effect: Effect, command: str = "", cost: Cost = Cost.WORK) -> Candidate:
    return Candidate(FixKind.OUTSIDE, says, cost, command=command, effect=effect)


def _on_empty(host: Host, says: str, change: Callable[[Host], Host]) -> Candidate:
    """Change a host that must be empty for it."""
    effect = change_host(host.moid, change)
    return Candidate(FixKind.OUTSIDE, says, Cost.WORK, effect=effect, empties=(host.moid,))


# --- names and marks


def _names(situation: Situation) -> Iterator[Candidate]:
    """VMs at the places of the plan's, or VMs of the plan at other places."""
    for found in situation.errors(Code.NOT_OURS, Code.MARK_DISAGREES):
        for wanted in situation.vms(found):
            folder = situation.site.folder_of(wanted)
            for vm in situation.observed.vms:
                is_here = folder is not None and vm.folder_moid == folder.moid
                if is_here and vm.name.casefold() == wanted.name.casefold():
                    new = f"{vm.name}-other"
                    yield _act(
                        f"have the owner rename the existing VM {vm.name}",
                        set_in_vm(vm.moid, name=new),
                        f"govc object.rename {path_of(vm)} {quote(new)}",
                    )
                elif vm.mark is not None and (vm.mark.plan, vm.mark.vm) == (
                    situation.desired.name,
                    wanted.name,
                ):
                    home = folder.moid if folder is not None else vm.folder_moid
                    yield _act(
                        f"restore the name and folder of {vm.name}",
                        set_in_vm(vm.moid, name=wanted.name, folder_moid=home),
                        f"govc object.rename {path_of(vm)} {quote(wanted.name)}",
                    )


def _allowed(situation: Situation) -> Iterator[Candidate]:
    """Yield the word that VMs which were imported may be deleted."""
    for found in situation.errors(Code.IMPORTED_MAY_NOT_GO):
        vm = situation.observed.vm_by_moid.get(found.subject.moid or "")
        if vm is not None and vm.mark is not None:
            words = ["vgpu-cfg", "import", situation.plan_path, "--may-destroy", f"--only={vm.name}"]
            mark = vm.mark.model_copy(update={"is_imported": False})
            yield _act(f"allow the deletion of {vm.name}", set_in_vm(vm.moid, mark=mark), join(words))


def _taken_in(situation: Situation) -> Iterator[Candidate]:
    """Yield the import of the VMs there without an owner, all at once: searches are bounded."""
    names = {vm.name for found in situation.errors(Code.NOT_OURS) for vm in situation.vms(found)}
    if not names:
        return
    desired, observed = situation.desired, situation.observed
    all_of_file = make_import_plan(desired, observed, PlanOptions())
    taken = tuple(
        change.vm.name for change in of_kind(all_of_file.changes, MarkVm) if change.vm.name in names
    )
    plan = make_import_plan(desired, observed, PlanOptions(only=taken))
    if taken and plan.changes and not plan.errors:
        is_whole = len(taken) == len(all_of_file.changes) and not all_of_file.errors
        only = () if is_whole else (f"--only={name}" for name in taken)
        folded = fold_names(taken)
        yield _act(
            f"import the existing VM {folded}" if len(taken) == 1 else f"import the existing VMs: {folded}",
            partial(with_marks, plan),
            join(["vgpu-cfg", "import", situation.plan_path, *only]),
        )


# --- templates and VMs


def _templates(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.TEMPLATE_IS_BIOS, Code.OPTION_NEEDS_EFI):
        template = situation.site.template_of(vm)
        if template is not None:
            says = f"reinstall the OS in the template {template.name} in EFI mode"
            yield _act(says, set_in_detail(template.moid, firmware="efi"))
    for vm in situation.lines(Code.TEMPLATE_WITHOUT_SNAPSHOT):
        template = situation.site.template_of(vm)
        if template is not None:
            yield _act(
                f"convert {template.name} to a VM and take a snapshot",
                set_in_detail(template.moid, snapshot_moid="snapshot-new"),
                f"govc snapshot.create -vm {path_of(template)} base",
            )
    for vm in situation.lines(Code.FIRMWARE_IS_BIOS, Code.GUEST_NO_WAY_IN, Code.SET_AT_CREATION_ONLY):
        existing = situation.vm(vm.name)
        if existing is not None:
            yield _act(
                f"have the owner delete {existing.name}; the plan then recreates it",
                gone(existing, situation.catalog),
                f"govc vm.destroy {path_of(existing)}",
                Cost.POWER_CYCLE,
            )
    for vm in situation.lines(Code.GUEST_NO_WAY_IN):
        own = [
            found for one in situation.desired.vms if one.line == vm.line if (found := situation.vm(one.name))
        ]
        if own:
            names = ", ".join(found.name for found in own)
            says = f"have the owner delete {names}; the plan then recreates them"
            effect = together(gone(one, situation.catalog) for one in own)
            yield _act(says, effect, cost=Cost.POWER_CYCLE)


# --- hosts


def _hosts(situation: Situation) -> Iterator[Candidate]:
    """Yield acts on the hosts of VMs with errors, or of their possible places."""
    for host in _concerned(situation):
        yield from _updates(situation, host)
    for host in _concerned(situation):
        yield from _drivers(situation, host)
    if any(situation.errors(Code.NVLINK_GROUP_ABSENT)):
        for host in _concerned(situation):
            says = f"install NVIDIA's GPU management daemon on {host.name} to create the device groups"
            yield _on_empty(host, says, partial(_with_groups, situation))
    if any(situation.errors(Code.LATENCY_NEEDS_CPU)):
        for host in _concerned(situation):
            if not host.cpu_mhz:
                says = f"make sure that {host.name} is connected and reports its CPU clock rate"
                yield _act(says, together((back_in_use(host.moid), set_in_host(host.moid, cpu_mhz=2000))))
    if any(situation.errors(Code.NIC_HOSTS_OWN)):
        for host in _concerned(situation):
            for nic in host.nics:
                says = f"remove {nic.device} on {host.name} from its switch"
                yield _act(says, _off_its_switch(host, nic.device))
    waiting = (Code.PASSTHROUGH_NOT_ACTIVE, Code.RESTART_PENDING, Code.NIC_NOT_READY)
    if any(situation.errors(*waiting)):
        for host in _concerned(situation):
            yield Candidate(
                FixKind.OUTSIDE,
                f"restart {host.name} to activate passthrough",
                Cost.HOST_RESTART,
                command=f"govc host.shutdown -r {path_of(host)}",
                effect=change_host(host.moid, _restarted),
                empties=(host.moid,),
            )


def _updates(situation: Situation, host: Host) -> Iterator[Candidate]:
    is_newest = host.version >= NEWEST_ESXI and (host.max_hardware_version or 0) >= NEWEST_HARDWARE
    if any(situation.errors(*_NEWER_ESXI)) and not is_newest:
        profiles = [one.name for vm in situation.desired.vms for gpu in vm.gpus for one in gpu.profile]
        says = f"update {host.name} from ESXi {host.version} to {NEWEST_ESXI} or later"
        yield _on_empty(host, says, partial(updated, known=profiles))


def _drivers(situation: Situation, host: Host) -> Iterator[Candidate]:
    without_driver = (Code.NO_HOST_DRIVER, Code.NOT_SHARED_DIRECT, Code.PROFILE_NOT_OFFERED)
    if any(situation.errors(*without_driver)) or (situation.unplaced and situation.lacks_driver(host)):
        says = f"install NVIDIA's host driver on {host.name}, with graphics type Shared Direct"
        if host.creatable_profiles:
            says = f"update NVIDIA's host driver on {host.name} to a version that supports these profiles"
        names = tuple(_profiles_of(situation, host))
        yield _on_empty(host, says, partial(served_by_driver, names=names))


def _off_its_switch(host: Host, device: str) -> Effect:
    def off(observed: Inventory) -> Inventory:
        switches = tuple(
            one.model_copy(
                update={
                    "members": {
                        moid: tuple(up for up in uplinks if moid != host.moid or up != device)
                        for moid, uplinks in one.members.items()
                    }
                }
            )
            for one in observed.facts.switches
        )
        facts = observed.facts.model_copy(update={"switches": switches})
        return observed.model_copy(update={"facts": facts})

    return together((off, change_facts(host.moid, _without_uplink(device))))


def _restarted(host: Host) -> Host:
    """Return a host whose passthrough is as it was configured."""
    devices = {
        one.pci_id: one.model_copy(update={"passthrough_active": one.passthrough_enabled})
        for one in host.pci_devices
    }
    gpus = tuple(
        gpu.model_copy(
            update={
                "pci": devices.get(gpu.pci_id, gpu.pci),
                "graphics_type": None
                if devices.get(gpu.pci_id, gpu.pci).passthrough_active
                else gpu.configured_graphics_type,
            }
        )
        for gpu in host.gpus
    )
    nics = tuple(
        nic for nic in host.nics if not (nic.pci_id in devices and devices[nic.pci_id].passthrough_active)
    )
    return host.model_copy(update={"pci_devices": tuple(devices.values()), "gpus": gpus, "nics": nics})


def _with_groups(situation: Situation, host: Host) -> Host:
    groups: list[DeviceGroupInfo] = []
    for vm in situation.desired.vms:
        sizes: dict[tuple[int, str], int] = {}
        for gpu in vm.gpus:
            if gpu.nvlink and gpu.profile:
                key = (int(gpu.nvlink), gpu.profile[0].name)
                sizes[key] = sizes.get(key, 0) + 1
        for (_, profile), count in sizes.items():
            name = f"Nvidia:{count}@{profile}%NVLink"
            groups.append(DeviceGroupInfo.of_peers(name, profile, count, "NVLink"))
    return host.model_copy(update={"device_groups": (*host.device_groups, *groups)})


def _concerned(situation: Situation) -> list[Host]:
    """Return the hosts where VMs with errors are, or could be placed."""
    moids = {one.host_moid for one in situation.plan.placements}
    wanted = {host.moid for host in situation.hosts_in_question()}
    return [host for host in situation.observed.hosts if host.moid in wanted | moids]


def _profiles_of(situation: Situation, host: Host) -> Iterator[str]:
    for gpu in host.gpus:
        board = situation.board_of(gpu)
        if board is not None:
            yield from (entry.name for entry in board.profiles if entry.profile.sharing is not Sharing.MIG)


# --- hosts that the plan prepares


def _prepared_hosts(situation: Situation) -> Iterator[Candidate]:
    for found in situation.in_the_way:
        host = situation.host(found.subject.name) if found.subject.kind == "host" else None
        if host is not None:
            yield from _prepared(situation, host, found)


def _prepared(situation: Situation, host: Host, found: Diagnostic) -> Iterator[Candidate]:
    """Yield the acts against a finding about a host."""
    name, moid = host.name, host.moid
    match found.code:
        case Code.HOST_SILENT | Code.NO_USABLE_HOST:
            yield _act(f"reconnect {name}", back_in_use(moid), f"govc host.reconnect -host {path_of(host)}")
        case Code.LOCKDOWN:
            says = f"disable lockdown mode on {name} during the work"
            yield _act(says, set_in_facts(moid, lockdown="lockdownDisabled"))
        case Code.OTHERS_MAINTENANCE:
            says = f"finish the other plan's work on {name}: rerun its `vgpu-cfg apply`"
            yield _act(says, together((set_in_facts(moid, mark=None), back_in_use(moid))))
        case Code.SETTING_OWNED:
            says = f"detach the host profile or cluster image that manages the settings of {name}"
            yield _act(says, together((set_in_facts(moid, owners=()), _unowned(host))))
        case Code.SETTING_UNREAD:
            says = f"make the shell of {name} accessible: {found.message}"
            answers = together((set_in_facts(moid, unread={}), set_in_shell(moid, unread={})))
            yield _act(says, together((answers, _newer_firmware(situation, host))))
        case Code.NO_FIRMWARE_TOOLS:
            tools = set_in_shell(moid, has_firmware_tools=True)
            effect = together((tools, _newer_firmware(situation, host)))
            yield _act(f"install NVIDIA's firmware tools on {name}", effect)
        case Code.NIC_IN_USE | Code.GPU_SERVES_VGPUS | Code.HOST_NOT_EMPTIED | Code.NIC_CUT_OFF:
            yield from _holders(situation, host, found.message)
        case Code.CLUSTER_TOO_FULL:
            yield from _holders(situation, host, "")
        case Code.NOT_SUPPORTED:
            says = f"update the firmware of the NICs in {name}, or make its advanced parameters visible"
            yield _act(says, _newer_firmware(situation, host))
        case _:
            pass


def _holders(situation: Situation, host: Host, message: str) -> Iterator[Candidate]:
    """VMs on a host that keep it from being prepared: away, off, or without the device."""
    here = situation.observed.vms_by_host.get(host.moid, ())
    concerned = [
        vm
        for vm in here
        if not (vm.is_template or is_protected(situation, vm))
        and (not message or vm.name in message or vm.is_on)
    ]
    running = [vm for vm in concerned if vm.is_on]
    for vm in concerned:
        if vm.is_on:
            yield from move_away(situation, [vm])
            yield switch_off(situation, [vm], host)
        if vm.detail is not None and vm.detail.passthrough:
            says = f"have its owner remove the passthrough device from {vm.name}"
            off = carried_out([existing_vms.switch_off(vm)], situation.catalog)
            effect = together((off, set_in_detail(vm.moid, passthrough=())))
            yield Candidate(FixKind.OUTSIDE, says, Cost.POWER_CYCLE, effect=effect, touches=(vm.moid,))
    if len(running) > 1:
        yield from move_away(situation, running)
        yield switch_off(situation, running, host)
    cluster = situation.observed.cluster_by_moid.get(host.cluster_moid or "")
    if cluster is not None and (not cluster.drs_enabled or cluster.drs_behavior != "fullyAutomated"):
        yield _act(
            f"set DRS in {cluster.name} to fully automated",
            set_in_cluster(cluster.moid, drs_enabled=True, drs_behavior="fullyAutomated"),
            f"govc cluster.change -drs-enabled -drs-mode fullyAutomated {quote(cluster.inventory_path)}",
        )
    for nic in host.nics:
        if nic.device in message and "vSwitch" in message:
            says = f"remove {nic.device} on {host.name} from its switch"
            yield _act(says, change_facts(host.moid, _without_uplink(nic.device)))


def _without_uplink(device: str) -> Callable[[HostFacts], HostFacts]:
    def change(facts: HostFacts) -> HostFacts:
        switches = tuple(
            one.model_copy(update={"uplinks": tuple(up for up in one.uplinks if up != device)})
            for one in facts.switches
        )
        return facts.model_copy(update={"switches": switches})

    return change


def _newer_firmware(situation: Situation, host: Host) -> Effect:
    """Let the NICs of a host know the parameters that the plan file names, as firmware has them at first."""
    value = FirmwareValue(default="False(0)", current="False(0)", next_boot="False(0)")
    entries = situation.entries_for(host.name)
    asked = {key: value for entry in entries for rule in entry.nics for key in rule.firmware}

    def newer(facts: HostFacts) -> HostFacts:
        if facts.shell is None:
            return facts
        known = facts.shell.firmware
        firmware = {nic.pci_id: {**asked, **known.get(nic.pci_id, {})} for nic in host.nics}
        return facts.model_copy(update={"shell": facts.shell.model_copy(update={"firmware": firmware})})

    return change_facts(host.moid, newer)


def _unowned(host: Host) -> Effect:
    """Return the effect of an image and a configuration profile that own nothing."""

    def effect(observed: Inventory) -> Inventory:
        known = observed.facts.clusters
        moid = host.cluster_moid or ""
        if moid not in known:
            return observed
        freed = known[moid].model_copy(update={"image_managed": False, "config_managed": False})
        facts = observed.facts.model_copy(update={"clusters": {**known, moid: freed}})
        return observed.model_copy(update={"facts": facts})

    return effect


# --- networks, datastores, key providers


def _objects(situation: Situation) -> Iterator[Candidate]:
    if any(situation.errors(Code.KEY_PROVIDER_ABSENT)):
        says = (
            "add a key provider in vCenter (Configure > Key Providers; a native key provider is sufficient)"
        )
        yield _act(says, _with_key_provider)
    yield from _folders(situation)
    if any(situation.errors(Code.NETWORK_NOT_FOUND)):
        known = {one.name for one in situation.observed.networks}
        for name in dict.fromkeys(_network_names(situation)):
            if name not in known:
                path = situation.site.networks[0].inventory_path if situation.site.networks else ""
                made = Network(
                    moid=f"network-new-{name}",
                    name=name,
                    inventory_path=f"{path.rpartition('/')[0]}/{name}" if path else "",
                )
                yield _act(
                    f"create the port group {name} on the hosts",
                    with_network(made, _concerned(situation) or situation.observed.hosts),
                    f"govc host.portgroup.add -vswitch vSwitch0 {quote(name)}",
                )
    for vm in situation.lines(Code.NETWORK_NOT_ON_HOST):
        for nic in vm.nics:
            network = situation.site.network_of(vm, nic.network) if nic.network else None
            if network is not None:
                says = f"add the network {network.name} to the hosts of {vm.line}"
                yield _act(says, with_network(network, situation.hosts_of(vm)))
    for vm in situation.lines(Code.DATASTORE_NOT_ON_HOST):
        datastore = situation.site.datastore_of(vm)
        if datastore is not None:
            says = f"mount the datastore {datastore.name} on the hosts of {vm.line}"
            mounted = (
                set_in_host(host.moid, datastore_moids=host.datastore_moids | {datastore.moid})
                for host in situation.hosts_of(vm)
            )
            yield _act(says, together(mounted))


def _with_key_provider(observed: Inventory) -> Inventory:
    vcenter = observed.vcenter.model_copy(update={"key_providers": ("native",)})
    return observed.model_copy(update={"vcenter": vcenter})


def _folders(situation: Situation) -> Iterator[Candidate]:
    """VM folders that the file names and that are missing, with their parents."""
    roots = [folder for folder in situation.site.folders if folder.is_root]
    if len(roots) != 1:
        return
    root, known = roots[0], {folder.inventory_path for folder in situation.site.folders}
    wanted = {vm.folder for vm in situation.lines(Code.FOLDER_NOT_FOUND) if vm.folder}
    for folder in sorted(wanted):
        names = folder.removeprefix(f"{root.inventory_path}/").split("/")
        if not all(names):
            continue
        paths = ("/".join((root.inventory_path, *names[: length + 1])) for length in range(len(names)))
        missing = [path for path in paths if path not in known]
        command = join(("govc", "folder.create", *missing))
        yield _act(f"create the VM folder {folder}", with_folders(missing, root), command)


def _network_names(situation: Situation) -> Iterable[str]:
    for vm in situation.desired.vms:
        yield from (nic.network for nic in vm.nics if nic.network)
    for entry in situation.desired.hosts:
        yield from (vmknic.network for vmknic in entry.vmknics)
    yield from (network.name for network in situation.desired.networks if not network.switch)


# --- rules and groups of DRS


def _rules(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.RULE_OF_OTHERS):
        for cluster in situation.site.clusters_of(vm):
            known: tuple[ClusterRule | VmHostRule, ...] = (*cluster.rules, *cluster.host_rules)
            for rule in known:
                says = f"disable the DRS rule {rule.name} in {cluster.name}"
                off = rule.model_copy(update={"is_enabled": False})
                rules = tuple(off if one == rule else one for one in cluster.rules)
                host_rules = tuple(off if one == rule else one for one in cluster.host_rules)
                yield _act(says, set_in_cluster(cluster.moid, rules=rules, host_rules=host_rules))
    for vm in situation.lines(Code.HOST_FORBIDDEN, Code.RULE_OF_OTHERS):
        existing = situation.vm(vm.name)
        if existing is None:
            continue
        source = situation.observed.host_by_moid.get(existing.host_moid or "")
        for host in situation.hosts_of(vm):
            is_near = source is not None and source.compute_moid == host.compute_moid
            if is_near and host != source and host.is_usable:
                yield from move_away(situation, [existing], to={existing.moid: host.moid})
    for vm in situation.lines(Code.HOST_GROUP_UNUSABLE):
        for cluster in situation.site.clusters_of(vm):
            for group in cluster.host_groups:
                if not vm.place.host_group or group.name.casefold() != vm.place.host_group.casefold():
                    continue
                for host in situation.observed.hosts:
                    if host.cluster_moid != cluster.moid or not host.is_usable:
                        continue
                    if host.moid in group.host_moids:
                        continue
                    says = f"add {host.name} to the host group {group.name} in vCenter"
                    groups = tuple(
                        one.model_copy(update={"host_moids": (*one.host_moids, host.moid)})
                        if one.name == group.name
                        else one
                        for one in cluster.host_groups
                    )
                    yield _act(says, set_in_cluster(cluster.moid, host_groups=groups))
