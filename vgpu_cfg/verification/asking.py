"""The protocol of a check: it yields a request to a machine, gets the answer, and ends in a verdict.

A check that has started something that outlives a command stops it in a `finally`, by a `Command` with
`is_cleanup`: that one is carried out even when the run is being broken off.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from vgpu_cfg.knowledge.verify_failures import FAILURES, VerifyCode
from vgpu_cfg.model.verification import CheckState, Evidence
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.learned import Learned

NO_SUCH_COMMAND = 127
"""A shell's exit status for a missing command (POSIX)."""

LONGEST_WORDS = 2000
"""No answer of a check needs more."""

TIMED_OUT = 124
"""The exit status of `timeout` (coreutils)."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command for one machine; `on` names the VM, "" the check's own subject."""

    arguments: tuple[str, ...]
    on: str = ""
    timeout_seconds: float = 30.0
    is_cleanup: bool = False


@dataclass(frozen=True, slots=True)
class WriteFile:
    """A file for one VM."""

    path: str
    content: str
    on: str = ""
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Pause:
    """Some time in which a machine gets ready."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ReadClock:
    """The time of vCenter's clock: the answer's output holds the seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a check. `learned` are facts for later checks of the same VM.

    `is_asked` is False if the plan requests nothing that the check could see here.
    """

    state: CheckState
    observed: str = ""
    expected: str = ""
    code: VerifyCode | None = None
    meaning: str = ""
    remedy: str = ""
    why: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)
    learned: Learned | None = None
    is_asked: bool = True
    evidence: tuple[Evidence, ...] = ()


Step: TypeAlias = Command | WriteFile | Pause | ReadClock
Asking: TypeAlias = Generator[Step, ShellResult, Verdict]


def passed(
    observed: str,
    expected: str = "",
    *,
    measured: Mapping[str, float] | None = None,
    learned: Learned | None = None,
) -> Verdict:
    """Return a pass, with the observation."""
    return Verdict(CheckState.PASSED, observed, expected, measured=measured or {}, learned=learned)


def failed(
    code: VerifyCode,
    observed: str,
    expected: str = "",
    *,
    meaning: str = "",
    remedy: str = "",
    measured: Mapping[str, float] | None = None,
) -> Verdict:
    """Return a failure; meaning and remedy are the code's own unless the check has better ones."""
    known = FAILURES[code]
    return Verdict(
        CheckState.FAILED,
        observed,
        expected,
        code,
        meaning or known.meaning,
        remedy or known.remedy,
        measured=measured or {},
    )


def skipped(why: str, *, is_asked: bool = False) -> Verdict:
    """Return why it does not apply; `is_asked`: it applies, but was not seen, or another check covers it."""
    return Verdict(CheckState.SKIPPED, why=why, is_asked=is_asked)


def unproven(why: str, *, measured: Mapping[str, float] | None = None) -> Verdict:
    """Return why the requested setting could be neither proven nor refuted here."""
    return Verdict(CheckState.UNPROVEN, why=why, measured=measured or {})


def said(answer: ShellResult) -> str:
    """Return the last line that a command printed, its complaint before its output, for people."""
    for text in (answer.stderr, answer.stdout):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return lines[-1][:200]
    return f"exit status {answer.status}"


def bounded(text: str) -> str:
    """Return a machine's output, shortened if it is long: a guest may print anything."""
    return text if len(text) <= LONGEST_WORDS else f"{text[: LONGEST_WORDS - 3]}..."


def is_absent(answer: ShellResult) -> bool:
    """Whether there is no such command."""
    return answer.status == NO_SUCH_COMMAND


def missing(command: str, package: str) -> Verdict:
    """Fail since a tool is not in the guest."""
    return failed(
        VerifyCode.NOT_UNDERSTOOD,
        f"{command} is not installed in the guest",
        remedy=f"install it in the guest: {package}",
    )
