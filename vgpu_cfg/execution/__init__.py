"""Carrying a plan out: what runs when, what was done, and who holds the lock."""

from __future__ import annotations

from vgpu_cfg.execution.guests.tools import GuestTools
from vgpu_cfg.execution.hosts.manual import step_digest
from vgpu_cfg.execution.hosts.shell_access import ShellAccess
from vgpu_cfg.execution.hosts.tools import HostTools
from vgpu_cfg.execution.records.journal import (
    InFlight,
    Journal,
    JournalRecord,
    find_journals,
    read_journal,
)
from vgpu_cfg.execution.records.lock import LockHolder, hold_lock, read_lock_holder
from vgpu_cfg.execution.records.marks import HostMarks
from vgpu_cfg.execution.run.interrupts import stop_on_interrupt
from vgpu_cfg.execution.runner import RunClock, RunOptions, exit_code_of, run_plan
from vgpu_cfg.execution.vms.readback import describe_spec, missing_from

__all__ = [
    "GuestTools",
    "HostMarks",
    "HostTools",
    "InFlight",
    "Journal",
    "JournalRecord",
    "LockHolder",
    "RunClock",
    "RunOptions",
    "ShellAccess",
    "describe_spec",
    "exit_code_of",
    "find_journals",
    "hold_lock",
    "missing_from",
    "read_journal",
    "read_lock_holder",
    "run_plan",
    "step_digest",
    "stop_on_interrupt",
]
