"""Hosts in maintenance mode: who took them there, and the run that did so."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.vsphere.scripted import NOON, content, session_on, typed
from vgpu_cfg.model.locks import Lock, LockHolder, LockName
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.vsphere.history.events import read_maintenance

HOST = vim.event.HostEventArgument(name="esx-01", host=vim.HostSystem("host-1"))


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def run(began: float, ended: float | None = None, **fields: Any) -> RunEntry:
    """A run by eve's account that began and ended so many minutes after the host was taken out."""
    told: dict[str, Any] = {"run": "r1", "command": "apply", "account": "eve", "digest": "d", "plan": "depts"}
    if ended is not None:
        told |= {"result": RunResult.DONE, "began_at": NOON + minutes(began)}
    return RunEntry.model_validate(told | {"at": NOON + minutes(began if ended is None else ended)} | fields)


def logged(entry: RunEntry, key: int) -> Any:
    return vim.event.GeneralUserEvent(
        key=key, chainId=key, createdTime=entry.at, userName="eve", message=entry.text
    )


def entered(by: str, at: float = 0.0) -> Any:
    return vim.event.EnteredMaintenanceModeEvent(
        key=1, chainId=1, createdTime=NOON + minutes(at), userName=by, host=HOST
    )


def found(*runs: RunEntry, by: str = "eve", locks: tuple[Lock, ...] = ()) -> tuple[str, str]:
    """Return the account that took the host out, and the run that did, "" for none."""
    service = content()
    service.eventManager = vim.event.EventManager("EventManager")
    logs = typed("vim.event.Event", *map(logged, runs, count(9)))
    answers = {
        "CreateCollectorForEvents": vim.event.EventHistoryCollector("events"),
        "ReadNextEvents": [typed("vim.event.Event", entered("ben", -9), entered(by)), None],
        "ReadPreviousEvents": [logs, None] if runs else None,
        "ResetCollector": None,
        "SetCollectorPageSize": None,
        "DestroyCollector": None,
    }
    with session_on(answers, service=service) as (session, _):
        entry = read_maintenance(session, ["host-1"], lambda: locks)["host-1"]
    assert entry.at == NOON
    return entry.by, entry.run


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], ""),
        ([run(-10)], "r1"),
        ([run(-10, 5)], "r1"),
        ([run(-10, account="eve@vsphere.local")], ""),
        ([run(-10, account="ben")], ""),
        ([run(-10, command="destroy")], ""),
        ([run(-60, -30)], ""),
        ([run(2)], ""),
        ([run(-60 * 25)], ""),
        ([run(-60), run(-10, run="r2")], "r2"),
        ([run(-10, run="r2"), run(-60)], "r2"),
    ],
    ids=[
        "no run",
        "one that goes on",
        "one that ended since",
        "another domain",
        "another account",
        "another command",
        "one that had ended",
        "one that began later",
        "one of a day before",
        "the last of two",
        "the last of two, in another order",
    ],
)
def test_the_run_of_that_time_and_account_took_a_host_out(runs: list[RunEntry], expected: str) -> None:
    assert found(*runs) == ("eve", expected)


def test_an_account_is_the_same_in_both_spellings() -> None:
    by = r"VSPHERE.LOCAL\Eve"
    assert found(run(-10, account="eve@vsphere.local"), by=by) == (by, "r1")


def test_a_run_that_has_only_a_lock_took_a_host_out() -> None:
    holder = LockHolder(run="r3", command="apply", plan="depts", since=NOON - minutes(5))
    name = LockName(kind="host", key="host-1")
    lock = Lock(moid="alarm-1", name=name, holder=holder, beat_at=NOON - minutes(1), account="eve")
    assert found(locks=(lock,)) == ("eve", "r3")
    silent = lock.model_copy(update={"beat_at": NOON - minutes(60)})
    assert found(locks=(silent,)) == ("eve", "")


def test_nothing_is_known_without_events_or_the_right_to_read_them() -> None:
    with session_on({}) as (session, _):
        assert read_maintenance(session, ["host-1"], tuple) == {}
    service = content()
    service.eventManager = vim.event.EventManager("EventManager")
    refused = vim.fault.NoPermission(object=vim.Folder("group-d1"), privilegeId="System.View")
    with session_on({"CreateCollectorForEvents": refused}, service=service) as (session, _):
        assert read_maintenance(session, ["host-1"], tuple) == {}
