"""How vCenter's collectors of events and tasks are read a page at a time, and let go of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import VCenterError

PAGE_SIZE = 1000
"""So many a page may have (vSphere API reference, ReadPreviousEvents)."""
MOST_PAGES = 20
"""So many pages are read of a collector at most: 20,000 entries."""


@contextmanager
def held(collector: Any) -> Iterator[Any]:
    """Let go of a collector at the end: a session may have 32."""
    try:
        yield collector
    finally:
        # What cannot be let go of ends with the session.
        with suppress(vmodl.MethodFault, VCenterError):
            collector.DestroyCollector()


def pages(read: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the pages that a method of a collector gives, the last one empty where all of it was read."""
    for _ in range(MOST_PAGES):
        page = read(PAGE_SIZE) or ()
        yield page
        if not page:
            return


def beginner(reason: Any) -> str:
    """Name the alarm or the scheduled task that began a task; "" for anybody else."""
    match reason:
        case vim.TaskReasonAlarm():
            return f"alarm {reason.alarmName}"
        case vim.TaskReasonSchedule():
            return f"scheduled task {reason.name}"
        case _:
            return ""
