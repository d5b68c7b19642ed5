"""The hosts and GPUs meant by `host:esx-01`, `gpu:esx-01/17:00.0` or a glob, and those out of reach.

A hypothetical absence names one of these, never a glob of several. A VM's name that approves switching it off
must mean one VM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents import close_to, did_you_mean
from vgpu_cfg.errors import Ambiguous, NotFound
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Host, Inventory
from vgpu_cfg.model.ranges import is_glob
from vgpu_cfg.planning.capacity.nic_needs import host_functions
from vgpu_cfg.planning.estate.named import full_address, hosts_of, split
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.estate.site import inside
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import is_host, matches_any
from vgpu_cfg.planning.upkeep.away import Away, AwayCluster, AwayGpu, AwayHost, AwayNic


@dataclass(frozen=True, slots=True)
class Target:
    """A host, or one GPU of it where `pci_id` names one."""

    host: Host
    pci_id: str = ""


def targets_of(words: Sequence[str], observed: Inventory) -> tuple[Target, ...]:
    """Return the targets of words, each once, in the words' order.

    Raises NotFound, with a likely correction, for an unknown word.
    """
    found = (target for word in words for target in _targets(word, observed))
    return tuple({(target.host.moid, target.pci_id): target for target in found}.values())


def hosts_named(glob: str, observed: Inventory) -> list[Host]:
    """Return the hosts that a glob names, with the domain or without. Raises NotFound where none is."""
    if not glob:
        raise NotFound(
            "no host specified",
            subject=observed.vcenter.address,
            remedy="run `vgpu-cfg inventory` to list the hosts",
        )
    hosts = sorted((host for host in observed.hosts if is_host(host.name, glob)), key=_by_name)
    if not hosts:
        names = [host.name for host in observed.hosts]
        remedy = did_you_mean(glob, names, noun="hosts") or "run `vgpu-cfg inventory` to list the hosts"
        raise NotFound(f"no host matches {glob}", subject=observed.vcenter.address, remedy=remedy)
    return hosts


def one_host(word: str, observed: Inventory) -> Host:
    """Return the host that a word names, `host:` before it or not. Raises NotFound where it is not one."""
    word = _with_kind(word, observed)
    if split(word)[0] not in ("", "host"):
        _refuse_kind(word, "a host", observed)
    hosts = hosts_named(split(word)[1], observed)
    if len(hosts) > 1:
        raise NotFound(
            f"{word} matches {len(hosts)} hosts, but exactly one is required",
            subject=observed.vcenter.address,
            remedy=f"specify one: {', '.join(host.name for host in hosts[:6])}",
        )
    return hosts[0]


def away_of(word: str, observed: Inventory) -> Away:
    """Return the absence that a word means.

    Raises NotFound if it means nothing here, or more than one.
    """
    word = _with_kind(word, observed)
    kind, _, rest = word.partition(":")
    if rest and kind == "host":
        return AwayHost(one_host(word, observed))
    if rest and kind == "cluster":
        return _one_cluster(rest, observed)
    if rest and kind == "gpu":
        return one_gpu(word, observed)
    if rest and kind == "nic":
        return _one_nic(word, observed)
    if rest and kind == "vm":
        _refuse_kind(word, "a host, cluster, GPU or NIC", observed)
    raise NotFound(
        f"{word!r} does not identify a host, cluster, GPU or NIC",
        subject=observed.vcenter.address,
        remedy=f"{_meant(word)}kinds: {', '.join(_AWAY_WORDS.values())}",
    )


_AWAY_WORDS = {
    "host": "host:NAME",
    "cluster": "cluster:NAME",
    "gpu": "gpu:HOST/PCI, for example gpu:esx-01/0000:17:00.0",
    "nic": "nic:HOST/VMNIC, for example nic:esx-01/vmnic4, or its PCI address",
}
"""How each kind of what may be thought away is written."""


def _with_kind(word: str, observed: Inventory) -> str:
    """Add the kind to a bare name, which means the host or the cluster of that name. Raises Ambiguous."""
    if not word or ":" in word:
        return word
    is_cluster = any(one.name == word for one in _clusters(observed))
    if is_cluster and any(is_host(host.name, word) for host in observed.hosts):
        raise Ambiguous(
            f"{word} is both a host and a cluster",
            subject=observed.vcenter.address,
            remedy=f"specify one: host:{word} or cluster:{word}",
        )
    return f"{'cluster' if is_cluster else 'host'}:{word}"


def _meant(word: str) -> str:
    """Say what to write for a word whose kind is misspelt."""
    kind, _, rest = word.partition(":")
    close = close_to(kind, _AWAY_WORDS, 1)
    return f"did you mean `{close[0]}:{rest}`? " if close and rest else ""


def _clusters(observed: Inventory) -> list[Cluster]:
    return [one for one in observed.clusters if not one.is_standalone]


def _one_cluster(name: str, observed: Inventory) -> AwayCluster:
    """Return the hosts of the cluster of a name, or of its path where several have the name."""
    clusters = _clusters(observed)
    found = [one for one in clusters if name in (one.name, one.inventory_path)]
    if not found:
        raise NotFound(
            f"cluster {name} not found",
            subject=observed.vcenter.address,
            remedy=did_you_mean(name, [one.name for one in clusters], noun="clusters")
            or "run `vgpu-cfg inventory` to list the clusters",
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} clusters are named {name}",
            subject=observed.vcenter.address,
            remedy=f"specify one: {', '.join(f'cluster:{one.inventory_path}' for one in found[:6])}",
        )
    hosts = sorted((host for host in observed.hosts if host.cluster_moid == found[0].moid), key=_by_name)
    answering = tuple(host for host in hosts if host.connection is Connection.CONNECTED)
    if not answering:
        raise NotFound(
            f"no host in {name} responds" if hosts else f"{name} has no hosts",
            subject=observed.vcenter.address,
            remedy="reconnect one first" if hosts else "specify a cluster with hosts",
        )
    return AwayCluster(found[0], answering, tuple(host for host in hosts if host not in answering))


def one_gpu(word: str, observed: Inventory) -> AwayGpu:
    """Return the GPU that `gpu:HOST/PCI` names. Raises NotFound where it is not one."""
    targets = targets_of([word], observed)
    found = [(one.host, gpu) for one in targets if (gpu := one.host.gpu(one.pci_id)) is not None]
    if not found:
        raise NotFound(
            f"{word} is cordoned, but its host no longer has this GPU",
            subject=observed.vcenter.address,
            remedy="run `vgpu-cfg inventory` to list the GPUs with their addresses",
        )
    if len(found) > 1:
        names = [f"gpu:{host.name}/{gpu.pci_id}" for host, gpu in found[:6]]
        raise NotFound(
            f"{word} matches {len(found)} GPUs, but exactly one is required",
            subject=observed.vcenter.address,
            remedy=f"specify one: {', '.join(names)}",
        )
    host, gpu = found[0]
    return AwayGpu(host, gpu)


def host_of_nic(word: str, observed: Inventory) -> Host | None:
    """Return the host that `nic:HOST/VMNIC` names, None where the word is of another form."""
    kind, _, rest = word.partition(":")
    name, slash, _ = rest.rpartition("/")
    return one_host(name, observed) if kind == "nic" and slash else None


def _one_nic(word: str, observed: Inventory) -> AwayNic:
    """Return a NIC by its address or its vmnic, one that is passed through by its former one, too."""
    host = host_of_nic(word, observed)
    named = word.rpartition("/")[2]
    if host is None or not named:
        rest = word.removeprefix("nic:").rstrip("/")
        raise NotFound(
            f"{word!r} does not specify a NIC",
            subject=observed.vcenter.address,
            remedy=f"use `nic:{rest}/VMNIC`, or its address as `vgpu-cfg inventory` shows it",
        )
    facts = observed.facts.hosts.get(host.moid)
    devices = {pci.pci_id: "" for pci in host_functions(host)} | dict(facts.vmnics if facts else {})
    devices |= {nic.pci_id: nic.device for nic in host.nics}
    address = full_address(named)
    for pci_id, device in devices.items():
        if pci_id == address or (device and device == named):
            return AwayNic(host, pci_id, device)
    known = sorted({*filter(None, devices.values()), *devices})
    raise NotFound(
        f"NIC {named} not found on {host.name}",
        subject=observed.vcenter.address,
        remedy=did_you_mean(named, known, noun="NICs") or "run `vgpu-cfg inventory` to list the NICs",
    )


def refuse_unclear(names: Iterable[str], observed: Inventory) -> None:
    """Refuse invalid names for switching a VM off. Raises NotFound for an unknown one, Ambiguous."""
    known = Counter(vm.name for vm in observed.vms if not vm.is_template)
    for name in names:
        if name not in known:
            remedy = did_you_mean(name, known, noun="VMs")
            raise NotFound(f"VM {name} not found", subject=observed.vcenter.address, remedy=remedy)
        if known[name] > 1:
            raise Ambiguous(
                f"{known[name]} VMs are named {name}, but approval to power off a VM requires a unique name",
                subject=observed.vcenter.address,
                remedy="rename one of them, or power off the intended one manually",
            )


def _refuse_kind(word: str, wanted: str, observed: Inventory) -> NoReturn:
    """Raise NotFound for an object of another kind, with the hosts that it is on."""
    hosts = [f"host:{host.name}" for host in hosts_of(word, observed)[:6]]
    raise NotFound(
        f"{word} is not {wanted}",
        subject=observed.vcenter.address,
        remedy=f"specify {' or '.join(hosts)}" if hosts else "run `vgpu-cfg inventory` to list the hosts",
    )


def _targets(word: str, observed: Inventory) -> Iterator[Target]:
    word = _with_kind(word, observed)
    kind, _, rest = word.partition(":")
    if kind == "vm" and rest:
        _refuse_kind(word, "a host, a cluster or a GPU", observed)
    if kind not in ("host", "gpu", "cluster") or not rest:
        raise NotFound(
            f"{word!r} is not a host, a cluster or a GPU",
            subject=observed.vcenter.address,
            remedy="use host:NAME, cluster:NAME or gpu:HOST/PCI, for example gpu:esx-01/0000:17:00.0",
        )
    if kind == "cluster":
        hosts = sorted(hosts_of(word, observed), key=_by_name) if is_glob(rest) else []
        if not hosts:
            cluster = _one_cluster(rest, observed)
            hosts = [*cluster.hosts, *cluster.silent]
        yield from (Target(host) for host in hosts)
        return
    if kind == "host":
        yield from (Target(host) for host in hosts_named(rest, observed))
        return
    name, slash, address = rest.rpartition("/")
    if not slash:
        raise NotFound(
            f"{word!r} does not specify a GPU",
            subject=observed.vcenter.address,
            remedy=f"use `gpu:{rest}/PCI` with the address that `vgpu-cfg inventory` shows",
        )
    yield from _gpus(hosts_named(name, observed), full_address(address), observed)


def _gpus(hosts: Sequence[Host], glob: str, observed: Inventory) -> Iterator[Target]:
    known = {(host.name, pci_id): Target(host, pci_id) for host in hosts for pci_id in _addresses(host)}
    found = [target for (_, pci_id), target in known.items() if matches_any(pci_id, [glob])]
    if not found:
        names = ", ".join(host.name for host in hosts)
        remedy = did_you_mean(glob, sorted({pci_id for _, pci_id in known}), noun="GPUs")
        raise NotFound(
            f"no GPU on {names} matches {glob}",
            subject=observed.vcenter.address,
            remedy=remedy or "run `vgpu-cfg inventory` to list the GPUs with their addresses",
        )
    yield from found


def _addresses(host: Host) -> list[str]:
    """Return the addresses of a host's GPUs, and of those that were cordoned and are gone."""
    cordoned = (cordon.pci_id for cordon in host.cordons if cordon.pci_id)
    return list(dict.fromkeys([*(gpu.pci_id for gpu in host.gpus), *cordoned]))


