"""Task, log and state brought together: which cause is told, what is ruled out, and what to type next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.planning.test_start_conditions import RIGHT_MMIO, A, estate
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.knowledge.faults import PastTask, VmHistory, VmLog, explanation_of, last_start
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, Vm
from vgpu_cfg.planning.remedies.diagnosis import BEHIND, Diagnosis, diagnose
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind

AT = datetime(2026, 11, 20, 22, 31, tzinfo=UTC)
GENERAL = "Module 'DevicePowerOn' power on failed."
PAGES = "PCIPassthru: total number of pages needed (4206594) exceeds limit (917504), failing"
NO_GPU = (
    "The amount of graphics resource available in the parent resource pool is insufficient for the operation."
)
WRONG_MMIO = RIGHT_MMIO | {"pciPassthru.use64bitMMIO": "FALSE"}
PATH = "[vsan] late/vmware.log"


def failed(error: str = GENERAL, **more: Any) -> PastTask:
    return PastTask.model_validate(
        {
            "task": "task-88213",
            "operation": "VirtualMachine.powerOn",
            "user": "EXAMPLE\\anna",
            "ended_at": AT,
            "fault": "GenericVmConfigFault",
            "error": error,
        }
        | more
    )


def log(*messages: str, at: datetime = AT) -> VmLog:
    return last_start(PATH, "".join(f"{at:%Y-%m-%dT%H:%M:%S.000Z} In(05) vmx - {one}\n" for one in messages))


def told(
    task: PastTask | None,
    written: VmLog | None = None,
    *,
    mark: str | None = None,
    power: PowerState = PowerState.OFF,
    vms: dict[str, Any] | None = None,
    **detail: Any,
) -> Diagnosis:
    vm, observed = estate(None, vms, **detail)
    vm = vm.model_copy(
        update={"mark": OwnerMark(plan=mark, vm="late") if mark else None, "power_state": power}
    )
    history = VmHistory(failed=task)
    return diagnose(vm, observed, load_catalog(), history, written)


def abouts(conditions: Any) -> list[ConditionKind]:
    return [one.about for one in conditions]


def test_the_log_says_more_than_vcenter_and_the_vm_says_which_cause_holds() -> None:
    found = told(failed(), log("Hostname=esx-01", PAGES, GENERAL), extra_config=WRONG_MMIO)
    assert found.explanation == explanation_of("mmio-too-small")
    (line,) = found.lines
    assert (line.place, line.text, line.at) == ("vmware.log:2", PAGES, AT)
    assert abouts(found.causes) == [ConditionKind.MMIO]
    assert ConditionKind.FIRMWARE in abouts(found.ruled_out)
    assert ConditionKind.MEMORY in abouts(found.ruled_out)
    assert found.others == ()
    assert found.next_command.startswith("govc vm.change -vm /dc1/vm/training/late -e pciPassthru.use64")
    assert "govc vm.power -on /dc1/vm/training/late" in found.next_reason
    assert found.host == "esx-01"


def test_a_vm_that_a_plan_owns_is_mended_by_its_plan() -> None:
    found = told(failed(), log(PAGES), mark="horovod", extra_config=WRONG_MMIO)
    assert found.next_command == "vgpu-cfg plan PLAN"
    assert "horovod" in found.next_reason


def test_without_a_log_the_state_tells_what_is_behind_a_general_error() -> None:
    found = told(failed(), extra_config=WRONG_MMIO, firmware="bios")
    assert found.explanation == explanation_of("device-power-on")
    assert abouts(found.causes) == [ConditionKind.MMIO, ConditionKind.FIRMWARE]
    assert found.lines == ()


def test_what_is_wrong_and_does_not_lie_behind_the_error_is_told_apart() -> None:
    written = log(
        "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(65536)."
    )
    found = told(
        failed(), written, firmware="bios", memory_reservation_locked=False, memory_reservation_mib=0
    )
    assert abouts(found.causes) == [ConditionKind.MEMORY]
    assert abouts(found.others) == [ConditionKind.FIRMWARE]


def test_a_cause_that_is_gone_leaves_no_wrong_behind() -> None:
    found = told(failed(), log(PAGES))
    assert found.explanation == explanation_of("mmio-too-small")
    assert (found.causes, found.others) == ((), ())
    assert found.next_command == "vgpu-cfg explain mmio-too-small"


def test_a_fault_that_says_enough_is_not_overruled_by_a_general_line_of_the_log() -> None:
    holder = {"host": "esx-01", "gpus": ["grid_a100-40c"], "on": [A], "memory_gib": 16}
    task = failed(NO_GPU, fault="InsufficientGraphicsResourcesFault")
    found = told(task, log(GENERAL), vms={"early": holder})
    assert found.explanation == explanation_of("graphics-resources")
    assert abouts(found.causes) == [ConditionKind.GPU_ROOM]
    assert found.next_command == "vgpu-cfg inventory -v --host esx-01"


def test_words_that_nobody_knows_show_the_lines_that_may_tell() -> None:
    signs = [f"vmiop_log: odd thing {number}" for number in range(7)]
    found = told(failed("Something odd."), log("fine", *signs, "fine"), firmware="bios")
    assert found.explanation is None
    assert [line.text for line in found.lines] == signs[-5:]
    assert abouts(found.causes) == [ConditionKind.FIRMWARE]


def test_where_nothing_is_known_and_nothing_is_wrong_the_log_is_what_to_read() -> None:
    found = told(failed("Something odd."), log("fine"))
    assert found.next_command == "govc datastore.tail -n 200 -ds vsan late/vmware.log"
    assert told(failed("Something odd.")).next_command == "govc tasks -l /dc1/vm/training/late"


@pytest.mark.parametrize(
    ("written", "note"),
    [
        (log(PAGES, at=AT + timedelta(hours=1)), "from a later start, 2026-11-20 23:31:00 UTC"),
        (log(PAGES, at=AT - timedelta(hours=1)), "before the task"),
    ],
)
def test_a_log_of_another_start_is_not_believed(written: VmLog, note: str) -> None:
    found = told(failed(), written)
    assert found.explanation == explanation_of("device-power-on")
    assert found.lines == ()
    assert note in found.notes[0]


def test_a_log_whose_clock_is_a_little_off_is_believed() -> None:
    assert told(failed(), log(PAGES, at=AT + timedelta(minutes=4))).notes == ()


def test_a_change_that_failed_has_no_log() -> None:
    task = failed(
        "Invalid device backing.", operation="VirtualMachine.reconfigure", fault="InvalidDeviceBacking"
    )
    found = told(task, log(PAGES))
    assert found.explanation == explanation_of("device-backing")
    assert (found.lines, found.notes) == ((), ())


def test_a_vm_without_a_failed_task_is_judged_all_the_same() -> None:
    found = told(None, None, firmware="bios")
    assert found.notes == ("vCenter has no failed task for this VM",)
    assert abouts(found.causes) == [ConditionKind.FIRMWARE]
    running = told(None, None, firmware="bios", power=PowerState.ON)
    assert "with the VM powered off" in running.next_reason


def test_what_lies_behind_a_failure_names_failures_that_there_are() -> None:
    assert all(explanation_of(key) is not None for key in BEHIND)
    vm: Vm = estate()[0]
    assert vm.name == "late"
