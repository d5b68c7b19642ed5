"""How a complaint offers the word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_LIST = 12


_CLOSE = 0.6


def close_to(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known words closest to `word`, whatever the case, the closest first."""
    folded = {choice.casefold(): choice for choice in sorted(set(known))}
    return [folded[one] for one in difflib.get_close_matches(word.casefold(), folded, most, _CLOSE)]


def did_you_mean(word: str, known: Iterable[str], *, noun: str = "") -> str:
    """Suggest the known word closest to `word`.

    Where nothing is close, the known words are listed if they are few and `noun`
    (such as "keys") is given; otherwise the answer is empty.
    """
    choices = sorted(set(known))
    close = close_to(word, choices, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    if noun and 0 < len(choices) <= _LONGEST_LIST:
        return f"known {noun}: {', '.join(choices)}"
    return ""
