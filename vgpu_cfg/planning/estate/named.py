"""Words for objects: `host:esx-01`, `vm:hvd-*`, `gpu:esx-01/17:00.0`, `cluster:gpu`, or a bare name.

Every option that selects by a glob reads its words here, as names of the objects that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from glob import escape

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
from vgpu_cfg.planning.findings.options import PlanOptions, is_host, matches_any

_WITHOUT_DOMAIN = re.compile(r"[0-9a-f*?\[\]]+:[0-9a-f*?\[\]]+\.[0-7*?]")


def split(word: str) -> tuple[str, str]:
    """Return the kind and the name of a word; the kind is "" for a bare name."""
    kind, colon, rest = word.partition(":")
    return (kind, rest) if colon and kind in ("host", "vm", "gpu", "cluster") else ("", word)


def full_address(address: str) -> str:
    """Return a PCI address, or a glob of some, with its domain, in small letters."""
    lower = address.strip().lower()
    return f"0000:{lower}" if _WITHOUT_DOMAIN.fullmatch(lower) else lower


def host_names(words: Sequence[str], observed: Inventory) -> tuple[str, ...]:
    """Return the hosts of words as globs: a VM's and a GPU's host, all hosts of a cluster.

    A word without a match stays, without its kind, so that it is reported.
    """
    return _globs(words, lambda word: [host.name for host in hosts_of(word, observed)])


def vm_names(words: Sequence[str], observed: Inventory, known: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the VMs of words as globs: of a host, a GPU or a cluster, too; `known` are more names."""
    names = [*dict.fromkeys([*known, *(vm.name for vm in observed.vms if not vm.is_template)])]

    def found(word: str) -> list[str]:
        kind, name = split(word)
        if kind == "vm" or (not kind and any(matches_any(one, [name]) for one in names)):
            return [one for one in names if matches_any(one, [name])]
        hosts = hosts_of(word, observed)
        if kind == "gpu":
            held = {moid for host in hosts for gpu in _gpus(host, name) for moid in gpu.vm_moids}
            return [vm.name for vm in observed.vms if vm.moid in held]
        there = [vm for host in hosts for vm in observed.vms_by_host.get(host.moid, ())]
        return [vm.name for vm in there if vm.name in names]

    return _globs(words, found)


def cluster_globs(words: Sequence[str], observed: Inventory) -> tuple[str, ...]:
    """Return the clusters of words as globs: a host's, a VM's and a GPU's cluster."""

    def found(word: str) -> list[str]:
        kind, name = split(word)
        named = [one.name for one in observed.clusters if matches_any(one.name, [name])]
        if kind == "cluster" or (not kind and named):
            return named
        there = (observed.cluster_of(host) for host in hosts_of(word, observed))
        return [one.name for one in there if one is not None]

    return _globs(words, found)


def hosts_of(word: str, observed: Inventory) -> list[Host]:
    """Return the hosts that a word means; a bare name is a host, else a cluster, else a VM."""
    kind, name = split(word)
    there = observed.vms_by_host
    by_kind: dict[str, Callable[[Host], bool]] = {
        "host": lambda host: is_host(host.name, name),
        "cluster": lambda host: _is_in(host, name, observed),
        "vm": lambda host: any(matches_any(vm.name, [name]) for vm in there.get(host.moid, ())),
        "gpu": lambda host: is_host(host.name, name.rpartition("/")[0]) and bool(_gpus(host, name)),
    }
    for is_meant in [by_kind[kind]] if kind else [by_kind[one] for one in ("host", "cluster", "vm")]:
        if found := [host for host in observed.hosts if is_meant(host)]:
            return found
    return []


def meant_at(options: PlanOptions, desired: DesiredPlan, observed: Inventory) -> PlanOptions:
    """Return the options with `only` in names of VMs and hosts of this estate.

    A GPU means the plan's VMs on it, a cluster its hosts. Unknown words remain unchanged.
    """
    known = [vm.name for vm in desired.vms]

    def meant(word: str) -> list[str]:
        kind, name = split(word)
        if kind in ("host", "vm") or (not kind and _is_vm(name, known, observed)):
            return [word]
        if kind == "gpu":
            return [f"vm:{escape(one)}" for one in vm_names([word], observed) if one in known] or [word]
        return [f"host:{escape(host.name)}" for host in hosts_of(word, observed)] or [word]

    return replace(options, only=tuple(one for word in options.only for one in meant(word)))


def how_to_select(options: PlanOptions, desired: DesiredPlan) -> str:
    """Return the remedy if `only` matches nothing: the VMs that the plan has, or the closest one.

    Without `only` the plan file's names are wrong.
    """
    names = [vm.name for vm in desired.vms]
    hint = did_you_mean(options.only[0], names, noun="VMs") if options.only else ""
    if not options.only:
        return "correct the names or folders in the plan file"
    return hint or "specify a VM name, a glob, or host:NAME"


def _is_vm(glob: str, known: Iterable[str], observed: Inventory) -> bool:
    return any(matches_any(name, [glob]) for name in (*known, *(vm.name for vm in observed.vms)))


def _is_in(host: Host, name: str, observed: Inventory) -> bool:
    cluster = observed.cluster_of(host)
    return (
        cluster is not None
        and not cluster.is_standalone
        and (matches_any(cluster.name, [name]) or cluster.inventory_path == name)
    )


def _gpus(host: Host, name: str) -> list[Gpu]:
    glob = full_address(name.rpartition("/")[2])
    return [gpu for gpu in host.gpus if matches_any(gpu.pci_id, [glob])]


def _globs(words: Sequence[str], found: Callable[[str], list[str]]) -> tuple[str, ...]:
    return tuple(
        one
        for word in words
        for one in ([escape(name) for name in dict.fromkeys(found(word))] or [split(word)[1]])
    )
