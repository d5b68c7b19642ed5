"""The meaning of error texts of vCenter, ESXi, NVIDIA and the software on them, and of a VM's vmware.log.

vCenter gives most failures of a vGPU as free text (`GenericVmConfigFault`), so texts are matched, the
specific ones before the general ones; a fault's type helps if it is specific enough. White space, case,
quotes, line breaks and a log's line prefixes do not matter. A text in other words is looked up by similarity;
only `explain_text` does, for a person who asks: a run reports no guess.

Such a paraphrase is compared with each row by the words that both have. A word weighs the more, the fewer
rows have it; words that say only that something failed weigh nothing. A row is like the text where its words
are a good part of the text, and the text's a good part of the row's.

Since 8.0 a line of vmware.log is `TIME In(05) vmx - MESSAGE`, before it was `TIME| vmx| I125: MESSAGE`, with
or without an empty field (Dell KB 000199172, Broadcom KB 323402).

Belief: power-on-texts-and-faults, explain-texts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow, any_of
from vgpu_cfg.model.frozen import Frozen

_MOST_LINES = 12
"""Lines of a text that may be one text, wrapped: a message that was copied from a window or a mail."""
_CURLED = (0x2018, 0x2019, 0x201C, 0x201D, 0x201E, 0xAB, 0xBB, 0xB4, 0x300C, 0x300D)
"""Quotes that mails, wikis and vCenter's languages write."""
_OF_PARAMETER = re.compile(
    r"(?:[^\x00-\x7f][^\n:\uff1a]*|war nicht \w+ ?)[:\uff1a] ?"
    r"(?=\S*(?:spec|configSpec|config)(?:\[\d+\])?\.[a-z])"
)
"""vCenter's text on a wrong parameter in another language; the path after it is never translated."""
_QUOTES = str.maketrans({**dict.fromkeys(map(ord, '"`'), "'"), **dict.fromkeys(_CURLED, "'"), 0xA0: " "})
_BEFORE = re.compile(
    r"^\s*(?:>\s*)*"
    r"(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s*"  # 2026-03-02T10:11:12.345Z
    r"|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d\s+"  # Mar  2 10:11:12
    r"|\[\s*\d+\.\d+\]\s*"  # [ 269.516977]
    r"|\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\]\s*)?"  # [Sat Oct 29 20:58:55 2022]
    r"(?:NVRM:\s+)?"
)
_BROKEN = re.compile(r"(?<=\w)-\n\s*")

LONGEST = 600
"""Characters of a text that is compared so: a log has too many words to be about one thing."""
LEAST = {2: 0.85, 3: 0.75}
"""How like a row must be by the number of words that both have (more than three count as three); 1 is the
same words. It was frozen before the texts of `tests/unit/knowledge/fresh` were collected: a wrong answer is
worse than none."""
_NEAR_BEST = 0.9
"""If another row has this share of the best likeness, the text may be about either: none is returned."""
_UNKNOWN = 0.6
"""The weight of a word in no row, relative to the rarest one: people add words of their own."""

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
"""Words by which people describe failures. A text without any of them reports no failure, such as most lines
of a log that share all their words with one.
"""

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


class Explanation(Frozen):
    """A known failure: `key` is its permanent name, `confidence` how it is known, `source` its origin.

    `sample` is a typical text, `place` its place. `check` is the proof, a line for each command or place.
    `is_general` ones are vague.
    """

    key: str
    symptom: str
    sample: str
    place: str
    cause: str
    check: tuple[str, ...]
    remedy: str
    source: str
    confidence: Confidence
    is_general: bool = False


class LogLine(Frozen):
    """A line of a text that shows a known failure; `index` counts from 0."""

    index: int
    text: str
    key: str


class Found(Frozen):
    """A known failure that a text reports. `is_likely` if only its words are similar."""

    explanation: Explanation
    line: LogLine | None = None
    is_likely: bool = False


def explain_text(text: str) -> tuple[Found, ...]:
    """Return the explanations of a person's text, the most specific first.

    If no row has its words verbatim, similar ones are returned, marked as likely.
    """
    if (named := explanation_of(text.strip())) is not None:
        return (Found(explanation=named),)
    is_one_line = len(text.strip().splitlines()) == 1
    lines = {} if is_one_line else {line.key: line for line in explain_lines(text)}
    if known := explain_log(text):
        return tuple(Found(explanation=found, line=lines.get(found.key)) for found in known)
    alike = like(_joined(_plain(text)), _rows())
    return () if alike is None else (Found(explanation=_explanation(alike), is_likely=True),)


def explain_fault(text: str, fault: str = "") -> Explanation | None:
    """Return the most telling explanation of an error text, None where it is not known.

    `fault` is the name of the fault's type, such as "InsufficientGraphicsResourcesFault".
    """
    forms = _forms(text)
    known = _possible(*forms)
    by_text = next((row for row in known if _matches(row, forms)), None)
    if by_text is not None and by_text.is_general:
        by_text = next((row for row in known if not row.is_general and _matches(row, forms)), by_text)
    by_fault = next((row for row in _rows() if fault in row.faults), None)
    # A text that is known only in general gives way to a fault that says what it is.
    found = by_fault if by_text is None or (by_text.is_general and by_fault is not None) else by_text
    return _explanation(found) if found is not None else None


