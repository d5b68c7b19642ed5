"""Which profiles of the catalogue the command line asks for."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry, load_catalog
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.vgpu import Sharing


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
