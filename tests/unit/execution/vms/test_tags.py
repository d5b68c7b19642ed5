"""Tags are taken before others are given, and what a VM does not show then is no success."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import add_own_vm, run
from vgpu_cfg.changes.change import SetTags
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.own_items import Tag

WEEKLY, DAILY = (Tag(category="Backup", name=name, id=f"urn:{name}") for name in ("weekly", "daily"))


def outcome(server: FakeVCenter, **fields: Any) -> Outcome:
    vm = VmRef(name="a", moid="vm-1")
    change = SetTags(id="set tags of a", subject=Subject(kind="vm", name="a", moid="vm-1"), vm=vm, **fields)
    report, _ = run(server, change)
    return report.outcomes[0]


def server_with(*tags: Tag, **fields: Any) -> FakeVCenter:
    server = FakeVCenter(tags={"vm-1": frozenset(tag.id for tag in tags)}, **fields)
    add_own_vm(server, "a", "vm-1")
    return server


def test_tags_change_hands() -> None:
    server = server_with(WEEKLY)
    assert outcome(server, detach=(WEEKLY,), attach=(DAILY,)).status == "done"
    assert server.tags["vm-1"] == {DAILY.id}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attach": (DAILY,)}, "it is missing Backup/daily"),
        ({"detach": (WEEKLY,)}, "it still has Backup/weekly"),
    ],
)
def test_tags_that_do_not_show_are_no_success(fields: Any, words: str) -> None:
    found = outcome(server_with(WEEKLY, drops=frozenset({"tags"})), **fields)
    assert found.status == "failed"
    assert words in found.message
