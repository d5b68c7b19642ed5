"""Which hosts a VM could go to before anybody asks for room: clusters, globs, networks, datastores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.inventory import Cluster, Connection, Datastore, Host, Network
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.options import matches_any
from vgpu_cfg.planning.words import listed

Ranked = tuple[tuple[int, int], ...]
"""Hosts by index, each with the rank of its cluster in the plan file."""

_REMEDIES = {
    Code.NO_HOST_MATCHES: "compare `place.hosts` with the names of the hosts",
    Code.NO_USABLE_HOST: "connect a host, or take one out of maintenance mode",
    Code.NETWORK_NOT_ON_HOST: "add the network to a host, or name another cluster or network",
    Code.DATASTORE_NOT_ON_HOST: "mount the datastore on a host, or name another cluster or datastore",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What decides over candidates; VMs with equal wishes have the same."""

    clusters: tuple[str, ...]
    globs: tuple[str, ...]
    networks: frozenset[str]
    datastores: frozenset[str]
    only_host: str | None = None


@dataclass(slots=True)
class Candidates:
    """The hosts of an estate in a fixed order, and who of them is in question for a wish."""

    hosts: Sequence[Host]
    networks: Mapping[str, Network]
    datastores: Mapping[str, Datastore]
    _known: dict[Wish, tuple[Ranked, tuple[Code, str] | None]] = field(default_factory=dict)

    def of(self, wish: Wish, vm: DesiredVm, findings: Findings) -> Ranked:
        """Return the candidates, the VM's first cluster first; without any there is a finding."""
        if wish not in self._known:
            self._known[wish] = self._judge(wish)
        ranked, failure = self._known[wish]
        if failure is not None:
            code, message = failure
            findings.refuse_vm(code, vm, message, _REMEDIES[code])
        return ranked

    def _judge(self, wish: Wish) -> tuple[Ranked, tuple[Code, str] | None]:
        """Filter step by step; the step that leaves nobody is the reason."""
        ranks = {moid: rank for rank, moid in enumerate(wish.clusters)}
        left = [
            (index, ranks[host.cluster_moid or host.compute_moid])
            for index, host in enumerate(self.hosts)
            if (host.cluster_moid or host.compute_moid) in ranks
            and (wish.only_host is None or host.moid == wish.only_host)
        ]
        if not left:
            return (), (Code.NO_USABLE_HOST, "the clusters have no host")
        chosen = [one for one in left if not wish.globs or matches_any(self.hosts[one[0]].name, wish.globs)]
        if not chosen:
            everyone = listed((self.hosts[index].name for index, _ in left), shown=6)
            return (), (Code.NO_HOST_MATCHES, f"no host matches {' or '.join(wish.globs)}: {everyone}")
        usable = [one for one in chosen if self.hosts[one[0]].is_usable]
        if not usable:
            states = listed((_state(self.hosts[index]) for index, _ in chosen), shown=6)
            return (), (Code.NO_USABLE_HOST, f"no host can run it: {states}")
        for wanted, code, noun, names in (
            (wish.networks, Code.NETWORK_NOT_ON_HOST, "network", self.networks),
            (wish.datastores, Code.DATASTORE_NOT_ON_HOST, "datastore", self.datastores),
        ):
            reached = [one for one in usable if wanted <= _reach(self.hosts[one[0]], code)]
            if not reached:
                return (), (code, _unreached(noun, wanted, names, (self.hosts[i] for i, _ in usable), code))
            usable = reached
        return tuple(sorted(usable, key=lambda one: (one[1], one[0]))), None


def clusters_in_order(clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """Return the moids that hosts name their cluster by."""
    return tuple(cluster.moid for cluster in clusters)


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
        return f"the {noun} {called} is on none of {listed(host.name for host in everyone)}"
    called = listed(names[moid].name if moid in names else moid for moid in sorted(wanted))
    return f"no host has all of the {noun}s {called}"


def _state(host: Host) -> str:
    if host.connection is not Connection.CONNECTED:
        words = "not responding" if host.connection is Connection.NOT_RESPONDING else "disconnected"
        return f"{host.name} is {words}"
    return f"{host.name} is in maintenance mode"
