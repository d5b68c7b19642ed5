"""The law itself: what breaks it is found, and what keeps it is not, on runs of a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.properties.shown_and_run.comparison import Run, faults_of
from tests.properties.shown_and_run.exemptions import Exemption
from tests.properties.shown_and_run.wire import Leaf, Sent

BOOT = {"bootOptions.efiSecureBootEnabled": "true"}
HOT_ADD: Leaf = ("cpuHotAddEnabled", "false")


def edit(key: str, before: str | None, after: str | None, **sets: str) -> dict[str, Any]:
    return {"key": key, "before": before, "after": after, "is_default": False, "note": "", "sets": sets}


def making(*sent: Leaf, sets: Mapping[str, str] = BOOT) -> Run:
    """A run that makes a VM with secure boot."""
    change = {
        "kind": "create_vm",
        "id": "create a",
        "vm": {"name": "a", "moid": None},
        "edits": [edit("name", None, "a", name="a"), edit("secure_boot", None, "true", **sets)],
    }
    return Run(
        plan={"changes": [change]},
        verbose="1 + clone  a\n    hardware  secure boot true, name a",
        runbook="## create a\n| name |  | a |\n| secure_boot |  | true |",
        sent=(Sent("CloneVM_Task", "vm-1", (("name", "a"), *sent)),),
        vm_names={"vm-1": "template"},
        carried_out=frozenset({"create a"}),
    )


SHOWN = making(*BOOT.items())


def test_what_is_shown_and_sent_is_right() -> None:
    assert faults_of(SHOWN, of_vms=True) == []
    assert faults_of(SHOWN, of_vms=False) == []


def test_what_was_sent_and_shown_nowhere_is_found() -> None:
    """As CPU hot-add was until its edit said what it sets."""
    found = faults_of(making(*BOOT.items(), HOT_ADD), of_vms=True)
    assert found == ["sent, not shown: set a VM on a: cpuHotAddEnabled = false"]


def test_two_alike_take_an_edit_each() -> None:
    vgpu = ("deviceChange[*].device.backing.vgpu", "grid_a100-40c")
    of_one = {"deviceChange[vgpu grid_a100-40c].backing.vgpu": "grid_a100-40c"}
    assert faults_of(making(vgpu, sets=of_one), of_vms=True) == []
    assert faults_of(making(vgpu, vgpu, sets=of_one), of_vms=True) == [
        "sent, not shown: set a VM on a: deviceChange[*].backing.vgpu = grid_a100-40c"
    ]


def test_what_was_sent_with_another_value_is_found_twice() -> None:
    found = faults_of(making(("bootOptions.efiSecureBootEnabled", "false")), of_vms=True)
    assert [one.partition(":")[0] for one in found] == ["sent, not shown", "shown, not sent"]


def test_what_was_shown_and_not_sent_is_found() -> None:
    assert faults_of(making(), of_vms=True) == [
        "shown, not sent: create a: set a VM bootOptions.efiSecureBootEnabled = true"
    ]
    not_carried_out = replace(making(), carried_out=frozenset())
    assert faults_of(not_carried_out, of_vms=True) == []


@pytest.mark.parametrize(("text", "place"), [("verbose", "plan -v"), ("runbook", "the runbook")])
def test_what_a_text_leaves_out_is_found(text: str, place: str) -> None:
    """As secure boot was missing in `plan -v`."""
    shown = getattr(SHOWN, text).replace("secure boot true", "").replace("| secure_boot |  | true |", "")
    found = faults_of(replace(SHOWN, **{text: shown}), of_vms=True)
    assert found == [f"not in {place}: create a: secure_boot true"]


def test_what_goes_back_as_it_was_read_is_no_change() -> None:
    leaves = (("name", "a"), *BOOT.items(), HOT_ADD)
    as_read = replace(SHOWN, sent=(Sent("CloneVM_Task", "vm-1", leaves, frozenset({HOT_ADD})),))
    assert faults_of(as_read, of_vms=True) == []


def test_an_exemption_that_is_needed_is_told() -> None:
    used: set[Exemption] = set()
    assert faults_of(making(*BOOT.items(), ("powerOn", "false")), of_vms=True, used=used) == []
    assert [one.path for one in used] == ["template|powerOn"]
    assert faults_of(making(*BOOT.items(), ("powerOn", "true")), of_vms=True) != []


def rebooting(*sent: Sent) -> Run:
    change = {"kind": "reboot_host", "id": "reboot esx-1", "host": {"moid": "host-1"}, "edits": []}
    return Run(
        {"changes": [change]}, "7 reboot then", "## reboot esx-1", sent, {}, frozenset({"reboot esx-1"})
    )


def test_a_call_that_no_step_tells_is_found() -> None:
    reboot = Sent("RebootHost_Task", "host-1", (("force", "false"),))
    assert faults_of(rebooting(reboot), of_vms=False) == []
    other = replace(reboot, on="host-2")
    assert faults_of(rebooting(reboot, other), of_vms=False) == [
        "sent, not shown: RebootHost_Task on host-2: the call = "
    ]
    assert faults_of(rebooting(), of_vms=False) == ["shown, not sent: reboot esx-1: RebootHost_Task"]
