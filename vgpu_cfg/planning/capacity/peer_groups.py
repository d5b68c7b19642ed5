"""Which GPUs of a host can be NVLink peers of one VM: bridged ones, and the partitions of an NVSwitch board.

Fabric Manager divides a board of eight GPUs into one partition of eight, two of four (modules 1-4 and
5-8) and four of two. These are the partitions of a printed `fmpm -l` of an HGX H100, and of NVIDIA's guide to
shared NVSwitch (WP-12736-002); a field report by Frank Denneman shows the same on vSphere.

Belief: group-of-one-profile-is-peers, group-profile-means-a-bridge, group-gpus-follow-numa.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, Host
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.capacity.topology import Domain, Topology

GROUPS_FROM = (8, 0)
"""The first release with vendor device groups."""
_MODULE_PARTITIONS = (
    (1, 2, 3, 4, 5, 6, 7, 8),
    (1, 2, 3, 4),
    (5, 6, 7, 8),
    (1, 3),
    (2, 4),
    (5, 7),
    (6, 8),
)
_MODULES_BY_ADDRESS = (2, 4, 1, 3, 6, 8, 5, 7)
"""Modules in the order of PCI addresses, as a report of one HGX H100 shows them; a guess without other data.

Other baseboards have others: in an example of NVIDIA's guide to shared NVSwitch (WP-12736-002) the modules 1
to 4 have the higher addresses. So unless a shell reported them, the GPUs of a partition are a guess.
"""


def has_group_api(host: Host) -> bool:
    """Whether the host's release has device groups."""
    return is_at_least(host.version, GROUPS_FROM)


def group_of(host: Host, profile: str, count: int) -> DeviceGroupInfo | None:
    """Return the device group of so many vGPUs of a profile and nothing else, None where there is none."""
    return next((group for group in host.device_groups if group.peers == (profile, count)), None)


def peer_sets(topology: Topology, *, with_guesses: bool = True) -> tuple[frozenset[int], ...]:
    """List the sets of GPUs, by index, that could be one device group each; the large ones first.

    vCenter reports how many GPUs a group has, not which: the NVLink domains do, as far as they are known.
    Without guesses, any GPUs of the guessed domains could be.
    """
    indexes = {gpu.pci_id: index for index, gpu in enumerate(topology.host.gpus)}
    domains = list(topology.domains)
    found = {
        frozenset(indexes[pci_id] for pci_id in members)
        for domain in domains
        for members in _sets_of(domain, topology)
    }
    guessed = [] if with_guesses else [domain for domain in domains if _is_guess(domain, topology)]
    for sizes in {topology.group_sizes(domain) for domain in guessed}:
        alike = (domain.gpus for domain in guessed if topology.group_sizes(domain) == sizes)
        gpus = sorted(indexes[pci_id] for domain in alike for pci_id in domain)
        found |= {frozenset(members) for size in sizes for members in combinations(gpus, size)}
    return tuple(sorted(found, key=lambda one: (-len(one), sorted(one))))


def _is_guess(domain: Domain, topology: Topology) -> bool:
    """Whether the joined GPUs, or their modules on an NVSwitch board, are a guess.

    An unreported one, as of a passthrough GPU, follows from the others.
    """
    unknown = sum(topology.module(gpu) is None for gpu in domain.gpus)
    return not domain.is_certain or (domain.kind == "nvswitch" and unknown > 1)


def _sets_of(domain: Domain, topology: Topology) -> Iterator[Collection[str]]:
    sizes = topology.group_sizes(domain)
    gpus = sorted(domain.gpus)
    if domain.kind == "nvswitch" and len(baseboard := _baseboard(domain, topology)) == len(
        _MODULES_BY_ADDRESS
    ):
        by_module = _by_module(baseboard, topology)
        for partition in _MODULE_PARTITIONS:
            members = [by_module[module] for module in partition]
            if len(partition) in sizes and domain.gpus.issuperset(members):
                yield members
        return
    for size in sizes:
        yield from (members for members in combinations(gpus, size) if topology.are_peers(members))


def _baseboard(domain: Domain, topology: Topology) -> list[str]:
    """List the GPUs of the domain's board, with those that are passed through: a partition counts modules."""
    own = {gpu.pci.device_id for gpu in topology.host.gpus if gpu.pci_id in domain.gpus}
    return sorted(gpu.pci_id for gpu in topology.host.gpus if gpu.pci.device_id in own)


def _by_module(gpus: Sequence[str], topology: Topology) -> dict[int, str]:
    reported = {module: gpu for gpu in gpus if (module := topology.module(gpu)) is not None}
    if len(reported) == len(gpus) - 1:
        module = next(one for one in _MODULES_BY_ADDRESS if one not in reported)
        reported[module] = next(gpu for gpu in gpus if gpu not in reported.values())
    if set(reported) == set(_MODULES_BY_ADDRESS):
        return reported
    return dict(zip(_MODULES_BY_ADDRESS, gpus, strict=True))
