"""Acts in vCenter: on VMs, templates, networks, datastores, folders, key providers, and the rules of DRS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from shlex import join, quote

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import MarkVm
from vgpu_cfg.model.observed.drs import ClusterRule, VmHostRule
from vgpu_cfg.model.observed.inventory import Inventory, Network
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.ownership import make_import_plan, with_marks
from vgpu_cfg.suggestions.acts import (
    gone,
    path_of,
    set_in_cluster,
    set_in_detail,
    set_in_host,
    set_in_vm,
    together,
    with_folders,
    with_network,
)
from vgpu_cfg.suggestions.candidate import Candidate, Cost, act
from vgpu_cfg.suggestions.proposals.room import move_away
from vgpu_cfg.suggestions.situation import Situation


def propose_acts_in_vcenter(situation: Situation) -> Iterator[Candidate]:
    """Yield acts of people who administer vCenter."""
    if any(situation.errors(Code.KEY_PROVIDER_ABSENT)):
        says = (
            "add a key provider in vCenter (Configure > Key Providers; a native key provider is sufficient)"
        )
        yield act(says, _with_key_provider)
    yield from _folders(situation)
    yield from _networks(situation)
    yield from _datastores(situation)
    yield from _rules(situation)
    yield from _allowed_hosts(situation)
    yield from _host_groups(situation)


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
        yield act(f"create the VM folder {folder}", with_folders(missing, root), command)


def _networks(situation: Situation) -> Iterator[Candidate]:
    """Networks that the file names: made, and added to hosts that lack them."""
    if any(situation.errors(Code.NETWORK_NOT_FOUND)):
        known = {one.name for one in situation.observed.networks}
        first = next(iter(situation.site.networks), None)
        folder = first.inventory_path.rpartition("/")[0] if first is not None else ""
        hosts = situation.concerned_hosts() or situation.observed.hosts
        for name in dict.fromkeys(_network_names(situation)):
            if name not in known:
                path = f"{folder}/{name}" if first is not None else ""
                made = Network(moid=f"network-new-{name}", name=name, inventory_path=path)
                words = f"-vswitch vSwitch0 {quote(name)}"
                lines = [f"govc host.portgroup.add -host {host.name} {words}" for host in hosts]
                says = f"create the port group {name} on the hosts"
                yield act(says, with_network(made, hosts), lines[0], then=lines[1:])
    for vm in situation.lines(Code.NETWORK_NOT_ON_HOST):
        for nic in vm.nics:
            network = situation.site.network_of(vm, nic.network) if nic.network else None
            if network is not None:
                says = f"add the network {network.name} to the hosts of {vm.line}"
                yield act(says, with_network(network, situation.hosts_of(vm)))


def _network_names(situation: Situation) -> Iterable[str]:
    for vm in situation.desired.vms:
        yield from (nic.network for nic in vm.nics if nic.network)
    for entry in situation.desired.hosts:
        yield from (vmknic.network for vmknic in entry.vmknics)
    yield from (network.name for network in situation.desired.networks if not network.switch)


def _datastores(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.DATASTORE_NOT_ON_HOST):
        datastore = situation.site.datastore_of(vm)
        if datastore is not None:
            says = f"mount the datastore {datastore.name} on the hosts of {vm.line}"
            mounted = (
                set_in_host(host.moid, datastore_moids=host.datastore_moids | {datastore.moid})
                for host in situation.hosts_of(vm)
            )
            yield act(says, together(mounted))


def _rules(situation: Situation) -> Iterator[Candidate]:
    """Yield each rule of DRS that could be in the way, switched off."""
    for _, cluster in situation.clusters(Code.RULE_OF_OTHERS):
        known: tuple[ClusterRule | VmHostRule, ...]
        for kind, known in (("rules", cluster.rules), ("host_rules", cluster.host_rules)):
            for rule in known:
                off = rule.model_copy(update={"is_enabled": False})
                rules = tuple(off if one == rule else one for one in known)
                says = f"disable the DRS rule {rule.name} in {cluster.name}"
                yield act(says, set_in_cluster(cluster.moid, **{kind: rules}))


def _allowed_hosts(situation: Situation) -> Iterator[Candidate]:
    """Yield the moves of VMs to hosts of their cluster that no rule forbids."""
    for vm in situation.lines(Code.HOST_FORBIDDEN, Code.RULE_OF_OTHERS):
        existing = situation.vm(vm.name)
        moid = existing.host_moid if existing is not None else None
        source = situation.observed.host_by_moid.get(moid or "")
        if existing is None or source is None:
            continue
        for host in situation.hosts_of(vm):
            if host.compute_moid == source.compute_moid and host != source and host.is_usable:
                yield from move_away(situation, [existing], to={existing.moid: host.moid})


def _host_groups(situation: Situation) -> Iterator[Candidate]:
    """Yield each further host of a cluster for the host group that a VM may run on."""
    for vm, cluster in situation.clusters(Code.HOST_GROUP_UNUSABLE):
        wanted = (vm.place.host_group or "").casefold()
        for group in cluster.host_groups:
            hosts = situation.observed.hosts if wanted == group.name.casefold() else ()
            for host in hosts:
                is_there = host.moid in group.host_moids
                if host.cluster_moid == cluster.moid and host.is_usable and not is_there:
                    grown = group.model_copy(update={"host_moids": (*group.host_moids, host.moid)})
                    groups = tuple(grown if one.name == group.name else one for one in cluster.host_groups)
                    says = f"add {host.name} to the host group {group.name} in vCenter"
                    yield act(says, set_in_cluster(cluster.moid, host_groups=groups))


def propose_acts_on_vms(situation: Situation) -> Iterator[Candidate]:
    """Yield acts of the owners of VMs and templates."""
    yield from _renamed(situation)
    yield from _imported(situation)
    yield from _templates(situation)
    yield from _deleted(situation)


def _renamed(situation: Situation) -> Iterator[Candidate]:
    """VMs at the places of the plan's, or VMs of the plan at other places."""
    for found in situation.errors(Code.NOT_OURS, Code.MARK_DISAGREES):
        for wanted in situation.vms(found):
            folder = situation.site.folder_of(wanted)
            for vm in situation.observed.vms:
                is_here = folder is not None and vm.folder_moid == folder.moid
                mark = (situation.desired.name, wanted.name)
                if is_here and vm.name.casefold() == wanted.name.casefold():
                    new = f"{vm.name}-other"
                    yield act(
                        f"have the owner rename the existing VM {vm.name}",
                        set_in_vm(vm.moid, name=new),
                        f"govc object.rename {path_of(vm)} {quote(new)}",
                    )
                elif vm.mark is not None and (vm.mark.plan, vm.mark.vm) == mark:
                    home = folder.moid if folder is not None else vm.folder_moid
                    yield act(
                        f"restore the name and folder of {vm.name}",
                        set_in_vm(vm.moid, name=wanted.name, folder_moid=home),
                        f"govc object.rename {path_of(vm)} {quote(wanted.name)}",
                    )


