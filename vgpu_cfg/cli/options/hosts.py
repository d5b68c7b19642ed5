"""The hosts that `--host` and `--cluster` name, and the profiles and boards that a command line names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry, load_catalog
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.vgpu import Sharing
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


def select_profiles(
    names: Sequence[str], *, boards: Sequence[str], mig: bool, time_sliced: bool, full: bool
) -> list[ProfileEntry]:
    """Return the profiles that every filter lets through, board by board.

    `names` are profiles or boards; each must be known. Raises NotFound with a suggestion.
    """
    catalog = load_catalog()
    entries: list[ProfileEntry] = []
    for name in names or ("*",):
        entries += _entries_of(name, catalog)
    if boards:
        wanted = {board.key for pattern in boards for board in matching_boards(pattern, catalog)}
        entries = [entry for entry in entries if entry.board.key in wanted]
    if mig or time_sliced:
        sharing = Sharing.MIG if mig else Sharing.TIME_SLICED
        entries = [entry for entry in entries if entry.profile.sharing is sharing]
    if full:
        entries = [entry for entry in entries if entry.is_full_framebuffer]
    return entries


def boards_without_profiles(names: Sequence[str], boards: Sequence[str]) -> list[Board]:
    """Return the boards that are asked for and have no vGPU type."""
    catalog = load_catalog()
    wanted: list[Sequence[Board]] = [list(catalog.boards.values())]
    wanted += [
        [one for name in asked for one in catalog.matching(name)] for asked in (names, boards) if asked
    ]
    return [board for board in wanted[-1] if not board.profiles and all(board in some for some in wanted)]


def _entries_of(name: str, catalog: Catalog) -> list[ProfileEntry]:
    if name == "*":
        return [entry for board in catalog.boards.values() for entry in board.profiles]
    found = list(catalog.by_profile(name))
    if found:
        return found
    if "-" in name and (close := catalog.suggest(name)) and not catalog.matching(name):
        raise NotFound(
            f"no profile or board named {name!r}",
            subject="catalogue",
            remedy=f"did you mean {', '.join(close[:3])}?",
        )
    return [entry for board in matching_boards(name, catalog) for entry in board.profiles]


def matching_boards(pattern: str, catalog: Catalog) -> list[Board]:
    found = catalog.matching(pattern)
    if not found:
        raise NotFound(
            f"no board matches {pattern!r}",
            subject="catalogue",
            remedy=did_you_mean(pattern, catalog.boards) or "`vgpu-cfg profiles` lists them all",
        )
    return found
