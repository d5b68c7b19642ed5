"""Which GPUs of a host can be NVLink peers of one VM: bridged ones, and the partitions of an NVSwitch board.

Fabric Manager divides a board of eight GPUs into one partition of eight, two of four (modules 1-4 and
5-8) and four of two (Fabric Manager user guide, shared NVSwitch; a field report by Frank Denneman shows
the same on vSphere). vCenter tells how many GPUs a device group has, not which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from vgpu_cfg.catalog import Board
from vgpu_cfg.model.inventory import DeviceGroupInfo, Host
from vgpu_cfg.planning.words import is_at_least

GROUPS_FROM = (8, 0)
"""The first release with vendor device groups."""
NVSWITCH_GPUS = 8
_MODULE_PARTITIONS = (
    (1, 2, 3, 4, 5, 6, 7, 8),
    (1, 2, 3, 4),
    (5, 6, 7, 8),
    (1, 3),
    (2, 4),
    (5, 7),
    (6, 8),
)
_MODULES_BY_ADDRESS = (2, 4, 1, 3, 7, 5, 6, 8)
"""Modules in the order of PCI addresses, as a field report shows them; taken where nobody tells."""


def has_group_api(host: Host) -> bool:
    """Whether the host's release has device groups."""
    return is_at_least(host.version, GROUPS_FROM)


def group_of(host: Host, profile: str, count: int) -> DeviceGroupInfo | None:
    """Return the device group of so many vGPUs of a profile and nothing else, None where there is none."""
    wanted = (("nvidiaVgpu", profile),) * count
    return next((group for group in host.device_groups if group.components == wanted), None)


def peer_sets(
    host: Host,
    boards: Sequence[Board | None],
    domains: Iterable[frozenset[str]] = (),
    modules: Mapping[str, int] | None = None,
) -> tuple[frozenset[int], ...]:
    """List the sets of GPUs, by index, that could be one device group each; the large ones first.

    `boards` are those of the host's GPUs. `domains` are the addresses of GPUs that NVLink is known to
    join, `modules` the module ids; without them both are derived from the order of the addresses.
    """
    found: dict[frozenset[int], None] = {}
    for board in dict.fromkeys(board for board in boards if board is not None):
        profile = board.nvlink_p2p_profile
        if profile is None:
            continue
        names = {
            name for prefix in board.prefixes for name in (prefix + profile.name[len(profile.prefix) :],)
        }
        sizes = {len(group.components) for group in host.device_groups if _profile_of(group) in names}
        own = [index for index, one in enumerate(boards) if one is board]
        own.sort(key=lambda index: host.gpus[index].pci_id)
        told = [domain for domain in domains if domain & {host.gpus[index].pci_id for index in own}]
        for domain in _domains(host, board, own, sizes, told):
            found |= dict.fromkeys(_sets_of(host, board, domain, sizes, modules or {}))
    return tuple(sorted(found, key=lambda one: (-len(one), sorted(one))))


def _profile_of(group: DeviceGroupInfo) -> str | None:
    """Return the one profile of a group of vGPUs, None for a group of other things."""
    profiles = set(group.components)
    if len(profiles) != 1 or len(group.components) < 2:
        return None
    kind, profile = profiles.pop()
    return profile if kind == "nvidiaVgpu" else None


def _domains(
    host: Host, board: Board, own: Sequence[int], sizes: set[int], told: Sequence[frozenset[str]]
) -> Iterator[list[int]]:
    """Yield what NVLink joins: as told, else all on an NVSwitch, else neighbours of one NUMA node."""
    if told:
        for domain in told:
            yield [index for index in own if host.gpus[index].pci_id in domain]
        return
    if board.is_nvswitch:
        yield list(own)
        return
    if not sizes:
        return
    most = max(sizes)
    by_node: dict[int | None, list[int]] = {}
    for index in own:
        by_node.setdefault(host.gpus[index].numa_node, []).append(index)
    whole = [list(own)] if any(len(indexes) < most for indexes in by_node.values()) else by_node.values()
    for indexes in whole:
        for begin in range(0, len(indexes) - most + 1, most):
            yield indexes[begin : begin + most]


def _sets_of(
    host: Host, board: Board, domain: Sequence[int], sizes: set[int], modules: Mapping[str, int]
) -> Iterator[frozenset[int]]:
    if board.is_nvswitch and len(domain) == NVSWITCH_GPUS:
        by_module = {modules.get(host.gpus[index].pci_id): index for index in domain}
        if set(by_module) != set(_MODULES_BY_ADDRESS):
            by_module = dict(zip(_MODULES_BY_ADDRESS, domain, strict=True))
        for partition in _MODULE_PARTITIONS:
            if len(partition) in sizes:
                yield frozenset(by_module[module] for module in partition)
        return
    for size in sizes:
        if size <= len(domain):
            yield from map(frozenset, combinations(domain, size))
