"""The guest driver branches that a host's NVIDIA driver accepts.

The rule is that of NVIDIA's vGPU 19.0 release notes for VMware vSphere, 1.2: the guest driver is of the
host's release, of the branch before it, or, on a host of a long-term support branch, of the long-term one
before. The branches are in profiles/drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_cfg.catalog.version_pairs import DriverBranch, load_driver_branches
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.host_settings.gpus.driver import branch_of, driver_version
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of


def guest_branches(host_branch: str) -> tuple[str, ...]:
    """Return the guest driver branches that may run on a host's, newest first, unproven ones too.

    Empty for a branch that is not known, as a newer one: any may run.
    """
    host = load_driver_branches().find(host_branch)
    if host is None:
        return ()
    return tuple(sorted(_named(host) | _unproven(host), reverse=True))


@dataclass(frozen=True, slots=True)
class GuestDrivers:
    """One host's compatible branches: those that may run, and those that its guests' own check refuses."""

    branches: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def guest_drivers(host_branch: str, *, is_strict: bool = True) -> GuestDrivers:
    """Return the branches for a host of this branch; if not strict, nothing is refused inside its guests."""
    return GuestDrivers(guest_branches(host_branch), refused_branches(host_branch) if is_strict else ())


def refused_branches(host_branch: str) -> tuple[str, ...]:
    """Return the known guest driver branches that the rule shuts out of a host, newest first.

    A branch that no document names is not among them.
    """
    taken = guest_branches(host_branch)
    known = {one.number for one in load_driver_branches().branches}
    return tuple(sorted(known.difference(taken), reverse=True)) if taken else ()


def is_unproven(host_branch: str, guest_branch: str) -> bool:
    """Whether no document says that a host's driver accepts guests of this branch, or rejects them.

    A guest's branch that is not known at all is `is_unknown`'s.
    """
    if not host_branch or host_branch == guest_branch:
        return False
    host = load_driver_branches().find(host_branch)
    return host is None or guest_branch in _unproven(host)


def is_unknown(guest_branch: str) -> bool:
    """Whether no document that was read names this branch as one of vGPU software."""
    return load_driver_branches().find(guest_branch) is None


def _named(host: DriverBranch) -> set[str]:
    """Return the branches that the rule names for a host."""
    branches = load_driver_branches().branches
    older = branches[: branches.index(host)]
    long_term = [one for one in older if one.long_term and host.long_term]
    return {one.number for one in (host, *older[-1:], *long_term[-1:])}


def _unproven(host: DriverBranch) -> set[str]:
    """Return the branches one step further, if the host's own release notes were not read.

    One step: the branches that an accepted guest's branch would accept as the host's.
    """
    if host.rule.read:
        return set()
    known = load_driver_branches()
    named = _named(host)
    taken = (known.find(number) for number in named - {host.number})
    # Of a branch so old that nobody read its notes nothing is known but what the rule says.
    further = {number for one in taken if one is not None and one.rule.read for number in _named(one)}
    return further - named


def host_branches(desired: DesiredPlan, observed: Inventory) -> Mapping[str, str]:
    """Return by moid the branch of each host's driver: the plan file's, else the present one.

    Hosts with neither are left out.
    """
    found: dict[str, str] = {}
    for moid, facts in observed.facts.hosts.items():
        found[moid] = branch_of(driver_version(observed.host_by_moid[moid], facts.software))
    for entry in reversed(desired.hosts):
        wanted = branch_of(entry.driver.version or "") if entry.driver is not None else ""
        if wanted:
            found |= dict.fromkeys((host.moid for host in hosts_of(entry, desired, observed)), wanted)
    return {moid: branch for moid, branch in found.items() if branch}
