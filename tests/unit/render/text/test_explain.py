"""How a diagnosis reads: what is left out, what is added, and that no line is too wide."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.knowledge.faults import explanation_of
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, Vm
from vgpu_cfg.planning.remedies.diagnosis import Diagnosis
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind, ConditionState, StartCondition
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.explain import operation_text, render_diagnosis, state_text

VM = Vm(moid="vm-1", name="hvd-02", power_state=PowerState.OFF)


def assessment(says: str, verdict: ConditionState = ConditionState.RIGHT) -> StartCondition:
    return StartCondition(about=ConditionKind.MMIO, verdict=verdict, says=says)


def shown(**fields: Any) -> str:
    found = Diagnosis.model_validate(
        {"vm": VM, "next_command": "govc tasks", "next_reason": "shows"} | fields
    )
    return plain(render_diagnosis(found, 96))


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("VirtualMachine.powerOn", "power on"),
        ("VirtualMachine.reconfigure", "reconfigure"),
        ("VirtualMachine.createSnapshot", "create snapshot"),
        ("", "task"),
    ],
)
def test_an_operation_in_words(operation: str, words: str) -> None:
    assert operation_text(operation) == words


def test_the_state_names_power_host_and_owner() -> None:
    assert state_text(Diagnosis(vm=VM)) == "hvd-02 is off, not owned by a plan"
    owned = VM.model_copy(update={"mark": OwnerMark(plan="demo", vm="hvd-02"), "power_state": PowerState.ON})
    assert state_text(Diagnosis(vm=owned, host="esx-01")) == "hvd-02 runs on esx-01, owned by plan demo"


def test_what_is_wrong_besides_and_what_is_open_have_lines_of_their_own() -> None:
    text = shown(
        others=(assessment("firmware bios, needs EFI", ConditionState.WRONG),),
        unknown=(assessment("size not read", ConditionState.UNKNOWN),),
        notes=("first", "second"),
    )
    assert "\n  also     firmware bios, needs EFI\n" in text
    assert "\n  unknown  size not read\n" in text
    assert "\n  note     first\n           second\n" in text
    assert "\n  cause    no known failure found\n" in text


def test_a_cause_that_does_not_show_is_told_with_how_to_be_sure() -> None:
    explanation = explanation_of("vgpu-plugin")
    assert explanation is not None
    text = shown(explanation=explanation, ruled_out=(assessment("EFI"),))
    assert "The VM's current configuration does not confirm this" in " ".join(text.split())
    assert "verify   grep vmiop_log vmware.log in" in text
    assert "\n  remedy   " in text
    assert all(len(line) <= 96 for line in text.splitlines())


def test_a_cause_that_shows_needs_no_more_proof() -> None:
    text = shown(
        explanation=explanation_of("mmio-too-small"),
        causes=(assessment("size 64, needs 128", ConditionState.WRONG),),
    )
    assert "\n  cause    size 64, needs 128\n" in text
    assert "be sure" not in text


def test_a_log_that_tells_nothing_is_named() -> None:
    text = shown(log_path="[vsan] hvd-02/vmware.log")
    assert "\n  log      [vsan] hvd-02/vmware.log: no matching lines\n" in text
