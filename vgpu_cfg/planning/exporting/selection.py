"""The VMs and hosts that an export selects (`--cluster`, `--folder`, `--vm`, `--host`), with their DRS rules.

A plan file can express rules that keep VMs apart or on a host group; they are exported from any author.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import read_members, runs_of
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.estate.named import cluster_globs, host_names, vm_names
from vgpu_cfg.planning.exporting.vm_keys import ExportedVm, Names
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.vms.rules import is_of_plan, rule_name


@dataclass(frozen=True, slots=True)
class Choice:
    """Globs of names; of folders, of their paths below the datacenter's VM folder. Empty means all."""

    clusters: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def meant(self, observed: Inventory) -> Choice:
        """Return the same in names of this estate."""
        return replace(
            self,
            clusters=cluster_globs(self.clusters, observed),
            vms=vm_names(self.vms, observed),
            hosts=host_names(self.hosts, observed),
        )

    @property
    def names_vms(self) -> bool:
        """Whether VMs are selected by their names or their folder: then each is included."""
        return bool(self.folders or self.vms)


@dataclass(slots=True)
class Chosen:
    """The selected VMs and hosts; `without_gpus` counts VMs that were not named and have no GPU."""

    vms: list[Vm] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    without_gpus: int = 0


def choose(choice: Choice, names: Names) -> Chosen:
    """Return the selection. Raises NotFound for a glob without a match, and if nothing is left."""
    observed = names.observed
    folder_of = {vm.moid: names.folder_of(vm) for vm in names.site.vms}
    vms = [vm for vm in names.site.vms if not vm.is_template and folder_of[vm.moid] is not None]
    folders = {path for path in folder_of.values() if path}
    folders |= {path.rpartition("/")[0] for path in folders} - {""}
    clusters = names.site.clusters
    choice = choice.meant(observed)
    known = {cluster.moid for cluster in clusters}
    hosts = [host for host in observed.hosts if host.owner_moid in known]
    for globs, nouns, there in (
        (choice.clusters, "clusters", [one.name for one in clusters]),
        (choice.folders, "folders", folders),
        (choice.vms, "VMs", [vm.name for vm in vms]),
        (choice.hosts, "hosts", [host.name for host in hosts]),
    ):
        _refuse_idle(globs, nouns, there, observed)
    chosen = Chosen()
    wanted = {host.moid: host for host in hosts if _is_host(host, choice, names)}
    for vm in vms:
        is_there = vm.host_moid in wanted or not (choice.clusters or choice.hosts)
        if not is_there or not _is_named(vm, folder_of[vm.moid] or "", choice):
            continue
        if choice.names_vms or _is_ours(vm):
            chosen.vms.append(vm)
        else:
            chosen.without_gpus += 1
    chosen.vms.sort(key=lambda vm: (as_counted(vm.name), vm.moid))
    used = {vm.host_moid for vm in chosen.vms}
    chosen.hosts = [host for host in wanted.values() if not choice.names_vms or host.moid in used]
    if not chosen.vms and (choice.names_vms or not chosen.hosts):
        raise NotFound(
            "no VM matches all globs",
            subject=observed.vcenter.address,
            remedy="omit one of --cluster, --folder, --vm and --host",
        )
    return chosen


def _is_host(host: Host, choice: Choice, names: Names) -> bool:
    cluster = names.observed.cluster_of(host)
    in_cluster = cluster is not None and matches_any(cluster.name, choice.clusters)
    is_host = not choice.hosts or matches_any(host.name, choice.hosts)
    return is_host and (in_cluster or not choice.clusters)


def _is_named(vm: Vm, folder: str, choice: Choice) -> bool:
    in_folder = not choice.folders or any(
        matches_any(part, choice.folders) for part in (folder, *_above(folder))
    )
    return in_folder and (not choice.vms or matches_any(vm.name, choice.vms))


def _above(folder: str) -> Iterable[str]:
    """Yield the folders that a folder is in."""
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _is_ours(vm: Vm) -> bool:
    """Whether an unnamed VM is selected: it has GPUs, or is a plan's."""
    has_gpus = vm.detail is not None and bool(vm.detail.vgpus or vm.detail.passthrough)
    return has_gpus or (vm.mark is not None and not vm.is_copy)


