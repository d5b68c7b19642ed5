"""Which profiles of the catalogue the command line asks for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

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


def _entries_of(name: str, catalog: Catalog) -> list[ProfileEntry]:
    if name == "*":
        return [entry for board in catalog.boards.values() for entry in board.profiles]
    found = list(catalog.by_profile(name))
    if found:
        return found
    if "-" in name and (close := catalog.suggest(name)) and not _matching(name, catalog):
        raise NotFound(
            f"no profile or board is called {name!r}",
            subject="catalogue",
            remedy=f"did you mean {', '.join(close[:3])}?",
        )
    return [entry for board in matching_boards(name, catalog) for entry in board.profiles]


def matching_boards(pattern: str, catalog: Catalog) -> list[Board]:
    found = _matching(pattern, catalog)
    if not found:
        raise NotFound(
            f"no board matches {pattern!r}",
            subject="catalogue",
            remedy=did_you_mean(pattern, catalog.boards) or "`vgpu-cfg profiles` lists them all",
        )
    return found


def _matching(pattern: str, catalog: Catalog) -> list[Board]:
    """Return the boards whose key is the pattern, else those that it is a glob or a part of.

    Where the key is also what the product is called, as A100, its other forms and sizes come along.
    """
    folded = pattern.casefold()
    exact = [board for key, board in catalog.boards.items() if key.casefold() == folded]
    if any(_is_product(folded, board) for board in exact):
        return [board for board in catalog.boards.values() if _is_product(folded, board)]
    if exact:
        return exact
    glob = folded if any(sign in folded for sign in "*?[") else f"*{folded}*"
    return [
        board
        for board in catalog.boards.values()
        if any(fnmatchcase(text.casefold(), glob) for text in (board.key, board.prefix, *board.names))
    ]


def _is_product(word: str, board: Board) -> bool:
    """Whether the first of a board's names begins with this word: "A100 SXM4 40GB" is an A100."""
    return board.names[0].casefold().split()[0] == word