def explain_log(text: str) -> tuple[Explanation, ...]:
    """Return every explanation that a pasted log gives, each once, the most telling first.

    A general one ("power on failed") is left out where a telling one is there. The name of a
    fault's type in the text counts where no words of the text do.
    """
    forms = _forms(text)
    found = [row for row in _possible(*forms) if _matches(row, forms)]
    telling = [row for row in found if not row.is_general]
    if not telling:
        words = {word.removesuffix("Fault") for word in re.findall(r"\w+", text)}
        named = [row for row in _rows() if words & {fault.removesuffix("Fault") for fault in row.faults}]
        telling = [row for row in named if not row.is_general]
    return tuple(_explanation(row) for row in telling or found)


def explain_lines(text: str) -> tuple[LogLine, ...]:
    """Return the lines that show a known failure, the first of each, the most telling first.

    A general one is left out where a telling one is there, as in `explain_log`.
    """
    lines = text.splitlines()
    plain = _plain(text)
    plain_lines = plain.splitlines()
    found: list[tuple[FaultRow, LogLine]] = []
    for row in _possible(plain):
        if not row.matches(plain):  # once over a log of megabytes, not once for each of its lines
            continue
        index = next((number for number, line in enumerate(plain_lines) if row.matches(line)), None)
        if index is not None:
            found.append((row, LogLine(index=index, text=lines[index], key=row.key)))
    telling = [line for row, line in found if not row.is_general]
    return tuple(telling or [line for _, line in found])


def explanation_of(key: str) -> Explanation | None:
    """Return the explanation with this key, None where no row has it."""
    return next((_explanation(row) for row in _rows() if row.key == key), None)


def is_machine_fault(line: str) -> bool:
    """Return whether a line of a guest's kernel log shows that the machine itself is at fault."""
    return _kernel_pattern().search(_plain(line)) is not None


@cache
def _kernel_pattern() -> re.Pattern[str]:
    return any_of(pattern for row in _rows() for pattern in row.kernel)


def count_known() -> int:
    """Return how many failures are known."""
    return len(_rows())


def _plain(text: str) -> str:
    """Return a text with plain quotes, and a wrong parameter's path after the English words."""
    return _OF_PARAMETER.sub("specified parameter was not correct: ", text.translate(_QUOTES))


def _without_times(text: str) -> str:
    """Return a text without a log's line prefixes."""
    return "\n".join(_BEFORE.sub("", line) for line in text.splitlines())


def _forms(text: str) -> tuple[str, ...]:
    """Return a text with plain quotes; and as one line, if it may be one that was wrapped."""
    plain = _plain(text)
    if not 1 < len(plain.strip().splitlines()) <= _MOST_LINES:
        return (plain,)
    return plain, _joined(plain)


def _joined(plain: str) -> str:
    """Return a wrapped text as one line; a word that was broken at its hyphen is whole again."""
    return " ".join(_BROKEN.sub("-", _without_times(plain)).split())


def _matches(row: FaultRow, forms: tuple[str, ...]) -> bool:
    return any(row.matches(form) for form in forms)


def _possible(*forms: str) -> list[FaultRow]:
    """Return the rows that a text can match: it contains a certain part of one of their patterns."""
    lowered = "\n".join(forms).lower()
    places = {place for word, places in _places_by_word().items() if word in lowered for place in places}
    return [_rows()[place] for place in sorted(places)]


@cache
def _places_by_word() -> dict[str, list[int]]:
    """Return the places in the table of the rows by their sure words."""
    found: dict[str, list[int]] = {}
    for place, row in enumerate(_rows()):
        for word in row.sure_words:
            found.setdefault(word, []).append(place)
    return found


def _explanation(row: FaultRow) -> Explanation:
    from vgpu_cfg.knowledge.rows.table import place_of

    return Explanation(
        key=row.key,
        symptom=row.symptom,
        sample=row.sample,
        place=place_of(row.key),
        cause=row.cause,
        check=row.check,
        remedy=row.remedy,
        source=row.source,
        confidence=row.confidence,
        is_general=row.is_general,
    )


@cache
def _rows() -> tuple[FaultRow, ...]:
    """Return all rows; they are loaded only when something has failed."""
    from vgpu_cfg.knowledge.rows.table import ROWS

    return ROWS


