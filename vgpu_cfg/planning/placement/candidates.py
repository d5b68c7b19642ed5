"""Which hosts a VM could go to before anybody asks for room.

Clusters, host group, globs, networks and datastores decide, in this order. The remaining hosts are
reduced to those that support the VM's hardware version, number of vGPUs, NVLink groups, and guest driver. If
none does, all remain, and the checks after placement report the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Datastore, Host, Inventory, Network
from vgpu_cfg.model.plan_file import PlaceEntry
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.hardware import highest_version, vgpu_limit
from vgpu_cfg.planning.capacity.topology import has_group_api
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any

Ranked = tuple[tuple[int, int], ...]
"""Hosts by index, each with the rank of its cluster in the plan file."""

_REMEDIES = {
    Code.HOST_GROUP_UNUSABLE: "add a running host to the group in vCenter, or specify another group",
    Code.HOSTS_EXCLUDED: "exclude fewer hosts with `place.not_hosts`, or add clusters",
    Code.NO_HOST_MATCHES: "compare `place.hosts` with the host names",
    Code.NO_USABLE_HOST: "connect a host or take one out of maintenance mode",
    Code.NETWORK_NOT_ON_HOST: "add the network to a host, or specify another cluster or network",
    Code.DATASTORE_NOT_ON_HOST: "mount the datastore on a host, or specify another cluster or datastore",
    Code.DEVICE_GROUP_ABSENT: "use a name that `vgpu-cfg inventory` lists under DEVICE GROUPS",
}


_BRING_BACK = "reconnect the unresponsive host, or allow other hosts for the VM (`place`, `cluster`)"


@dataclass(frozen=True, slots=True)
class Fitness:
    """The minimum hardware version and number of vGPUs per VM that a host must support.

    `has_peers` is whether NVLink joins the vGPUs; `driver` is the branch of the guest's driver, "" for any.
    """

    hardware: int = 0
    vgpus: int = 0
    has_peers: bool = False
    driver: str = ""

    def lacks(self, host: Host, refused: Sequence[str] = ()) -> Iterator[str]:
        """Yield each unsupported requirement of a host; unknown values count as supported.

        `refused` are the guest driver branches that its driver does not support.
        """
        highest = highest_version(host)
        if highest is not None and highest < self.hardware:
            yield f"supports hardware version {highest}, but {self.hardware} is required"
        if highest is not None and vgpu_limit(host, highest) < self.vgpus:
            yield f"supports {vgpu_limit(host, highest)} vGPUs per VM, but {self.vgpus} are required"
        if self.has_peers and host.version and not has_group_api(host):
            yield f"runs ESXi {host.version}, but NVLink groups require vSphere 8"
        if self.driver in refused:
            yield f"has a driver that does not support the guest's R{self.driver} driver"


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """The criteria of candidates: VMs with the same request have the same candidates."""

    clusters: tuple[str, ...]
    globs: tuple[str, ...]
    networks: frozenset[str]
    datastores: frozenset[str]
    only_host: str | None = None
    not_globs: tuple[str, ...] = ()
    host_group: str | None = None
    device_groups: frozenset[str] = frozenset()
    fitness: Fitness = Fitness()


_Failure = tuple[Code, str, str]
"""A finding: code, message, remedy."""


@dataclass(slots=True)
class Candidates:
    """The hosts of an estate in a fixed order, and which of them a query leaves."""

    hosts: Sequence[Host]
    networks: Mapping[str, Network]
    datastores: Mapping[str, Datastore]
    clusters: Mapping[str, Cluster]
    refused: Mapping[str, Sequence[str]]
    """The branches of guest drivers that hosts' drivers do not support, by moid."""
    _known: dict[CandidateQuery, tuple[Ranked, _Failure | None]] = field(default_factory=dict)
    _unfit: dict[CandidateQuery, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @classmethod
    def among(cls, hosts: Sequence[Host], observed: Inventory, refused: Mapping[str, Sequence[str]]) -> Self:
        """Take the networks, datastores and groups of an inventory."""
        return cls(
            hosts,
            {network.moid: network for network in observed.networks},
            {datastore.moid: datastore for datastore in observed.datastores},
            observed.cluster_by_moid,
            refused,
        )

    def of(self, query: CandidateQuery, vm: DesiredVm, findings: Findings) -> Ranked:
        """Return the candidates, the VM's first cluster first; without any there is a finding."""
        if query not in self._known:
            self._known[query] = self._assess(query)
        ranked, failure = self._known[query]
        if failure is not None:
            findings.refuse_vm(failure[0], vm, failure[1], failure[2])
        return ranked

    def _assess(self, query: CandidateQuery) -> tuple[Ranked, _Failure | None]:
        """Filter step by step; the step that leaves none is the reason."""
        ranks = {moid: rank for rank, moid in enumerate(query.clusters)}
        left = [
            (index, ranks[host.owner_moid])
            for index, host in enumerate(self.hosts)
            if host.owner_moid in ranks and (query.only_host is None or host.moid == query.only_host)
        ]
        if not left:
            return _failed(Code.NO_USABLE_HOST, "the clusters contain no hosts")
        if query.host_group is not None:
            members, failure = self._members(query, query.host_group)
            if failure is not None:
                return (), failure
            left = [one for one in left if self.hosts[one[0]].moid in members]
        chosen = [one for one in left if not query.globs or matches_any(self.hosts[one[0]].name, query.globs)]
        if not chosen:
            known = [self.hosts[one[0]].name for one in left]
            close = [meant for glob in query.globs if (meant := did_you_mean(glob, known))]
            message = f"no host matches {' or '.join(query.globs)}: {'; '.join(close) or self._names(left)}"
            return _failed(Code.NO_HOST_MATCHES, message)
        allowed = [one for one in chosen if not matches_any(self.hosts[one[0]].name, query.not_globs)]
        if not allowed:
            message = f"`place.not_hosts` ({', '.join(query.not_globs)}) excludes {self._names(chosen)}"
            return _failed(Code.HOSTS_EXCLUDED, message)
        usable = [one for one in allowed if self.hosts[one[0]].is_usable]
        if not usable:
            states = listed((_state(self.hosts[index]) for index, _ in allowed), shown=6)
            if query.host_group is None:
                is_silent = all(
                    self.hosts[index].connection is not Connection.CONNECTED for index, _ in allowed
                )
                remedy = _BRING_BACK if is_silent else _REMEDIES[Code.NO_USABLE_HOST]
                return (), (Code.NO_USABLE_HOST, f"no host can run it: {states}", remedy)
            message = f"no host in the host group {query.host_group} can run it: {states}"
            return _failed(Code.HOST_GROUP_UNUSABLE, message)
        apart: list[tuple[str, str]] = []
        for wanted, code, noun, names in (
            (query.networks, Code.NETWORK_NOT_ON_HOST, "network", self.networks),
            (query.datastores, Code.DATASTORE_NOT_ON_HOST, "datastore", self.datastores),
        ):
            reached = [one for one in usable if wanted <= _reach(self.hosts[one[0]], code)]
            if not reached:
                hosts = (self.hosts[index] for index, _ in usable)
                return _failed(code, _unreached(noun, wanted, names, hosts, code))
            for host in (self.hosts[one[0]] for one in usable if one not in reached):
                missing = sorted(wanted - _reach(host, code))
                called = listed(names[moid].name if moid in names else moid for moid in missing)
                apart += [(host.name, f"the {noun} {called} is not available on it")] if host.gpus else []
            usable = reached
        offering = [one for one in usable if query.device_groups <= _group_names(self.hosts[one[0]])]
        if not offering:
            return _failed(Code.DEVICE_GROUP_ABSENT, self._no_group(query.device_groups, usable))
        fitting = tuple(self._fit(offering, query))
        self._unfit[query] += tuple(apart)
        return fitting, None

    def _fit(self, hosts: list[tuple[int, int]], query: CandidateQuery) -> list[tuple[int, int]]:
        """Return the hosts that meet most criteria: all of them where any host does. Note the others."""
        ranked = sorted(hosts, key=lambda one: (one[1], one[0]))
        lacking = {one: tuple(self._lacks(self.hosts[one[0]], query)) for one in ranked}
        least = min(map(len, lacking.values()))
        self._unfit[query] = tuple(
            (self.hosts[index].name, lacks[0]) for (index, _), lacks in lacking.items() if len(lacks) > least
        )
        return [one for one, lacks in lacking.items() if len(lacks) == least]

    def _lacks(self, host: Host, query: CandidateQuery) -> Iterator[str]:
        return query.fitness.lacks(host, self.refused.get(host.moid, ()))

    def unfit(self, query: CandidateQuery) -> tuple[tuple[str, str], ...]:
        """Return why `of` left out each host: its release, or an object that it cannot reach."""
        return self._unfit.get(query, ())

    def _no_group(self, wanted: frozenset[str], usable: list[tuple[int, int]]) -> str:
        known = dict.fromkeys(name for index, _ in usable for name in sorted(_group_names(self.hosts[index])))
        told = f"available: {listed(known, shown=6)}" if known else "none are available"
        return f"no host provides the device group {listed(sorted(wanted))}; {told}"

    def _members(self, query: CandidateQuery, name: str) -> tuple[frozenset[str], _Failure | None]:
        """Return the hosts of a host group, in every cluster of the query that has one of this name."""
        clusters = [self.clusters[moid] for moid in query.clusters if moid in self.clusters]
        found = [(cluster, group) for cluster in clusters if (group := cluster.host_group(name)) is not None]
        if not found:
            return frozenset(), host_group_not_found(name, clusters)
        members = frozenset(moid for _, group in found for moid in group.host_moids)
        if not members:
            message = f"the host group {name} in {listed(cluster.name for cluster, _ in found)} is empty"
            return members, (Code.HOST_GROUP_UNUSABLE, message, _REMEDIES[Code.HOST_GROUP_UNUSABLE])
        return members, None

    def _names(self, chosen: Ranked | list[tuple[int, int]]) -> str:
        return listed((self.hosts[index].name for index, _ in chosen), shown=6)


def host_group_not_found(name: str, clusters: Sequence[Cluster]) -> tuple[Code, str, str]:
    """Return the finding that no cluster has a host group."""
    known = [group.name for cluster in clusters for group in cluster.host_groups]
    message = f"no host group {name!r} in {listed(cluster.name for cluster in clusters)}"
    remedy = did_you_mean(name, known, noun="host groups") or "create it in vCenter under VM/Host Groups"
    return Code.HOST_GROUP_NOT_FOUND, message, remedy


def _failed(code: Code, message: str) -> tuple[Ranked, _Failure]:
    return (), (code, message, _REMEDIES[code])


def make_query(
    clusters: Iterable[Cluster],
    place: PlaceEntry,
    networks: frozenset[str] = frozenset(),
    datastores: frozenset[str] = frozenset(),
    device_groups: frozenset[str] = frozenset(),
    fitness: Fitness = Fitness(),
) -> CandidateQuery:
    """Return a VM's request for its host; `networks` and `datastores` are moids."""
    moids = tuple(cluster.moid for cluster in clusters)
    return CandidateQuery(
        moids,
        place.hosts,
        networks,
        datastores,
        not_globs=place.not_hosts,
        host_group=place.host_group,
        device_groups=device_groups,
        fitness=fitness,
    )


def forbidden_by(place: PlaceEntry, host: Host, cluster: Cluster | None) -> str:
    """Return in words what of `place` keeps a VM from a host of a cluster, "" where nothing does."""
    if place.hosts and not matches_any(host.name, place.hosts):
        return f"which is not in `place.hosts` ({', '.join(place.hosts)})"
    if matches_any(host.name, place.not_hosts):
        return f"which `place.not_hosts` ({', '.join(place.not_hosts)}) excludes"
    if place.host_group is None:
        return ""
    group = cluster.host_group(place.host_group) if cluster is not None else None
    is_member = group is not None and host.moid in group.host_moids
    return "" if is_member else f"which is not in the host group {place.host_group}"


def _group_names(host: Host) -> frozenset[str]:
    return frozenset(group.name for group in host.device_groups)


def _reach(host: Host, code: Code) -> frozenset[str]:
    return host.network_moids if code is Code.NETWORK_NOT_ON_HOST else host.datastore_moids


def _unreached(
    noun: str,
    wanted: Iterable[str],
    names: Mapping[str, Network] | Mapping[str, Datastore],
    hosts: Iterable[Host],
    code: Code,
) -> str:
    everyone = list(hosts)
    nowhere = [moid for moid in sorted(wanted) if not any(moid in _reach(host, code) for host in everyone)]
    if nowhere:
        called = listed(names[moid].name if moid in names else moid for moid in nowhere)
        return f"the {noun} {called} is not available on {listed(host.name for host in everyone)}"
    called = listed(names[moid].name if moid in names else moid for moid in sorted(wanted))
    return f"no host has all of these {noun}s: {called}"


def _state(host: Host) -> str:
    if host.connection is not Connection.CONNECTED:
        words = "not responding" if host.connection is Connection.NOT_RESPONDING else "disconnected"
        return f"{host.name} is {words}"
    return f"{host.name} is in maintenance mode"