def _refuse_idle(globs: Sequence[str], nouns: str, there: Iterable[str], observed: Inventory) -> None:
    known = sorted(set(there))
    for glob in globs:
        if not any(matches_any(name, [glob]) for name in known):
            raise NotFound(
                f"no {nouns} match {glob}",
                subject=observed.vcenter.address,
                remedy=did_you_mean(glob, known, noun=nouns)
                or "run `vgpu-cfg inventory` to list hosts and their VMs",
            )


@dataclass(frozen=True, slots=True)
class Tie:
    """A rule: its VMs by moid, and the words of a plan file for each under `place`.

    `line` is the line that its VMs must share, "" where they need not share one.
    """

    name: str
    moids: tuple[str, ...]
    place: tuple[tuple[str, Any], ...]
    line: str = ""


@dataclass(slots=True)
class Tied:
    """The result of the rules: the lines whose VMs belong together, and those that cannot be expressed."""

    lines: dict[str, list[ExportedVm]]
    left_out: list[str]


def tie(found: Sequence[ExportedVm], observed: Inventory, plan: str) -> Tied:
    """Write the rules of the VMs into their keys."""
    by_moid = {one.vm.moid: one for one in found}
    result = Tied({}, [])
    for cluster in observed.clusters:
        for rule in _ties(cluster, plan, by_moid, result.left_out):
            members = [by_moid[moid] for moid in rule.moids]
            taken = {name for name, line in result.lines.items() for one in line if one in members}
            place = dict(rule.place)
            if any(_clash(one.keys.get("place", {}), place) for one in members) or taken - {rule.line}:
                result.left_out.append(f"the DRS rule {rule.name}: its VMs are in another rule")
                continue
            for one in members:
                one.keys["place"] = {**one.keys.get("place", {}), **place}
            if rule.line:
                result.lines[rule.line] = members
    return result


def _clash(own: dict[str, Any], place: dict[str, Any]) -> bool:
    if any(own.get(key, value) != value for key, value in place.items()):
        return True
    is_tied = bool({"spread", "host_group"} & own.keys())
    return is_tied and own.get("must", True) != place.get("must", True)


def _ties(cluster: Cluster, plan: str, known: Collection[str], left_out: list[str]) -> Iterator[Tie]:
    for rule in cluster.rules:
        if not set(rule.vm_moids) & set(known):
            continue
        line = _line(rule.name, plan) or _one_line(rule.vm_moids, known)
        if not rule.is_enabled or not cluster.drs_enabled:
            left_out.append(f"the DRS rule {rule.name}: it is disabled")
        elif rule.kind != "anti_affinity":
            left_out.append(f"the DRS rule {rule.name}: plan files cannot keep VMs together")
        elif not line or not set(rule.vm_moids) <= set(known):
            left_out.append(f"the DRS rule {rule.name}: its VMs do not correspond to a single line")
        elif len(rule.vm_moids) > 1:
            yield Tie(rule.name, rule.vm_moids, (("spread", "hosts"), *_must(rule.is_mandatory)), line)
    for tied in cluster.host_rules:
        group = cluster.vm_group(tied.vm_group)
        moids = tuple(moid for moid in (group.vm_moids if group is not None else ()) if moid in known)
        if not moids:
            continue
        if not tied.is_enabled or not cluster.drs_enabled:
            left_out.append(f"the DRS rule {tied.name}: it is disabled")
        elif tied.avoided_group or not tied.host_group:
            left_out.append(f"the DRS rule {tied.name}: plan files cannot exclude host groups")
        else:
            place = (("host_group", tied.host_group), *_must(tied.is_mandatory))
            yield Tie(tied.name, moids, place, _line(tied.vm_group, plan, tied.host_group))


def _must(is_mandatory: bool) -> tuple[tuple[str, Any], ...]:  # noqa: FBT001 - the value itself is put into words
    return () if is_mandatory else (("must", False),)


def _line(name: str, plan: str, host_group: str = "") -> str:
    """Return the line that a rule or a group of this plan is named after, "" for another one."""
    if not plan or not is_of_plan(name, plan):
        return ""
    return name.removeprefix(rule_name(plan, "")).removesuffix(f":{host_group}" if host_group else "")


def _one_line(moids: Sequence[str], known: Any) -> str:
    """Return the line that has just these VMs, "" where none has."""
    names = sorted((known[moid].name for moid in moids if moid in known), key=as_counted)
    runs = runs_of(names)
    return runs[0][0] if len(runs) == 1 else ""


def members_of(line: str) -> list[str]:
    """Return the names of a line; none for an unreadable line."""
    try:
        return [member.name for member in read_members(line)]
    except ValueError:
        return []
