"""How many there can be, where more are refused once some are."""

from __future__ import annotations

from collections.abc import Callable


def most_that(passes: Callable[[int], bool], most: int | None = None) -> int:
    """Return the largest count that passes, `most` at the most; none does always.

    What is asked stays small where the answer is: 1, 2, 4 and so on, then in between.
    """
    low, high = 0, 1
    while (most is None or high <= most) and passes(high):
        low, high = high, 2 * high
    if most is not None:
        high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
