"""Runs that faults, lost connections, ended sessions and signals break: the same command again fixes them."""

from __future__ import annotations

import signal
from itertools import product
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.cli.command_line import CommandLine
from tests.extent import each
from vgpu_cfg.execution import one_is_enough, stop_on_interrupt
from vgpu_cfg.lab.simulation.faults import make_fault
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.faults import is_session_over
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

PLAN = "plans/pair.yaml"
ESTATE = "two-a100"
VMS = {"hvd-01", "hvd-02"}
WHY = "every fault at every call of a run: tests/faults"


def mends(vgpu_cfg: CommandLine) -> bool:
    """Whether the same command, undisturbed, brings what the plan says, and no more."""
    vgpu_cfg.script(ESTATE)
    vgpu_cfg.lab(ESTATE).run_until_idle()
    vgpu_cfg.done("apply", "--yes", PLAN)
    return vgpu_cfg.look(ESTATE).vms == VMS and vgpu_cfg("plan", "--exit-code", PLAN).code == 0


# ---------------------------------------------------------------- faults


FAULTS = (
    "TaskInProgress",
    "InvalidPowerState",
    "ManagedObjectNotFound",
    "DuplicateName",
    "MethodNotFound",
    "NoPermission",
    "ConcurrentAccess",
    "HostNotConnected",
    "RequestCanceled",
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("method", "kind", "fault"),
    each(
        product(["CloneVM_Task", "PowerOnVM_Task"], ["call", "task"], FAULTS),
        WHY,
        lambda method, kind, fault: (method, kind) == ("CloneVM_Task", "task") or fault == "NoPermission",
        one_of=10,
    ),
)
def test_any_fault_of_a_task_is_told_and_mended(
    method: str, kind: str, fault: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(ESTATE, {"method": method, "kind": kind, "fault": fault, "message": "Words of it."})
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 6, ran.told
    assert "FAILED" in ran.told
    assert f"NEXT vgpu-cfg apply {PLAN}" in ran.told
    assert mends(vgpu_cfg)


@pytest.mark.parametrize(
    "name", ["TaskInProgress", "InvalidPowerState", "ManagedObjectNotFound", "NotSupported"]
)
def test_a_scripted_fault_has_all_that_its_type_needs(name: str) -> None:
    fault: Any = make_fault(name, "words")
    assert fault.msg == "words"
    for field in fault._GetPropertyList():
        assert field.flags & 4 or getattr(fault, field.name) is not None, field.name


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
def test_a_lab_that_hangs_up_says_where_and_what_to_do(kind: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "Login", "kind": kind, "nth": 0})
    ran = vgpu_cfg("inventory", "--server", f"lab:{ESTATE}")
    assert ran.code == 5
    assert f"WHERE  lab:{ESTATE}" in ran.err
    assert "DO     run the command again" in ran.err


# ---------------------------------------------------------------- connections and sessions


BESIDE = (
    "CreateContainerView",
    "CreateListView",
    "ModifyListView",
    "CreatePropertyCollector",
    "CreateFilter",
    "WaitForUpdatesEx",
    "RetrievePropertiesEx",
    "DestroyView",
)


@pytest.mark.parametrize(
    ("method", "kind"),
    each(
        product(BESIDE, ["drop_before", "drop_after"]),
        WHY,
        lambda _method, kind: kind == "drop_after",
        one_of=6,
    ),
)
def test_one_lost_answer_beside_the_changes_breaks_no_run(
    method: str, kind: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(ESTATE, {"method": method, "kind": kind})
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert mends(vgpu_cfg)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("method", "nth"),
    each(
        product(
            ["RetrievePropertiesEx", "WaitForUpdatesEx", "CreateListView", "ModifyListView"], range(1, 5)
        ),
        WHY,
        lambda _method, nth: nth == 2,
        one_of=10,
    ),
)
def test_a_session_that_ends_takes_its_views_along_and_the_run_goes_on(
    method: str, nth: int, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(ESTATE, {"method": method, "nth": nth, "kind": "session_expired"})
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert mends(vgpu_cfg)


@pytest.mark.parametrize(("nth", "code"), [(1, 0), (0, 6)])
def test_a_wait_for_tasks_that_is_refused_is_tried_again_some_times(
    nth: int, code: int, vgpu_cfg: CommandLine
) -> None:
    fault = {"method": "WaitForUpdatesEx", "kind": "call", "fault": "SystemError", "message": "no"}
    vgpu_cfg.script(ESTATE, fault | {"nth": nth})
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert (ran.code, "its state is unknown" in ran.told) == (code, bool(code))
    assert mends(vgpu_cfg)


def test_a_view_that_has_gone_tells_of_an_ended_session_and_a_vm_that_has_gone_does_not() -> None:
    view = vim.view.ContainerView("session[52e7b0f6-1f7c]52d8a6b2")
    assert is_session_over(vmodl.fault.ManagedObjectNotFound(obj=view))
    assert is_session_over(vim.fault.NotAuthenticated())
    assert not is_session_over(vmodl.fault.ManagedObjectNotFound(obj=vim.VirtualMachine("vm-7")))
    assert not is_session_over(vim.fault.NoPermission())


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_stops_a_run_gently_and_then_at_once(number: int) -> None:
    before = signal.getsignal(number)
    told: list[str] = []
    with stop_on_interrupt(lambda: told.append("once")) as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert told == ["once"]
    assert signal.getsignal(number) == before


def test_a_hang_up_counts_once_to_the_end_of_the_command() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with one_is_enough():
        with stop_on_interrupt(lambda: None) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop()
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_at_the_start_stays_so(number: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with one_is_enough(), stop_on_interrupt(lambda: None) as stop:
            signal.raise_signal(number)
            assert not stop()
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_vcenter_is_read_gives_the_locks_back(
    number: int, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VCenterReader, "read_inventory", lambda *_: signal.raise_signal(number))
    assert vgpu_cfg("apply", "--yes", PLAN).code == 130
    assert vgpu_cfg.lab(ESTATE).state.alarms == []


def test_ctrl_c_while_the_result_is_read_back_does_not_lose_the_report(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_asked: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(VCenterReader, "read_part", interrupted)
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 0, ran.told
    assert "interrupted; the result was not verified" in ran.told
    assert "LOG" in ran.out


def test_a_fault_that_nobody_knows_says_what_to_do(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        ESTATE, {"method": "RetrievePropertiesEx", "kind": "call", "fault": "SystemError", "message": "Oops."}
    )
    ran = vgpu_cfg("plan", PLAN)
    assert ran.code == 5
    assert "Oops." in ran.err
    assert "DO     check the related vCenter events" in ran.err


# ---------------------------------------------------------------- somebody else


def test_a_vm_that_somebody_makes_a_template_midway_is_not_deleted(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    destroy = VCenterWriter.destroy_vm
    deleted: list[str] = []

    def destroy_and_interfere(self: VCenterWriter, moid: str) -> str:
        task = destroy(self, moid)
        deleted.append(moid)
        lab = vgpu_cfg.lab(ESTATE)
        with lab.transaction():
            for vm in lab.state.all(VirtualMachine):
                if vm.name in VMS and vm.moid not in deleted:
                    vm.power_state, vm.is_template = "poweredOff", True
                    lab.state.touch(vm)
        return task

    monkeypatch.setattr(VCenterWriter, "destroy_vm", destroy_and_interfere)
    ran = vgpu_cfg("destroy", "--yes", "--parallel", "1", PLAN)
    assert ran.code == 6, ran.told
    assert "was converted to a template after planning" in ran.told
    left = {vm.name for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if vm.name in VMS}
    assert len(left) == 1
