"""Hosts and VMs of all owners that an upgrade affects, and the steps that must come first.

A VM of a host that goes down moves by vMotion, must be powered off, or stays until its owner acts.
DRS is assumed to be fully automated and to move VMs with vGPUs; steps that are missing for that come first.

Belief: guests-of-old-branches, guests-of-other-branches, drs-empties-hosts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vgpu_cfg.catalog.version_pairs import load_driver_branches
from vgpu_cfg.model.observed.host_facts import ClusterFacts, FactGroup
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, listed, version_tuple
from vgpu_cfg.planning.doctor.patient import Patient, owner_name
from vgpu_cfg.planning.guests.drivers import guest_branches, is_unproven
from vgpu_cfg.planning.host_settings.cluster import EVACUATE_OPTION, EVACUATE_VALUE
from vgpu_cfg.planning.host_settings.esxi import build_number, components_for, wanted_esxi
from vgpu_cfg.planning.host_settings.gpus.driver import (
    Kind,
    branch_of,
    driver_facts,
    wanted_driver,
)
from vgpu_cfg.planning.pool.spare import as_load, left_over, room_of
from vgpu_cfg.planning.vms.lookup.moving import (
    HOT_MIGRATE_OPTION,
    holds_devices,
    may_hot_migrate,
    running_vms,
    stun_ms,
    why_cold,
)

_FULLY_AUTOMATED = "fullyAutomated"


@dataclass(frozen=True, slots=True)
class Target:
    """The software that hosts are to have: a `driver` version, an `esxi` build, or `fixed` versions.

    `fixed` has one version for each branch that a security bulletin names: each host stays in its branch.
    """

    driver: str = ""
    esxi: str = ""
    fixed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The target as a title."""
        drivers = self.driver or listed(self.fixed)
        parts = (("NVIDIA host driver", drivers), ("ESXi build", self.esxi))
        return " and ".join(f"{what} {version}" for what, version in parts if version)

    def driver_for(self, present: str) -> str:
        """Return the version for a host with this driver, "" if none is named for its branch."""
        own = (one for one in self.fixed if branch_of(one) == branch_of(present))
        return next(own, self.driver)


class Fate(StrEnum):
    """The fate of a running VM while its host is upgraded."""

    MOVES = "moves"
    OFF = "power off"
    STAYS = "cannot move"


@dataclass(frozen=True, slots=True)
class AffectedVm:
    """A running VM on an affected host; `stun_ms` is how long vMotion stops it, None if not reported."""

    name: str
    moid: str
    host: str
    owner: str
    fate: Fate
    why: str = ""
    stun_ms: int | None = None
    has_gpu: bool = False


@dataclass(frozen=True, slots=True)
class AffectedHost:
    """A host that lacks the target; `blocked` is the reason that it cannot be upgraded now."""

    name: str
    moid: str
    cluster: str
    datacenter: str
    kind: Kind
    present: str
    target: str
    build: str
    by_image: bool
    vms: tuple[AffectedVm, ...]
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class First:
    """Something to do before the first window; `command` is a line to type, "" if none is known.

    `is_for_owners` is whether owners of VMs must know of it.
    """

    text: str
    command: str = ""
    is_for_owners: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """The estate before an upgrade. `lanes` are how many hosts of a cluster may be down at once, by its name.

    `has_it` counts hosts that have the target already, and `proven` are the clusters with such a host.
    `unknown` names hosts whose driver was not read.
    """

    target: Target
    hosts: tuple[AffectedHost, ...]
    firsts: tuple[First, ...]
    lanes: dict[str, int]
    has_it: int = 0
    unknown: tuple[str, ...] = ()
    proven: frozenset[str] = frozenset()

    @property
    def ready(self) -> tuple[AffectedHost, ...]:
        """The hosts that can be upgraded."""
        return tuple(host for host in self.hosts if not host.blocked)

    @property
    def vms(self) -> tuple[AffectedVm, ...]:
        """The running VMs on all affected hosts."""
        return tuple(vm for host in self.hosts for vm in host.vms)