def like(text: str, rows: Iterable[FaultRow]) -> FaultRow | None:
    """Return the row that a short text is about by its words; mostly none, and none if two are alike."""
    if len(text) > LONGEST or not _TROUBLE.search(text):
        return None
    known = tuple(row for row in rows if not row.is_verbatim)
    asked, weights, rarest = words_of(text), _weights(known), math.log(len(known) + 1)
    scored = sorted(
        ((score, row) for row in known if (score := _likeness(asked, row, weights, rarest))),
        key=lambda one: -one[0],
    )
    near = [row for score, row in scored if score >= scored[0][0] * _NEAR_BEST]
    return near[0] if len(near) == 1 else None


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


def _likeness(asked: frozenset[str], row: FaultRow, weights: Mapping[str, float], rarest: float) -> float:
    """Return how like a row a text is, 0 where it is not enough."""

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
    """Return the words of the typical text, and of the visible effect."""
    return words_of(row.sample), words_of(row.symptom)


@cache
def _extra(row: FaultRow) -> frozenset[str]:
    return words_of(row.words)


@cache
def _weights(known: tuple[FaultRow, ...]) -> dict[str, float]:
    """Return what each word of the rows weighs: little where many rows have it."""
    count = Counter(word for row in known for word in frozenset().union(*_views(row), _extra(row)))
    return {word: math.log((len(known) + 1) / times) for word, times in count.items()}


LOG_NAME = "vmware.log"

_BEGIN = "Log for VMware ESX"
_NEW = re.compile(r"\S+ [A-Z][a-z]\(\d+\)\S* \S+ - ")
_OLD = re.compile(r"[^|]*\|[^|]*\|(?:[^|]*\|)?\s*[A-Z]\d+: ?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_SIGN = re.compile(r"vmiop|\bNVRM\b|Msg_Post: Error|^\[msg\.|\bfail(ed|ing|ure)?\b|\berror\b", re.IGNORECASE)

RECONFIGURE = "VirtualMachine.reconfigure"
"""vCenter's description id of a task that changes a VM's configuration."""


class VmLog(Frozen):
    """The lines that the VM's last start left, without line breaks.

    `path` is the datastore path. `first` is the number of the first line in the file, counted
    from 1, None where only the file's end was read.
    """

    path: str
    lines: tuple[str, ...]
    first: int | None = None

    @property
    def known(self) -> tuple[LogLine, ...]:
        """The lines that show a known failure, the most telling first."""
        return explain_lines("\n".join(self.lines))

    @property
    def signs(self) -> tuple[int, ...]:
        """The indexes of lines that may report a failure, if none is known."""
        return tuple(index for index, line in enumerate(self.lines) if _SIGN.search(message(line)))

    @property
    def begun_at(self) -> datetime | None:
        """The beginning of its start, None if no line shows it."""
        return next((time for line in self.lines if (time := time_of(line)) is not None), None)

    @property
    def ended_at(self) -> datetime | None:
        """When its last line was written, None where no line says."""
        return next((time for line in reversed(self.lines) if (time := time_of(line)) is not None), None)

    def shortened(self, most: int) -> VmLog:
        """Return the log with so many characters of its end at most, in whole lines."""
        left, count = most, 0
        for line in reversed(self.lines):
            left -= len(line) + 1
            if left < 0:
                break
            count += 1
        cut = len(self.lines) - count
        first = None if self.first is None else self.first + cut
        return VmLog(path=self.path, lines=self.lines[cut:], first=first)

    def place(self, index: int) -> str:
        """Name a line: "vmware.log:412", without a number where it is not known."""
        return LOG_NAME if self.first is None else f"{LOG_NAME}:{self.first + index}"


def last_start(path: str, text: str, *, is_whole: bool = True) -> VmLog:
    """Return the part of a log since the last start of the VM; all of it if no start shows.

    Without `is_whole` the text is the end of a file, and may begin within a line.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    if not is_whole:
        lines = lines[1:]
    begin = max((index for index, line in enumerate(lines) if _BEGIN in line), default=0)
    return VmLog(path=path, lines=tuple(lines[begin:]), first=begin + 1 if is_whole else None)


def message(line: str) -> str:
    """Return a line without its time, thread and level."""
    found = _NEW.match(line) or _OLD.match(line)
    return line[found.end() :].strip() if found else line.strip()


def line_text(line: LogLine) -> str:
    """Return a line of a text for display: its number, counted from 1, and its message."""
    return f"{line.index + 1}: {message(line.text)}"


def time_of(line: str) -> datetime | None:
    """Return a line's time, None where it has none. vmware.log is written in UTC."""
    found = _TIME.match(line)
    return datetime.fromisoformat(found.group()) if found else None


class PastTask(Frozen):
    """A task of a VM that is over.

    `operation` is vCenter's description id, such as "VirtualMachine.powerOn"; `fault` the name of the fault's
    type and `error` its text, both empty if the task succeeded.
    """

    task: str
    operation: str
    user: str = ""
    ended_at: datetime | None = None
    fault: str = ""
    error: str = ""


class VmHistory(Frozen):
    """The last task of a VM that failed, and the last that changed its configuration."""

    failed: PastTask | None = None
    reconfigured: PastTask | None = None
