"""Which hosts `--host` and `--cluster` mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
from vgpu_cfg.planning.estate.named import cluster_globs, host_names, hosts_of, split
from vgpu_cfg.planning.findings.options import matches_any

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory


def cluster_names(observed: Inventory) -> dict[str, str]:
    """Return the name of its cluster by the host's moid; standalone hosts are left out."""
    return {
        host.moid: observed.cluster_by_moid[host.cluster_moid].name
        for host in observed.hosts
        if host.cluster_moid is not None and host.cluster_moid in observed.cluster_by_moid
    }


def wanted_hosts(
    observed: Inventory, *, hosts: Sequence[str], clusters: Sequence[str]
) -> Callable[[str], bool]:
    """Return a predicate on names of wanted hosts; without globs all are wanted.

    Raises NotFound, with the name that was probably meant, for a glob without a match, and if together they
    match none.
    """
    choice = HostChoice(hosts, clusters)
    is_wanted = choice.at(observed)
    choice.refuse_vain(observed.vcenter.address)
    return is_wanted


class HostChoice:
    """The values of `--host` and `--cluster` for one or several vCenters: a word must match at one."""

    def __init__(self, hosts: Sequence[str], clusters: Sequence[str]) -> None:
        self._hosts, self._clusters = hosts, clusters
        self._met: set[str] = set()
        self._known: dict[str, set[str]] = {"host": set(), "cluster": set()}
        self._has_any = False

    def at(self, observed: Inventory) -> Callable[[str], bool]:
        """Return a predicate on names of wanted hosts of a vCenter; any thread may call it."""
        by_moid = cluster_names(observed)
        cluster_of = {host.name: by_moid.get(host.moid, "") for host in observed.hosts}
        self._known["host"] |= cluster_of.keys()
        self._known["cluster"] |= {*cluster_of.values()} - {""}
        self._met |= {f"host {word}" for word in self._hosts if hosts_of(word, observed)}
        clusters = cluster_globs(self._clusters, observed)
        for word in self._clusters:
            if any(matches_any(name, cluster_globs([word], observed)) for name in cluster_of.values()):
                self._met.add(f"cluster {word}")
        hosts = host_names(self._hosts, observed)

        def is_wanted(name: str) -> bool:
            in_cluster = not clusters or matches_any(cluster_of.get(name, ""), clusters)
            return in_cluster and (not hosts or matches_any(name, hosts))

        self._has_any |= any(map(is_wanted, cluster_of))
        return is_wanted

    def refuse_vain(self, subject: str) -> None:
        """Raise NotFound for a word that named nothing of all that was asked, and where together they did."""
        listing = "run `vgpu-cfg inventory` to list them all"
        for words, noun in ((self._clusters, "cluster"), (self._hosts, "host")):
            for word in words:
                if f"{noun} {word}" not in self._met:
                    remedy = did_you_mean(split(word)[1], sorted(self._known[noun]), noun=f"{noun}s")
                    raise NotFound(f"no {noun} matches {word}", subject=subject, remedy=remedy or listing)
        if (self._hosts or self._clusters) and not self._has_any:
            asked = " ".join([*self._clusters, *self._hosts])
            raise NotFound(f"no host matches {asked}", subject=subject, remedy=listing)
