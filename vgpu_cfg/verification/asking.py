"""How a check asks: it yields what is to be done on which machine, gets the answer, and ends in a verdict.

A check that has started something that outlives a command stops it in a `finally`, by a `Command` with
`is_cleanup`: that one is carried out even when the run is being broken off.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from vgpu_cfg.knowledge.verify_failures import FAILURES, VerifyCode
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.learned import Learned

NO_SUCH_COMMAND = 127
"""What a shell answers for a command that is not there (POSIX)."""

LONGEST_WORDS = 2000
"""No answer of a check needs more."""

TIMED_OUT = 124
"""What `timeout` answers (coreutils)."""


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
    """What vCenter's clock shows: the answer's output holds the seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check came to. `learned` is what later checks of the same VM may rest on.

    `is_asked` is False where the plan asks for nothing that the check could see here.
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


Step: TypeAlias = Command | WriteFile | Pause | ReadClock
Asking: TypeAlias = Generator[Step, ShellResult, Verdict]


def passed(
    observed: str,
    expected: str = "",
    *,
    measured: Mapping[str, float] | None = None,
    learned: Learned | None = None,
) -> Verdict:
    """Say that it is as it should be, and what was seen."""
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
    """Say what is wrong; meaning and remedy are the code's own unless the check knows better."""
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
    """Say why it does not apply; `is_asked`: it applies, and why it was not seen here, or what else tells."""
    return Verdict(CheckState.SKIPPED, why=why, is_asked=is_asked)


def unproven(why: str, *, measured: Mapping[str, float] | None = None) -> Verdict:
    """Say why what the plan asks for could be neither proven nor refuted here."""
    return Verdict(CheckState.UNPROVEN, why=why, measured=measured or {})


def said(answer: ShellResult) -> str:
    """Return the last line that a command printed, its complaint before its output, for people."""
    for text in (answer.stderr, answer.stdout):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return lines[-1][:200]
    return f"exit status {answer.status}"


def bounded(text: str) -> str:
    """Return what a machine said, cut where it is long: a guest says what it likes."""
    return text if len(text) <= LONGEST_WORDS else f"{text[: LONGEST_WORDS - 3]}..."


def is_absent(answer: ShellResult) -> bool:
    """Whether there is no such command."""
    return answer.status == NO_SUCH_COMMAND


def missing(command: str, package: str) -> Verdict:
    """Fail since a tool is not in the guest."""
    return failed(
        VerifyCode.NOT_UNDERSTOOD,
        f"there is no {command} in the guest",
        remedy=f"install it there: {package}",
    )
