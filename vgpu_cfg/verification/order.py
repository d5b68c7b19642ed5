"""In which order pairs meet, and whether what a check rests on holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.verification import CheckResult, CheckState
from vgpu_cfg.verification.table import CheckBase

_BROKEN = (CheckState.FAILED, CheckState.NOT_ASKED)


def broken(
    check: CheckBase, found: Mapping[tuple[str, str], CheckResult], among: Sequence[str], *, own: str
) -> str:
    """Say which broken link a check rests on, "" where none is.

    `among` names the subjects whose links count. The one that failed itself is told, not its followers.
    """
    for key in check.rests_on:
        for name in among:
            result = found.get((key, name))
            if result is None or result.state not in _BROKEN:
                continue
            if result.state is CheckState.NOT_ASKED:
                where = "" if name == own or " on " in result.why else f" on {name}"
                return f"{result.why}{where}"
            return f"{key} failed" if name == own else f"{key} failed on {name}"
    return ""


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Divide all pairs of `count` members into rounds in which each takes part once at most.

    The first member stays in its place while the others go round (the circle method).
    """
    places: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    made: list[list[tuple[int, int]]] = []
    for _ in range(max(0, len(places) - 1)):
        half = len(places) // 2
        facing = zip(places[:half], reversed(places[half:]), strict=True)
        made.append(
            [
                (min(one, other), max(one, other))
                for one, other in facing
                if one is not None and other is not None
            ]
        )
        places = [places[0], places[-1], *places[1:-1]]
    return made