def _by_name(host: Host) -> tuple[str, str]:
    return (host.name, host.moid)


def within_reach(plan: Plan, desired: DesiredPlan, observed: Inventory) -> Plan:
    """Return the plan with an error for each host it changes out of reach.

    `desired` names the datacenter, and the contexts that protect clusters.
    """
    moids = {moid for change in plan.changes for moid in (change.subject.moid, change.host_moid)}
    hosts = [host for host in observed.hosts if host.moid in moids]
    return plan.model_copy(update={"diagnostics": (*plan.diagnostics, *_beyond(hosts, desired, observed))})


def _beyond(hosts: list[Host], desired: DesiredPlan, observed: Inventory) -> Iterator[Diagnostic]:
    findings, protection = Findings(), Protection.of(desired)
    near = hosts if desired.datacenter is None else inside(desired, observed, hosts)
    for host in hosts:
        subject = Subject(kind="host", name=host.name, moid=host.moid)
        if host not in near:
            message = f"the host is not in datacenter {desired.datacenter}"
            findings.add(Code.HOST_NOT_MATCHED, subject, message, "specify its datacenter with --datacenter")
        if covering := protection.of_cluster(observed.cluster_of(host)):
            findings.add(Code.PROTECTED, subject, covering.message, covering.remedy())
    yield from findings.diagnostics()
