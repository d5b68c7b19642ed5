"""How many there can be, where more are refused once some are."""

from __future__ import annotations

from collections.abc import Callable


def most_that(passes: Callable[[int], bool], most: int, guess: int = 0) -> int:
    """Return the largest count up to `most` that passes; none does always.

    It is looked for around a `guess`, in steps that double, then in between: a good one takes two questions.
    """
    low, high, step = 0, min(guess, most), 1
    while high > low and not passes(high):
        most, high, step = high - 1, max(low, high - step), 2 * step
    low, high, step = high, high + 1, 1
    while high <= most and passes(high):
        low, high, step = high, high + step, 2 * step
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
