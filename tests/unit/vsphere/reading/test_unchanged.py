from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.vsphere.reading.vms import unchanged
from vgpu_cfg.vsphere.wire.collector import Item

DETAIL = VmDetail(change_version="v7", cpus=16, uptime_seconds=60, extra_config={"numa.nodeAffinity": "0"})
VM = Vm(
    moid="vm-1",
    name="worker-1",
    host_moid="host-1",
    instance_uuid="50aa",
    power_state=PowerState.ON,
    detail=DETAIL,
)


class Reference:
    def __init__(self, moid: str) -> None:
        self._moId = moid


def item(**values: Any) -> Item:
    shown = {
        "config.changeVersion": "v7",
        "config.instanceUuid": "50aa",
        "runtime.host": Reference("host-1"),
        "runtime.powerState": "poweredOn",
        "summary.quickStats.uptimeSeconds": 60,
    }
    return Item("VirtualMachine", "vm-1", shown | values)


def test_a_configuration_of_the_same_version_is_kept_as_it_was_read() -> None:
    assert unchanged([item()], {"vm-1": VM})["vm-1"] is DETAIL


def test_what_moves_beside_the_configuration_is_taken_from_the_second_reading() -> None:
    found = unchanged([item(**{"summary.quickStats.uptimeSeconds": 90})], {"vm-1": VM})["vm-1"]
    assert found == DETAIL.model_copy(update={"uptime_seconds": 90})


@pytest.mark.parametrize(
    "shown",
    [
        {"config.changeVersion": "v8"},
        {"config.changeVersion": ""},
        {"config.instanceUuid": "50bb"},
        {"runtime.host": Reference("host-2")},
        {"runtime.powerState": "poweredOff"},
    ],
    ids=["another version", "no version", "another VM", "another host", "switched off"],
)
def test_a_vm_that_may_have_changed_is_read_again(shown: dict[str, Any]) -> None:
    assert unchanged([item(**shown)], {"vm-1": VM}) == {}


@pytest.mark.parametrize(
    "before",
    [
        None,
        VM.model_copy(update={"detail": None}),
        VM.model_copy(
            update={"detail": DETAIL.model_copy(update={"extra_config": {"guestinfo.vgpu_cfg.report": "{}"}})}
        ),
    ],
    ids=["not read before", "not in detail", "its guest writes there by itself"],
)
def test_a_vm_is_read_again_of_which_too_little_is_known(before: Vm | None) -> None:
    assert unchanged([item()], {} if before is None else {"vm-1": before}) == {}
