"""Which guest driver branches a host's NVIDIA driver takes.

The rule is that of NVIDIA's vGPU 19.0 release notes for VMware vSphere, 1.2: the guest driver is of the
host's release, of the branch before it, or, on a host of a long-term support branch, of the long-term one
before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts
from vgpu_cfg.planning.host_settings.select import hosts_of


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch, and the release of vGPU software that it came with.

    `unproven` are older branches of guests that NVIDIA's rule neither names nor shuts out in words.
    """

    number: str
    release: int
    is_long_term: bool = False
    unproven: tuple[str, ...] = ()


BRANCHES = (
    Branch("460", 12),
    Branch("470", 13, is_long_term=True),
    Branch("510", 14),
    Branch("525", 15),
    Branch("535", 16, is_long_term=True),
    Branch("550", 17),
    # Its own release notes were not read; the long-term branch before it may be taken.
    Branch("570", 18, unproven=("535",)),
    Branch("580", 19, is_long_term=True),
    # As 570; 580, which is taken, takes both of these.
    Branch("595", 20, unproven=("570", "535")),
)
"""One after another. Releases 15 to 17, 19 and 20 are NVIDIA's, the rest recalled. 535 and 580 are long-term
and 595 is not, by NVIDIA's list of data center drivers; 470 is recalled."""

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
    """Return the guest driver branches that may run on a host's, newest first, unproven ones too.

    Empty for a branch that is not known, as a newer one: any may run.
    """
    host = next((one for one in BRANCHES if one.number == host_branch), None)
    if host is None:
        return ()
    older = BRANCHES[: BRANCHES.index(host)]
    long_term = [one for one in older if one.is_long_term and host.is_long_term]
    taken = {host, *older[-1:], *long_term[-1:]}
    return tuple(sorted({*(one.number for one in taken), *host.unproven}, reverse=True))


def is_unproven(host_branch: str, guest_branch: str) -> bool:
    """Whether nobody has said that a host's driver takes guests of this branch, nor that it does not."""
    if not host_branch or host_branch == guest_branch:
        return False
    host = next((one for one in BRANCHES if one.number == host_branch), None)
    return host is None or guest_branch in host.unproven


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
