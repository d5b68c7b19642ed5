"""A proposal of moves on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.changes.plan import LostHost
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration, listed
from vgpu_cfg.planning.moves.rebalance import Move, MoveMethod, Rebalance, RebalanceResult
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, hanging, table
from vgpu_cfg.render.text.plan.whole import lost_lines

_MOST_SHOWN = 6
_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("FROM"),
    Column("TO"),
    Column("HOW"),
    Column("STUN", is_right=True),
    Column("VGPUS", is_flexible=True, drop=1),
)


def render_rebalance(
    found: Rebalance, plan: str, server: str, width: int, *, lost: Sequence[LostHost] = ()
) -> list[Text]:
    """Lay the proposal out: the moves, how each is made, and who gets a place by them."""
    lines = both_ends(Text(plan, style="bold"), Text(server, style="dim"), width)
    lines += lost_lines(lost, width)
    for error in found.errors:
        lines += hanging("NOTE", f"{error.code} {error.subject.name}: {error.text}", width, indent=0)
    if found.moves:
        lines += [Text(""), *table(_COLUMNS, [_cells(move) for move in found.moves], width), Text("")]
        for move in found.moves:
            if move.why_cold:
                lines += hanging("COLD", f"{move.vm}: {move.why_cold}", width, indent=0)
    for doubt in found.uncertain_starts:
        lines += hanging("RISK", doubt, width, indent=0, style="yellow")
    if found.outcome in (RebalanceResult.NONE, RebalanceResult.LIMIT):
        for stay in found.stays[:_MOST_SHOWN]:
            lines += hanging("STAYS", f"{stay.vm} on {stay.host}: {stay.why}", width, indent=0)
    lines += hanging("RESULT", _result(found, is_all=not lost), width, indent=0, style="bold")
    lines += hanging("HINT", _restart_text(found), width, indent=0) if found.restarts else []
    if found.moves:
        words = "make these moves in vCenter in this order, then run `plan` again"
        lines += hanging("DO", words, width, indent=0)
    return lines


def _restart_text(found: Rebalance) -> str:
    names = (f"{one.vm} on {one.host}" for one in found.restarts)
    which = listed(names, shown=_MOST_SHOWN, separator=" or ")
    return (
        f"if ESXi selects another GPU, restarting {which} makes room without a move. This cannot be "
        "controlled: power-cycle the VM and check"
    )


def _cells(move: Move) -> list[Cell]:
    is_cold = move.how is MoveMethod.COLD
    stun = "" if is_cold else "unknown" if move.stun_ms is None else duration(move.stun_ms / 1000)
    return [
        move.vm,
        move.source,
        move.target,
        Text(str(move.how), style="yellow" if is_cold else "green"),
        stun,
        ", ".join(move.profiles),
    ]


def _result(found: Rebalance, *, is_all: bool) -> str:
    unplaced = fold_names(found.unplaced)
    match found.outcome:
        case RebalanceResult.FITS if found.errors:
            return "VMs of the plan cannot be placed for the reasons above; moves would not help"
        case RebalanceResult.FITS:
            every = "every VM" if is_all else "every other VM"
            return f"{every} of the plan can be placed; no moves needed"
        case RebalanceResult.MOVES:
            verb = "fits" if len(found.unplaced) == 1 else "fit"
            doubt = ", subject to the risk above" if found.uncertain_starts else ""
            moves = counted(len(found.moves), "move")
            return f"after {moves} {unplaced} {verb}{doubt}: {_how_text(found)}"
        case RebalanceResult.NONE:
            return f"no combination of up to three moves makes room for {unplaced}"
        case RebalanceResult.LIMIT:
            tried = counted(found.trials, "set", "sets")
            return f"none of the {tried} of moves tried makes room for {unplaced}; other moves may"


def _how_text(found: Rebalance) -> str:
    cold = [move.vm for move in found.moves if move.how is MoveMethod.COLD]
    return f"{listed(cold)} must be powered off during the move" if cold else "no VM needs to be powered off"
