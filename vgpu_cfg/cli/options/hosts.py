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
    """Return the name of its cluster by the host's moid; hosts that stand alone are left out."""
    return {
        host.moid: observed.cluster_by_moid[host.cluster_moid].name
        for host in observed.hosts
        if host.cluster_moid is not None and host.cluster_moid in observed.cluster_by_moid
    }


def wanted_hosts(
    observed: Inventory, *, hosts: Sequence[str], clusters: Sequence[str]
) -> Callable[[str], bool]:
    """Return what tells by its name whether a host is wanted; without globs all are.

    Raises NotFound, with the name that was probably meant, for a glob that names nothing, and
    where together they do.
    """
    by_moid = cluster_names(observed)
    cluster_of = {host.name: by_moid.get(host.moid, "") for host in observed.hosts}
    for globs, known, noun in (
        (clusters, sorted(set(by_moid.values())), "cluster"),
        (hosts, list(cluster_of), "host"),
    ):
        for glob in globs:
            if not any(matches_any(name, [glob]) for name in known):
                remedy = did_you_mean(glob, known, noun=f"{noun}s")
                raise NotFound(
                    f"no {noun} matches {glob}",
                    subject=observed.vcenter.address,
                    remedy=remedy or "`vgpu-cfg inventory` without --host and --cluster lists them all",
                )

    def is_wanted(name: str) -> bool:
        cluster = cluster_of.get(name, "")
        return (not hosts or matches_any(name, hosts)) and (not clusters or matches_any(cluster, clusters))

    if (hosts or clusters) and not any(is_wanted(name) for name in cluster_of):
        raise NotFound(
            f"no host matches {' '.join([*clusters, *hosts])}",
            subject=observed.vcenter.address,
            remedy="`vgpu-cfg inventory` without --host and --cluster lists them all",
        )
    return is_wanted
