"""Which guest driver branches a host's NVIDIA driver takes.

The rule is that of NVIDIA's vGPU 19.0 release notes for VMware vSphere, 1.2: the guest driver is of the
host's release, of the branch before it, or of the previous long-term support branch. Which branches are
those is recalled for all but 535.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.planning.hosts.select import hosts_of
from vgpu_cfg.planning.settings.driver import driver_facts

_BRANCHES = ("460", "470", "510", "525", "535", "550", "570", "580")
"""vGPU 12 to 19, one after another."""
_LONG_TERM = ("470", "535", "580")
_VERSION = re.compile(r"(?<![\d.])(\d{3})\.\d+(?:\.\d+)?")
_NAMED = re.compile(r"(?:grid|driver)[-_](\d{3})(?!\d)", re.IGNORECASE)
_LEADING = re.compile(r"(\d{3})(?!\d)")


def branch_of(version: str) -> str:
    """Return the branch of a driver's version, "580" of "580.95.02-1OEM.800"; "" where none leads it."""
    found = _LEADING.match(version.strip())
    return found.group(1) if found else ""


def branch_of_package(package: str) -> str:
    """Return the branch that the name of a guest driver's package tells, "" where it tells none."""
    name = package.rstrip("/").rpartition("/")[2]
    found = _VERSION.search(name.replace("_", "-")) or _NAMED.search(name)
    return found.group(1) if found else ""


def guest_branches(host_branch: str) -> tuple[str, ...]:
    """Return the guest driver branches that a host's takes, newest first; of an unknown one only itself."""
    if not host_branch:
        return ()
    if host_branch not in _BRANCHES:
        return (host_branch,)
    at = _BRANCHES.index(host_branch)
    before = _BRANCHES[at - 1 : at] if at else ()
    long_term = [one for one in _LONG_TERM if one < host_branch][-1:]
    return tuple(sorted({host_branch, *before, *long_term}, reverse=True))


def host_branches(desired: DesiredPlan, observed: Inventory) -> Mapping[str, str]:
    """Return by moid the branch of each host's driver: what the plan file asks for, else what is there.

    Hosts of which neither is known are left out.
    """
    found: dict[str, str] = {}
    for moid, facts in observed.facts.hosts.items():
        found[moid] = branch_of(driver_facts(facts.software).version or "")
    for entry in reversed(desired.hosts):
        wanted = branch_of(entry.driver.version or "") if entry.driver is not None else ""
        if wanted:
            found |= dict.fromkeys((host.moid for host in hosts_of(entry, observed)), wanted)
    return {moid: branch for moid, branch in found.items() if branch}
