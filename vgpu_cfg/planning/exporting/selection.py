"""Which VMs and hosts are meant by `--cluster`, `--folder`, `--vm` and `--host`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.exporting.names import Names
from vgpu_cfg.planning.findings.options import matches_any


@dataclass(frozen=True, slots=True)
class Choice:
    """Globs of names; of folders, of their paths below the datacenter's VM folder. Empty means all."""

    clusters: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def names_vms(self) -> bool:
        """Whether VMs are asked for by what they are called or by their folder: then each is meant."""
        return bool(self.folders or self.vms)


@dataclass(slots=True)
class Chosen:
    """The VMs and hosts that are meant; `without_gpus` counts VMs that nobody named and that have no GPU."""

    vms: list[Vm] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    without_gpus: int = 0


def choose(choice: Choice, names: Names) -> Chosen:
    """Return what is meant. Raises NotFound for a glob that nothing matches, and where nothing is left."""
    observed = names.observed
    folder_of = {vm.moid: names.folder_of(vm) for vm in names.site.vms}
    vms = [vm for vm in names.site.vms if not vm.is_template and folder_of[vm.moid] is not None]
    folders = {path for path in folder_of.values() if path}
    folders |= {path.rpartition("/")[0] for path in folders} - {""}
    clusters = names.site.clusters
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
            "together the globs mean no VM",
            subject=observed.vcenter.address,
            remedy="leave one of --cluster, --folder, --vm and --host out",
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
    """Whether a VM that nobody named is meant: it has GPUs, or is a plan's."""
    has_gpus = vm.detail is not None and bool(vm.detail.vgpus or vm.detail.passthrough)
    return has_gpus or (vm.mark is not None and not vm.is_copy)


def _refuse_idle(globs: Sequence[str], nouns: str, there: Iterable[str], observed: Inventory) -> None:
    known = sorted(set(there))
    for glob in globs:
        if not any(matches_any(name, [glob]) for name in known):
            raise NotFound(
                f"none of the {nouns} matches {glob}",
                subject=observed.vcenter.address,
                remedy=did_you_mean(glob, known, noun=nouns)
                or "`vgpu-cfg inventory` lists hosts and their VMs",
            )
