"""Which known failure a text is about that has none of the known words in their order: a paraphrase.

A text is compared with each row by the words that both have. A word weighs the more, the fewer rows
have it; words that say only that something failed weigh nothing. A row is like the text where its words
are a good part of the text, and the text's a good part of the row's.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from vgpu_cfg.knowledge.fault_rows import FaultRow

LONGEST = 600
"""Characters of a text that is compared so: a log has too many words to be about one thing."""
LEAST = {2: 0.6, 3: 0.45}
"""How like a row must be by the number of words that both have (more than three count as three); 1 is the
same words. Below it, unrelated texts were found."""
_NEAR_BEST = 0.9
_UNKNOWN = 0.6
"""What a word weighs that no row has, of what the rarest weighs: people add words of their own."""

_TROUBLE = re.compile(
    r"n't\b|\b(no|not|non|none|never|nobody|only|zero|without|un(able|known|supported|available|licensed|stable|"
    r"correctable|contained|resolvable|satisfied|successful)|in(valid|sufficient|compatible)|im(possible|proper)|"
    r"fail|error|fault|refus|reject|deni|lost|lose|slow|missing|lock|black|purple|hang|hung|stuck|stall|"
    r"mismatch|differ|drop|exceed|above|below|violat|gone|expired?\b|exception|halt|break|fatal|wrong|too|"
    r"exhaust|out of|pending|wait|busy|off\b|lack|fewer|less|compromis|half|xid|corrupt|dead|died|die|crash|"
    r"leak|timed?.?out|watchdog|watch|another|other|already|somebody|beside|needs|fell|fallen|double|class|"
    r"excessive|contained|clean|correct|chang|reset|mark|closed|ended|limit|cannot|forbid|older|newer|"
    r"stopped|is full|wants)",
    re.IGNORECASE,
)
"""What people write of what went wrong. A text without any of it tells of no failure, such as most lines of
a log that share all their words with one."""

_TOKEN = re.compile(r"[a-z][a-z0-9_]+|\d+g\.\d+gb")
_ENDINGS = ("ations", "ation", "ions", "ion", "ings", "ing", "ers", "er", "ed", "es", "s", "e")
_SAME = {
    "card": "gpu",
    "vmotion": "migrat",
    "move": "migrat",
    "start": "power",
    "boot": "power",
    "licence": "license",
    "guest": "vm",
    "machine": "vm",
    "esx": "host",
    "esxi": "host",
    "ram": "memory",
    "passthru": "passthrough",
    "initialise": "initialize",
    "cannot": "",
    "virtual": "",
}
_EMPTY_WORDS = """
a about after again all also an and any anymore are as at be because been but by can could did do does
doesn don during error errors fail failed failing fails failure for from get gets getting give gives got
had has have help here how i if in info into is isn it its just keeps let make me message more my name
new no not of on one only or other our out over pid please problem refuse refused refuses report reported
reports run running s same say saying says see seem seems show shows since so some still t than that the
their them then there these they this though to too try trying unable up us use used uses using very warn
warning was we were what when where which while who why will with without won work working works would
you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())


def like(text: str, rows: Iterable[FaultRow]) -> tuple[FaultRow, ...]:
    """Return the rows that a short text is about by its words, the likest first; mostly none."""
    if len(text) > LONGEST or not _TROUBLE.search(text):
        return ()
    known = tuple(rows)
    asked = words_of(text)
    scored = sorted(
        ((score, row) for row in known if (score := _likeness(asked, row, known))),
        key=lambda one: -one[0],
    )
    return tuple(row for score, row in scored if score >= scored[0][0] * _NEAR_BEST)


def words_of(text: str) -> frozenset[str]:
    """Return the telling words of a text, without their endings."""
    found = (_stem(word) for word in _TOKEN.findall(text.lower()) if word not in _EMPTY)
    return frozenset(word for word in found if word and word not in _EMPTY)


def _stem(word: str) -> str:
    word = _SAME.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word.removesuffix(ending)
            break
    return _SAME.get(word, word)


def _likeness(asked: frozenset[str], row: FaultRow, known: tuple[FaultRow, ...]) -> float:
    """Return how like a row a text is, 0 where it is not enough."""
    weights = _weights(known)
    rarest = math.log(len(known) + 1)

    def weight(words: Iterable[str]) -> float:
        return sum(weights.get(word, _UNKNOWN * rarest) for word in words)

    best = 0.0
    for view in _views(row):
        shared = asked & (view | _extra(row))
        common = weight(shared)
        score = 2 * common / (weight(asked) + max(weight(view), common)) if shared else 0.0
        if score >= LEAST.get(min(len(shared), 3), 1.1):
            best = max(best, score)
    return best


@cache
def _views(row: FaultRow) -> tuple[frozenset[str], ...]:
    """Return the words of the text as it is met, and of what is seen then."""
    return words_of(row.sample), words_of(row.symptom)


@cache
def _extra(row: FaultRow) -> frozenset[str]:
    return words_of(row.words)


@cache
def _weights(known: tuple[FaultRow, ...]) -> dict[str, float]:
    """Return what each word of the rows weighs: little where many rows have it."""
    count = Counter(word for row in known for word in frozenset().union(*_views(row), _extra(row)))
    return {word: math.log((len(known) + 1) / times) for word, times in count.items()}
