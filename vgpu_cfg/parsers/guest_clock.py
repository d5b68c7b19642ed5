"""What a guest tells of its clock: the time, and whether something keeps it right.

Sources: coreutils `date +%s.%N`; chrony, `chronyc tracking` ("Leap status     : Not synchronised"); systemd,
`timedatectl show` ("NTPSynchronized=yes").
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

DATE = "date +%s.%N"
TRACKING = "chronyc tracking"
TIMEDATECTL = "timedatectl show"

_TIME = re.compile(r"\d{9,11}(?:\.\d{1,9})?")
_FIELD = re.compile(r"(?P<key>[A-Z][\w .]*?)\s*: (?P<value>.*)")
_NO_REFERENCE = ("00000000 ()", "7F7F0101 ()")
"""What chronyd has for a source where it has none, and where it follows the machine's own clock."""


class Tracking(Frozen):
    """Whether a clock is kept right, and by which source ("" where that is not told)."""

    is_synchronised: bool
    source: str = ""


def parse_time(text: str) -> float:
    """Return the seconds since 1970 that `date` printed. Raises UnreadableOutput."""
    words = text.strip()
    if _TIME.fullmatch(words) is None:
        raise UnreadableOutput(DATE, "no time", line=words[:200])
    return float(words)


def parse_tracking(text: str) -> Tracking:
    """Read `chronyc tracking`. Raises ToolFailed where chronyd does not answer, UnreadableOutput."""
    lines = lines_with_content(text)
    found = [match for line in lines if (match := _FIELD.fullmatch(line.text.strip())) is not None]
    values = {match["key"]: match["value"].strip() for match in found}
    if "Leap status" not in values:
        if lines and lines[0].text[:3].isdigit():  # "506 Cannot talk to daemon"
            raise ToolFailed(TRACKING, line=lines[0].text)
        raise UnreadableOutput(TRACKING, "no leap status", line=lines[0].text if lines else "")
    source = values.get("Reference ID", "")
    is_own = source in _NO_REFERENCE
    return Tracking(
        is_synchronised=values["Leap status"] != "Not synchronised" and not is_own,
        source="" if is_own else source.partition("(")[2].rstrip(")"),
    )


def parse_timedatectl(text: str) -> Tracking:
    """Read `timedatectl show`. Raises UnreadableOutput where it does not tell."""
    for line in lines_with_content(text):
        name, sign, value = line.text.strip().partition("=")
        if name == "NTPSynchronized" and sign:
            return Tracking(is_synchronised=value == "yes")
    raise UnreadableOutput(TIMEDATECTL, "no NTPSynchronized", line=text.strip()[:200])
