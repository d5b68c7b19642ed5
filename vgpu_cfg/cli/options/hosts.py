"""Which hosts `--host` and `--cluster` mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
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
    """The values of `--host` and `--cluster` for one or several vCenters: a glob must match at one."""

    def __init__(self, hosts: Sequence[str], clusters: Sequence[str]) -> None:
        self._hosts, self._clusters = hosts, clusters
        self._cluster_of: list[tuple[str, str]] = []

    def at(self, observed: Inventory) -> Callable[[str], bool]:
        """Return a predicate on names of wanted hosts of a vCenter; any thread may call it."""
        by_moid = cluster_names(observed)
        cluster_of = {host.name: by_moid.get(host.moid, "") for host in observed.hosts}
        self._cluster_of += cluster_of.items()
        return lambda name: self._is_wanted(name, cluster_of.get(name, ""))

    def _is_wanted(self, name: str, cluster: str) -> bool:
        return (not self._hosts or matches_any(name, self._hosts)) and (
            not self._clusters or matches_any(cluster, self._clusters)
        )

    def refuse_vain(self, subject: str) -> None:
        """Raise NotFound for a glob that named nothing of all that was asked, and where together they did."""
        for globs, known, noun in (
            (self._clusters, sorted({cluster for _, cluster in self._cluster_of if cluster}), "cluster"),
            (self._hosts, [name for name, _ in self._cluster_of], "host"),
        ):
            for glob in globs:
                if not any(matches_any(name, [glob]) for name in known):
                    remedy = did_you_mean(glob, known, noun=f"{noun}s")
                    raise NotFound(
                        f"no {noun} matches {glob}",
                        subject=subject,
                        remedy=remedy
                        or "run `vgpu-cfg inventory` without --host and --cluster to list them all",
                    )
        if (self._hosts or self._clusters) and not any(self._is_wanted(*pair) for pair in self._cluster_of):
            raise NotFound(
                f"no host matches {' '.join([*self._clusters, *self._hosts])}",
                subject=subject,
                remedy="run `vgpu-cfg inventory` without --host and --cluster to list them all",
            )