def assess(patient: Patient, target: Target, hosts: Sequence[Host], *, max_down: int = 1) -> Assessment:
    """Compare hosts with the target; at most `max_down` hosts of a cluster are to be down at once."""
    found: list[AffectedHost] = []
    has_it, unknown, proven = 0, [], set()
    moving = _with_hot_migration(patient.observed)
    for host in sorted(hosts, key=lambda one: as_counted(one.name)):
        facts = patient.facts(host)
        driver = driver_facts(facts.software)
        present = (driver.version or "").partition("-")[0]
        wanted = target.driver_for(present)
        if (target.driver or target.fixed) and FactGroup.SOFTWARE not in facts.groups:
            unknown.append(host.name)
            continue
        is_old = driver.kind is None or not _has(present, wanted) if wanted or target.fixed else False
        if not is_old and not (target.esxi and build_number(host.build) < build_number(target.esxi)):
            has_it += 1
            proven.add(_name_of(patient.observed.cluster_of(host), patient.observed))
            continue
        found.append(_affected(host, patient, moving, driver.kind or "nvd-aie", present, wanted, target))
    by_cluster: dict[str, list[AffectedHost]] = {}
    for one in found:
        by_cluster.setdefault(one.cluster, []).append(one)
    lanes, fitted = {}, []
    for name, group in by_cluster.items():
        count, checked = _with_room(group, patient, 1 if group[0].by_image else max_down)
        lanes[name] = count
        fitted += checked
    in_order = sorted(fitted, key=lambda one: as_counted(one.name))
    firsts = tuple(_firsts(in_order, patient, target))
    return Assessment(target, tuple(in_order), firsts, lanes, has_it, tuple(unknown), frozenset(proven))


def _has(present: str, wanted: str) -> bool:
    """Whether a version is the wanted one or a later one; 570.133 means any release of 570.133."""
    return bool(wanted) and version_tuple(present) >= version_tuple(wanted)


def _affected(
    host: Host, patient: Patient, moving: Inventory, kind: Kind, present: str, wanted: str, target: Target
) -> AffectedHost:
    """Describe a host; `moving` is the inventory with the options by which its VMs will move."""
    cluster = patient.observed.cluster_of(host)
    facts = patient.observed.facts.clusters.get(host.owner_moid, ClusterFacts())
    vms = tuple(_affected_vm(vm, host, cluster, facts, moving) for vm in running_vms(host, patient.observed))
    return AffectedHost(
        name=host.name,
        moid=host.moid,
        cluster=_name_of(cluster, patient.observed),
        datacenter=host.datacenter,
        kind=kind,
        present=present,
        target=wanted,
        build=host.build,
        by_image=bool(facts.image_managed),
        vms=vms,
        blocked=_blocked(host, patient, present, wanted, target),
    )


def _blocked(host: Host, patient: Patient, present: str, wanted: str, target: Target) -> str:
    """Return the reason that a host cannot be upgraded now."""
    mark = host.mark
    if host.connection is not Connection.CONNECTED:
        return f"it {host.connection.words}"
    if mark is not None:
        return f"plan {mark.plan} is changing it"
    if host.is_in_maintenance_mode:
        return "it is in maintenance mode, but not because of vgpu-cfg"
    if (target.driver or target.fixed) and not wanted:
        return f"no version with the fix is specified for branch {branch_of(present) or '?'}"
    facts = patient.observed.facts.clusters.get(host.owner_moid, ClusterFacts())
    if target.esxi and build_number(host.build) < build_number(target.esxi) and not facts.image_managed:
        return "ESXi is upgraded only through an image, but its cluster does not have one"
    known = load_driver_branches()
    branch = known.find(branch_of(wanted))
    for gpu in host.gpus if branch is not None else ():
        board = patient.catalog.of_device(gpu.pci)
        end = known.end_of(board, gpu.name) if not gpu.is_passthrough else None
        if end is not None and branch is not None and branch.release > end.release:
            return (
                f"vGPU {end.release} was the last release to support its {board.key if board else gpu.name}"
            )
    image = facts.image
    if image is not None and image.manager:
        return f"{image.manager} manages the image of its cluster"
    if image is not None and (last := image.hosts.get(host.moid)) is not None and last.is_refused:
        return f"according to vCenter's last check, its cluster's image cannot be applied to it: {last.words}"
    before, after = guest_branches(branch_of(present)), guest_branches(branch_of(wanted))
    vms = patient.observed.vms_by_host.get(host.moid, ())
    has_guests = any(vm.detail is not None and vm.detail.vgpus for vm in vms)
    if has_guests and before and after and not set(before) & set(after):
        return f"no guest driver runs on both R{branch_of(present)} and R{branch_of(wanted)}"
    return ""


