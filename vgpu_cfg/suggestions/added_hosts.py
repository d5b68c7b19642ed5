"""Hosts that one thinks of adding, in words: `2 x esx-01 with 4 x L40S, mixed size`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.suggestions.acts import more_hosts, with_boards

FORM = "COUNT x HOST [with GPUS x BOARD][, same size | mixed size | MIG]"
EXAMPLE = "2 x esx-01 with 4 x L40S, mixed size"
MOST_HOSTS = 1000
MOST_GPUS = 32
_WORDS = re.compile(
    r"(?:(?P<count>\d+)\s*[x×]\s*)?(?P<host>[^\s,]+)"
    r"(?:\s+with\s+(?P<gpus>\d+)\s*[x×]\s*(?P<board>[^,]+?))?"
    r"(?:\s*,\s*(?P<mode>same size|mixed size|mig))?",
    re.IGNORECASE,
)
_MODES = {
    "same size": (Sharing.TIME_SLICED, VgpuMode.SAME_SIZE),
    "mixed size": (Sharing.TIME_SLICED, VgpuMode.MIXED_SIZE),
    "mig": (Sharing.MIG, VgpuMode.SAME_SIZE),
}


@dataclass(frozen=True, slots=True)
class Grown:
    """An estate with hosts that are not there; `added` are their names, by the words that asked for them."""

    observed: Inventory
    added: dict[str, tuple[str, ...]]


def add_hosts(observed: Inventory, texts: Sequence[str], catalog: Catalog) -> Grown:
    """Add hosts as `FORM` has it, each like one that is there, in its cluster and with nothing on it.

    Raises ValueError, which says what to write, for a host or board that is not known, other words, counts
    beyond `MOST_HOSTS` and `MOST_GPUS`, a board without MIG, and a host of several boards to set a mode of.
    """
    grown = observed
    added: dict[str, tuple[str, ...]] = {}
    for text in texts:
        match = _WORDS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} does not match {FORM}, for example {EXAMPLE!r}")
        like = _model(match, observed, catalog)
        count = _within(match["count"] or "1", MOST_HOSTS, "hosts", text)
        before = len(grown.hosts)
        grown = more_hosts(like, count)(grown)
        names = tuple(host.name for host in grown.hosts[before:])
        added[text] = (*added.get(text, ()), *names)
    return Grown(grown, added)


def _model(match: re.Match[str], observed: Inventory, catalog: Catalog) -> Host:
    like = _host(match["host"], observed)
    if match["board"] is None and match["mode"] is None:
        return like
    board = _board(match["board"].strip(), catalog) if match["board"] else _only_board(like, catalog)
    gpus = _within(match["gpus"], MOST_GPUS, "GPUs", match[0]) if match["gpus"] else len(like.gpus)
    mode = (match["mode"] or "same size").lower()
    if mode == "mig" and not any(entry.profile.sharing is Sharing.MIG for entry in board.profiles):
        raise ValueError(f"{board.name} does not support MIG mode; omit ', MIG'")
    return with_boards(like, board, gpus, *_MODES[mode])


def _host(name: str, observed: Inventory) -> Host:
    """Return a host by its name, or by that without its domain where no other begins so."""
    exact = [host for host in observed.hosts if host.name == name]
    short = [host for host in observed.hosts if host.name.partition(".")[0] == name]
    for found in (exact, short):
        if len(found) == 1:
            return found[0]
    names = [host.name for host in observed.hosts]
    hint = did_you_mean(name, names, noun="hosts") or "run `vgpu-cfg inventory` to list them"
    raise ValueError(f"host {name!r} not found, so no similar host can be added; {hint}")


def _board(name: str, catalog: Catalog) -> Board:
    for board in catalog.boards.values():
        if board.name.casefold() == name.casefold():
            return board
    try:
        return catalog.board(name)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from error


def _only_board(like: Host, catalog: Catalog) -> Board:
    """Return the one board that all GPUs of a host are."""
    found = {board.key: board for gpu in like.gpus if (board := catalog.of_device(gpu.pci)) is not None}
    if len(found) != 1:
        told = ", ".join(sorted(found)) or "none that are in the catalog"
        raise ValueError(
            f"the boards in {like.name} are {told}; specify the board and number, for example {EXAMPLE!r}"
        )
    return next(iter(found.values()))


def _within(number: str, most: int, what: str, text: str) -> int:
    count = int(number) if len(number) < len(str(most)) + 1 else most + 1
    if not 1 <= count <= most:
        raise ValueError(f"{text!r} requests {number} {what}; specify 1 to {most}")
    return count
