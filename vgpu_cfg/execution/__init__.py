"""Carrying a plan out: what runs when, what was done, and who holds the lock."""

from __future__ import annotations

from vgpu_cfg.execution.guest_tools import GuestTools
from vgpu_cfg.execution.host_tools import HostTools
from vgpu_cfg.execution.interrupts import stop_on_interrupt
from vgpu_cfg.execution.journal import (
    InFlight,
    Journal,
    JournalRecord,
    find_journals,
    read_journal,
)
from vgpu_cfg.execution.lock import LockHolder, hold_lock, read_lock_holder
from vgpu_cfg.execution.manual import step_digest
from vgpu_cfg.execution.marks import HostMarks
from vgpu_cfg.execution.readback import describe_spec, missing_from
from vgpu_cfg.execution.runner import RunClock, RunOptions, exit_code_of, run_plan
from vgpu_cfg.execution.shell_access import ShellAccess

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