def _affected_vm(
    vm: Vm, host: Host, cluster: Cluster | None, facts: ClusterFacts, moving: Inventory
) -> AffectedVm:
    detail = vm.detail
    fate, why = _fate(vm, cluster, facts, moving)
    return AffectedVm(
        name=vm.name,
        moid=vm.moid,
        host=host.name,
        owner=owner_name(vm),
        fate=fate,
        why=why,
        stun_ms=stun_ms(detail, host) if detail is not None and fate is Fate.MOVES else None,
        has_gpu=detail is not None and bool(detail.vgpus or detail.passthrough_gpus),
    )


def _name_of(cluster: Cluster | None, observed: Inventory) -> str:
    """Return a cluster as a plan file names it, by its path if need be; "" for a standalone host."""
    if cluster is None or cluster.is_standalone:
        return ""
    is_unique = sum(one.name == cluster.name for one in observed.clusters) == 1
    return cluster.name if is_unique else cluster.inventory_path


def _with_hot_migration(observed: Inventory) -> Inventory:
    """Return the inventory with hot migration of vGPUs, which plan files enable."""
    options = {**observed.facts.vcenter_options, HOT_MIGRATE_OPTION: "true"}
    return observed.model_copy(
        update={"facts": observed.facts.model_copy(update={"vcenter_options": options})}
    )


def _fate(vm: Vm, cluster: Cluster | None, facts: ClusterFacts, observed: Inventory) -> tuple[Fate, str]:
    detail = vm.detail
    if detail is None:
        return Fate.STAYS, "this account cannot read the VM's devices"
    if why := why_cold(detail, observed):
        return Fate.OFF, why
    if cluster is None or cluster.is_standalone or len(cluster.host_moids) < 2:
        return Fate.OFF, "its cluster has no other host"
    override = facts.drs_overrides.get(vm.moid, _FULLY_AUTOMATED)
    if override != _FULLY_AUTOMATED:
        return Fate.STAYS, f"the cluster has a VM override for it: {override}"
    return Fate.MOVES, ""


def _with_room(
    group: Sequence[AffectedHost], patient: Patient, max_down: int
) -> tuple[int, list[AffectedHost]]:
    """Return how many hosts of a cluster may be down at once, and its hosts; VMs without room must be off."""
    observed = patient.observed
    cluster = observed.cluster_of(observed.host_by_moid[group[0].moid])
    if not group[0].cluster or cluster is None:
        return max_down, list(group)
    there = [host for host in observed.hosts if host.owner_moid == cluster.moid and host.takes_vms]
    rooms = [room_of(host, patient.capacity(host), observed) for host in there]

    def lost(hosts: Sequence[AffectedHost], vms: Sequence[tuple[Vm, VmDetail]]) -> dict[str, str]:
        down = {host.moid for host in hosts}
        free = [room.copy() for room in rooms if room.host.moid not in down]
        loads = [as_load(vm, detail, cluster) for vm, detail in vms]
        left = left_over(loads, free, patient.reader)
        return {load.vm.moid: why for load, why in left if load.vm is not None}

    checked, moving = [], []
    for host in group:
        vms = _moving(host, observed)
        without_room = lost([host], vms) if vms else {}
        checked.append(
            replace(
                host,
                vms=tuple(
                    replace(
                        vm, fate=Fate.OFF, why=f"on every other host: {without_room[vm.moid]}", stun_ms=None
                    )
                    if vm.moid in without_room
                    else vm
                    for vm in host.vms
                ),
            )
        )
        moving.append([one for one in vms if one[0].moid not in without_room])
    count = max(1, min(max_down, len(there) - 1))
    while count > 1 and any(
        lost(checked[at : at + count], [vm for vms in moving[at : at + count] for vm in vms])
        for at in range(max(1, len(checked) - count + 1))
    ):
        count -= 1
    return count, checked


def _moving(host: AffectedHost, observed: Inventory) -> list[tuple[Vm, VmDetail]]:
    moving = {vm.moid for vm in host.vms if vm.fate is Fate.MOVES}
    return [
        (vm, vm.detail)
        for vm in observed.vms_by_host.get(host.moid, ())
        if vm.moid in moving and vm.detail is not None and holds_devices(vm.detail)
    ]


