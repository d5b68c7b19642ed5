"""A run that stops at its first failure: nothing more begins, and what is out of service comes back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.execution.makers import (
    add_own_vm,
    create,
    estate,
    power_off,
    power_on,
    reconfigure,
    run,
    statuses,
)
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.report import Report
from vgpu_cfg.execution import exit_code_of
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.runs import OnFailure

ONE_AT_A_TIME = 1


def run_with(on_failure: OnFailure) -> Report:
    """Switch a VM off for a change, fail to make another, and have a third to make."""
    server = estate(failures={("create_vm", 1): ("InsufficientResourcesFault", "no room")})
    add_own_vm(server, "c", "vm-c", power_state=PowerState.ON)
    options: dict[str, Any] = {"parallel": ONE_AT_A_TIME, "on_failure": on_failure}
    report, _ = run(
        server,
        power_off("c", "vm-c", host_moid="host-1"),
        create("a"),
        create("b"),
        reconfigure("c", "vm-c", VmSpec(settings={"cpus": 8}), needs=("power off c",)),
        power_on("c", moid="vm-c", needs=("reconfigure c",)),
        options=options,
    )
    assert exit_code_of(report) == 6
    return report


@pytest.mark.parametrize(
    ("on_failure", "other", "back", "told"),
    [
        (OnFailure.GO_ON, "done", "done", ()),
        (OnFailure.STOP, "skipped", "done", ("1 change",)),
        (OnFailure.ROLL_BACK, "skipped", "skipped", ("3 changes",)),
    ],
)
def test_what_begins_after_a_failure(
    on_failure: OnFailure, other: str, back: str, told: tuple[str, ...]
) -> None:
    report = run_with(on_failure)
    assert statuses(report) == {
        "power off c": "done",
        "create a": "failed",
        "create b": other,
        "reconfigure c": back,
        "power on c": back,
    }
    assert tuple(map(str, report.left_behind)) == tuple(
        f"demo: {count} not started, because the run stopped at the first failure" for count in told
    )
