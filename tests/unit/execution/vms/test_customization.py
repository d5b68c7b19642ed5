"""The end of a customisation is waited for, by what vCenter tells of it."""

from __future__ import annotations

import pytest

from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import add_own_vm, run
from vgpu_cfg.changes.change import AwaitCustomization
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.own_items import CustomizationSeen

WAITING, RUNNING = CustomizationSeen(), CustomizationSeen(state="running", log="/var/log/imc.log")
DONE = CustomizationSeen(state="succeeded", event="CustomizationSucceeded")
FAILED = CustomizationSeen(
    state="failed",
    event="CustomizationNetworkSetupFailed",
    message="An error occurred while customizing VM a.",
    log="/var/log/imc.log",
)


def outcome(*told: CustomizationSeen, wait_seconds: int = 60) -> Outcome:
    server = FakeVCenter(customizations=list(told))
    add_own_vm(server, "a", "vm-1")
    change = AwaitCustomization(
        id="customise a",
        subject=Subject(kind="vm", name="a", moid="vm-1"),
        vm=VmRef(name="a", moid="vm-1"),
        wait_seconds=wait_seconds,
    )
    report, _ = run(server, change)
    return report.outcomes[0]


@pytest.mark.parametrize("told", [(DONE,), (WAITING, RUNNING, RUNNING, DONE)], ids=["at once", "later"])
def test_it_ends_well(told: tuple[CustomizationSeen, ...]) -> None:
    assert outcome(*told).status == "done"


def test_one_that_fails_is_told_in_vcenters_words() -> None:
    found = outcome(RUNNING, FAILED)
    assert found.status == "failed"
    assert found.message == "customize a: An error occurred while customizing VM a."
    assert found.cause == "the guest's network could not be set up"
    assert found.remedy.startswith("see /var/log/imc.log in the guest; customization runs only once")


@pytest.mark.parametrize(
    ("told", "words"),
    [(WAITING, "did not start"), (RUNNING, "did not complete")],
    ids=["unbegun", "endless"],
)
def test_one_that_does_not_end_is_waited_for_no_longer_than_said(told: CustomizationSeen, words: str) -> None:
    found = outcome(*[told] * 20)
    assert found.status == "failed"
    assert words in found.message