def _firsts(hosts: Sequence[AffectedHost], patient: Patient, target: Target) -> Iterator[First]:
    ready = [host for host in hosts if not host.blocked]
    for before, after in sorted({(branch_of(one.present), branch_of(one.target)) for one in ready}):
        if before and after and before != after:
            yield from _guests_first(before, after)
    yield from _images_first([host for host in ready if host.by_image], patient.observed, target)
    moved = {host.cluster for host in ready if any(vm.fate is Fate.MOVES for vm in host.vms)}
    with_vgpus = {
        host.cluster for host in ready if any(vm.fate is Fate.MOVES and vm.has_gpu for vm in host.vms)
    }
    facts = patient.observed.facts
    manual = [
        cluster
        for cluster, _ in patient.clusters()
        if _name_of(cluster, patient.observed) in moved
        and not (cluster.drs_enabled and cluster.drs_behavior == _FULLY_AUTOMATED)
    ]
    if manual:
        names = [_name_of(cluster, patient.observed) for cluster in manual]
        yield First(
            f"Set DRS to fully automated during the windows; it does not evacuate hosts in "
            f"{fold_names(names)}",
            shlex.join(["govc", "cluster.change", "-drs-enabled", "-drs-mode=fullyAutomated", *names]),
        )
    lacking = sorted(
        name
        for cluster, _ in patient.clusters()
        if (name := _name_of(cluster, patient.observed)) in with_vgpus
        and facts.clusters.get(cluster.moid, ClusterFacts()).drs_options.get(EVACUATE_OPTION)
        != EVACUATE_VALUE
    )
    if with_vgpus and not may_hot_migrate(patient.observed):
        yield First(f"vMotion of VMs with vGPUs is off; the plan files set {HOT_MIGRATE_OPTION} to true")
    if lacking:
        yield First(
            f"Maintenance mode does not move VMs with vGPUs in {fold_names(lacking)}; "
            f"the plan files set {EVACUATE_OPTION} to {EVACUATE_VALUE}"
        )


def _images_first(hosts: Sequence[AffectedHost], observed: Inventory, target: Target) -> Iterator[First]:
    """Yield the import that images need, and other components that their hosts change."""
    lacking: set[str] = set()
    also: dict[str, list[str]] = {}
    for host in hosts:
        image = observed.facts.clusters.get(observed.host_by_moid[host.moid].owner_moid, ClusterFacts()).image
        wanted = [wanted_driver(host.kind, host.target, "image")] if host.target else []
        wanted += [wanted_esxi(target.esxi)] if target.esxi else []
        parts = [components_for(image, one) for one in wanted] if image is not None else []
        found = {name for one in parts for name in one}
        if not all(parts) or not parts:
            lacking.add(host.cluster)
        last = image.hosts.get(host.moid) if image is not None else None
        for name in last.differs if last is not None else ():
            if name not in found:
                also.setdefault(name, []).append(host.name)
    if lacking and target.words:
        yield First(
            f"Import {target.words} in Lifecycle Manager: the image of {listed(sorted(lacking), shown=6)} "
            "uses the imported copy"
        )
    for name, names in also.items():
        yield First(
            f"Remediation also changes {name} on {fold_names(names)}: not compliant at the last check"
        )


def _guests_first(before: str, after: str) -> Iterator[First]:
    """Yield the order of hosts and guests by NVIDIA's rule, and the required license server."""
    known = load_driver_branches()
    now, then = guest_branches(before), guest_branches(after)
    if not then:
        yield First(f"R{after} is not a documented branch: check which guest drivers it supports")
        return
    proven = [one for one in then if not is_unproven(after, one)]
    refused = [one for one in now if one not in then and not is_unproven(before, one)]
    both = [one for one in proven if one in now]
    if refused and both:
        yield First(
            f"Guests with a driver from R{', R'.join(refused)} must first be updated to "
            f"R{' or R'.join(both)}, "
            f"which hosts on R{before} and R{after} support; vCenter does not report guest drivers: "
            "run nvidia-smi in the guests",
            is_for_owners=True,
        )
    else:
        yield First(
            (
                f"Upgrade the hosts first: R{after} supports guests on R{', R'.join(proven)}; then upgrade "
                "the guests"
            ),
            is_for_owners=True,
        )
    present, coming = known.find(before), known.find(after)
    if present is not None and coming is not None and present.release < 15 <= coming.release:
        yield First(f"License server: {known.licence_servers.note}")
    yield First(
        f"While a cluster has hosts on R{before} and R{after}, vMotion from the newer to the older may fail; "
        "complete each cluster in as few windows as possible"
    )
