"""How a complaint offers the word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_LIST = 12


def did_you_mean(word: str, known: Iterable[str], *, noun: str = "") -> str:
    """Suggest the known word closest to `word`.

    Where nothing is close, the known words are listed if they are few and `noun`
    (such as "keys") is given; otherwise the answer is empty.
    """
    choices = sorted(set(known))
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    if noun and 0 < len(choices) <= _LONGEST_LIST:
        return f"known {noun}: {', '.join(choices)}"
    return ""