def _imported(situation: Situation) -> Iterator[Candidate]:
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
        yield act(
            f"import the existing VM {folded}" if len(taken) == 1 else f"import the existing VMs: {folded}",
            partial(with_marks, plan),
            join(["vgpu-cfg", "import", situation.plan_path, *only]),
        )


def _templates(situation: Situation) -> Iterator[Candidate]:
    for template in situation.templates(Code.TEMPLATE_IS_BIOS, Code.OPTION_NEEDS_EFI):
        says = f"reinstall the OS in the template {template.name} in EFI mode"
        yield act(says, set_in_detail(template.moid, firmware="efi"))
    for template in situation.templates(Code.TEMPLATE_WITHOUT_SNAPSHOT):
        yield act(
            f"convert {template.name} to a VM and take a snapshot",
            set_in_detail(template.moid, snapshot_moid="snapshot-new"),
            f"govc snapshot.create -vm {path_of(template)} base",
        )


def _deleted(situation: Situation) -> Iterator[Candidate]:
    """Yield the deletion of VMs that the plan then creates as they must be: one, or all of a line."""
    for vm in situation.lines(Code.FIRMWARE_IS_BIOS, Code.GUEST_NO_WAY_IN, Code.SET_AT_CREATION_ONLY):
        if (existing := situation.vm(vm.name)) is not None:
            yield act(
                f"have the owner delete {existing.name}; the plan then recreates it",
                gone(existing, situation.catalog),
                f"govc vm.destroy {path_of(existing)}",
                Cost.POWER_CYCLE,
            )
    for vm in situation.lines(Code.GUEST_NO_WAY_IN):
        names = [one.name for one in situation.desired.vms if one.line == vm.line]
        own = [found for name in names if (found := situation.vm(name)) is not None]
        if own:
            says = f"have the owner delete {', '.join(one.name for one in own)}; the plan then recreates them"
            yield act(says, together(gone(one, situation.catalog) for one in own), cost=Cost.POWER_CYCLE)
