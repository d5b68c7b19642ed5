"""The catalog: a heading for each board, and its profiles with the number that fits on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.text import Text

from vgpu_cfg.catalog import Board, ProfileEntry
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import Cell, Column, fold, size, table
from vgpu_cfg.render.layout.profiles import pci_text

_COLUMNS = (
    Column("PROFILE"),
    Column("SHARING", drop=1),
    Column("MEMORY", is_right=True),
    Column("MAX", is_right=True),
    Column("MIXED", is_right=True),
    Column("SLICES", is_right=True),
    Column("STARTS AT", is_flexible=True),
    Column("NOTE", is_flexible=True),
)


def render_profiles(entries: Iterable[ProfileEntry], width: int, others: Sequence[Board] = ()) -> list[Text]:
    """Lay out profiles under their boards, then the boards without any.

    MAX is per GPU with all vGPUs alike, after ≤ if only the framebuffer bounds it; MIXED the same in
    mixed-size mode; SLICES are MIG memory slices, STARTS AT the slices, or in mixed-size mode the GB, at
    which one may begin.
    """
    by_board: dict[str, list[ProfileEntry]] = {}
    for entry in entries:
        by_board.setdefault(entry.board.key, []).append(entry)
    lines: list[Text] = []
    for listed in by_board.values():
        lines += [Text("")] if lines else []
        lines += _heading(listed[0].board, width)
        lines += table(_COLUMNS, [_cells(entry) for entry in listed], width)
    for board in others:
        lines += [Text("")] if lines else []
        lines += [*_heading(board, width), Text("  no known vGPU types")]
    shown = sum(len(listed) for listed in by_board.values())
    lines += [Text("")] if lines else []
    return [*lines, Text(f"{counted(shown, 'profile')} on {counted(len(by_board) + len(others), 'board')}")]


def _heading(board: Board, width: int) -> list[Text]:
    facts = [
        board.architecture,
        f"{size(board.framebuffer_mib)} {board.memory_type}",
        *([f"{board.gpus_per_board} GPUs"] if board.gpus_per_board > 1 else []),
        f"MMIO {board.mmio_gb} GB" if board.mmio_gb else "no large MMIO",
        *(["NVSwitch"] if board.is_nvswitch else []),
        *([] if board.is_esxi else ["not on ESXi"]),
        f"PCI {pci_text(board)}",
    ]
    title = Text.assemble((", ".join(board.names[:3]), "bold"), f"  {', '.join(facts)}")
    return fold(title, width, hang=2)


def _cells(entry: ProfileEntry) -> Sequence[Cell]:
    is_mig = entry.profile.sharing is Sharing.MIG
    starts = entry.mig_starts if is_mig else entry.mixed_starts
    notes = [
        *(["whole GPU"] if entry.is_full_framebuffer else []),
        *(["NVLink"] if entry.is_nvlink_p2p else []),
        *([entry.mig.instance] if entry.mig else []),
        *([] if entry.listed else ["derived from the naming rule"]),
    ]
    return [
        entry.name,
        "MIG" if is_mig else "time-sliced",
        size(entry.framebuffer_mib),
        str(entry.max_per_gpu) if entry.is_max_known else f"≤{entry.max_per_gpu}",
        "" if entry.max_mixed is None else str(entry.max_mixed),
        str(entry.mig_size) if is_mig else "",
        _starts(starts),
        ", ".join(notes),
    ]


def _starts(starts: tuple[int, ...] | None) -> str:
    """Write places in short: 0, 4, 8, 12 become "0-12 by 4"."""
    if not starts:
        return ""
    steps = {after - before for before, after in pairwise(starts)}
    if len(starts) > 3 and len(steps) == 1:
        step = steps.pop()
        return f"{starts[0]}-{starts[-1]}" + (f" by {step}" if step > 1 else "")
    return ", ".join(str(start) for start in starts)
