"""Every error that a user can meet, and the exit code that belongs to it.

    VgpuCfgError                 .message .subject .remedy
    ├── DocumentError        3   every fault in a user's document, each with file:line:column
    ├── PlanError            4   the plan is impossible or not allowed
    │   ├── DoesNotFit           the plan has a finding of severity error
    │   ├── UnsafePlan           it would change a protected object, or lacks approval
    │   └── StalePlan            the reviewed plan no longer describes the estate
    ├── ReachError           5   another machine did not respond as expected
    │   ├── VCenterError         Unreachable (NotSent · NoConnectionInTime · AnswerLate · AnswerLost)
    │   │                        LoginFailed · NotPermitted · CertificateRejected · NotFound · Ambiguous
    │   │                        VersionTooOld · NotOffered · NotRecorded · TasksForgotten · TooMuch
    │   ├── HostShellError
    │   ├── BmcError
    │   └── GuestError           GuestNotReady
    ├── ChangeError          6   a change was begun and did not come true
    │   ├── TaskFailed
    │   ├── NotConfirmed
    │   └── Locked               another run holds the lock
    ├── NobodyToAsk          2   a question, no terminal to ask it on, and no --yes
    └── Interrupted        130   the user stopped it, or said no

Two more codes are no errors: 7 (waiting for a manual step) and 10 (differences
found). Code 1 is a bug in vgpu-cfg, and 2 is also the code for an invalid command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

_WORST_FIRST = (130, 1, 6, 3, 5, 4, 8, 7, 10, 9, 0)
"""Which exit code comes back where several hold; docs/reference/exit-codes.md says why in this order."""


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the one of several exit codes that comes back; 0 where there is none."""
    return min(codes, key=_WORST_FIRST.index, default=0)


class VgpuCfgError(Exception):
    """The error, its subject and its remedy: three lines on stderr.

    `message` describes the error, `subject` its location (a file position, a VM, a
    host, a server), `remedy` the next thing to do. `exit_code` belongs to the class.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, subject: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.remedy = remedy


@dataclass(frozen=True, slots=True, order=True)
class DocumentFault:
    """One thing wrong in a document. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class DocumentError(VgpuCfgError):
    """All faults of one document, found in one reading."""

    exit_code = 3
    most_shown: ClassVar[int] = 100
    """A file of faults alone is not worth more: its reader begins with the first."""

    def __init__(self, faults: list[DocumentFault] | tuple[DocumentFault, ...], *, remedy: str = "") -> None:
        self.faults = tuple(sorted(set(faults)))
        self.stated_remedy = remedy
        first = self.faults[0]
        count = len(self.faults)
        super().__init__(
            first.message if count == 1 else f"{count} errors in {first.file}",
            subject=f"{first.file}:{first.line}:{first.column}",
            remedy=remedy or first.hint or "correct the file, then run the same command again",
        )

    @property
    def shown(self) -> tuple[DocumentFault, ...]:
        """Return the faults that are reported individually."""
        return self.faults[: self.most_shown]

    @property
    def left_out(self) -> int:
        """Return how many are only counted."""
        return len(self.faults) - len(self.shown)


class PlanError(VgpuCfgError):
    """The plan is not carried out: it cannot be, or must not be."""

    exit_code = 4


class DoesNotFit(PlanError):
    """The plan has a finding of severity error; `is_shown` if it was printed with the plan."""

    is_shown = False


class UnsafePlan(PlanError):
    """The plan would change a protected object, or lacks an approval option."""


class StalePlan(PlanError):
    """The reviewed plan and the plan made now differ."""


class ReachError(VgpuCfgError):
    """Another machine did not respond as expected."""

    exit_code = 5


class VCenterError(ReachError):
    """vCenter refused or failed a request."""


class Unreachable(VCenterError):
    """No connection, or none that stayed."""


class NotSent(Unreachable):
    """No connection came about, so the server has seen nothing of the request: it may be repeated."""


class NoConnectionInTime(NotSent):
    """No connection came about in time: it may be repeated, and takes as long again."""


class AnswerLate(Unreachable):
    """A request went out, and the whole of its answer did not come in time."""


class AnswerLost(Unreachable):
    """A server that was away answers again, and whether it has carried the request out is not known."""


class TasksForgotten(VCenterError):
    """vCenter no longer has `tasks`: their results must be derived from their objects."""

    def __init__(self, message: str, tasks: tuple[str, ...], *, subject: str = "", remedy: str = "") -> None:
        super().__init__(message, subject=subject, remedy=remedy)
        self.tasks = tasks


class TooMuch(VCenterError):
    """More came than is taken: bytes of an answer, or its pages."""


class LoginFailed(VCenterError):
    """Wrong user or password, or a session that could not be renewed."""


class NotPermitted(VCenterError):
    """The account lacks a privilege; `subject` names the entity."""


class CertificateRejected(VCenterError):
    """The server's certificate is not trusted or is not the pinned one."""


class NotFound(VCenterError):
    """A named object does not exist."""


class Ambiguous(VCenterError):
    """A name fits more than one object; the remedy lists their inventory paths."""


class VersionTooOld(VCenterError):
    """The negotiated API version lacks a feature that the plan requires."""


class NotOffered(VCenterError):
    """The server or the host lacks the method, the option or the command that was called."""


class NotRecorded(VCenterError):
    """A recording has no answer to this request."""


class BmcError(ReachError):
    """A server's management controller (BMC) did not answer as it should."""


class HostShellError(ReachError):
    """A command on an ESXi host failed or could not be run."""


class GuestError(ReachError):
    """A command inside a guest failed or could not be run."""


class GuestNotReady(GuestError):
    """A guest does not respond, or no longer does: it may be booting, and respond later."""


class ChangeError(VgpuCfgError):
    """A change was begun and did not come true."""

    exit_code = 6


class TaskFailed(ChangeError):
    """A vCenter task failed with a fault: the message is its own text, `cause` its known cause."""

    def __init__(self, message: str, *, subject: str = "", remedy: str = "", cause: str = "") -> None:
        super().__init__(message, subject=subject, remedy=remedy)
        self.cause = cause


class NotConfirmed(ChangeError):
    """The task succeeded and the read-back does not show it."""


class Locked(ChangeError):
    """Another run holds the lock of what this one would change."""


class LockLost(Locked):
    """A lock of this run was taken away while it went on."""


class NobodyToAsk(VgpuCfgError):
    """A question must be asked, there is no terminal, and `--yes` was not given."""

    exit_code = 2


class Interrupted(VgpuCfgError):
    """The user stopped the run, or declined it."""

    exit_code = 130
