"""The format of a VM's vmware.log: the beginning of a start, the prefix of a line's message.

Since 8.0 a line is `TIME In(05) vmx - MESSAGE`, before it was `TIME| vmx| I125: MESSAGE`, with or without an
empty field (Dell KB 000199172, Broadcom KB 323402).

A VM's tasks kept to explain a failure: the last that failed, and the last that changed it.
"""

from __future__ import annotations

import re
from datetime import datetime

from vgpu_cfg.knowledge.faults import LogLine, explain_lines
from vgpu_cfg.model.frozen import Frozen

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
