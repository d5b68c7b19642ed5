"""Execution of a plan: the order of changes, their results, and locks."""

from __future__ import annotations

from vgpu_cfg.execution.guests.session import GuestTools
from vgpu_cfg.execution.hosts.manual import step_digest
from vgpu_cfg.execution.hosts.shell_access import HostTools, ShellAccess
from vgpu_cfg.execution.records.copies import FolderSink, HostMarks, JournalCopy
from vgpu_cfg.execution.records.journal import (
    InFlight,
    Journal,
    JournalRecord,
    find_journals,
    read_journal,
)
from vgpu_cfg.execution.records.lock import RunLocks, has_ended, refuse_frozen, remove_locks
from vgpu_cfg.execution.records.run_record import (
    PastRun,
    RunPlaces,
    RunRecord,
    Wanted,
    joined,
    recorded,
    runs_of_entries,
    runs_of_journals,
    this_machine,
    this_user,
)
from vgpu_cfg.execution.records.syslog import SyslogSink
from vgpu_cfg.execution.run.interrupts import one_is_enough, stop_on_interrupt
from vgpu_cfg.execution.runner import Run, RunClock, RunOptions, exit_code_of
from vgpu_cfg.execution.vms.reconfigure import describe_spec, missing_from

__all__ = [
    "FolderSink",
    "GuestTools",
    "HostMarks",
    "HostTools",
    "InFlight",
    "Journal",
    "JournalCopy",
    "JournalRecord",
    "PastRun",
    "Run",
    "RunClock",
    "RunLocks",
    "RunOptions",
    "RunPlaces",
    "RunRecord",
    "ShellAccess",
    "SyslogSink",
    "Wanted",
    "describe_spec",
    "exit_code_of",
    "find_journals",
    "has_ended",
    "joined",
    "missing_from",
    "one_is_enough",
    "read_journal",
    "recorded",
    "refuse_frozen",
    "remove_locks",
    "runs_of_entries",
    "runs_of_journals",
    "step_digest",
    "stop_on_interrupt",
    "this_machine",
    "this_user",
]
