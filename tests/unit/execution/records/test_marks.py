from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.host_makers import ATS, NVIDIA, estate
from tests.unit.execution.makers import PLAN
from vgpu_cfg.errors import StalePlan
from vgpu_cfg.execution import HostMarks
from vgpu_cfg.execution.records.copies import is_waiting
from vgpu_cfg.model.observed.host_facts import HostMark

BOOT = datetime(2026, 2, 1, tzinfo=UTC)


def taken(server: FakeHosts) -> HostMarks:
    marks = HostMarks(PLAN, server, server, undisputed())
    (host,) = server.read_hosts(["host-1"])
    marks.take(host, server.read_facts(["host-1"], frozenset()).hosts["host-1"])
    return marks


def test_a_mark_is_written_changed_and_cleared_when_nothing_is_owed() -> None:
    server = estate()
    marks = taken(server)
    assert marks.own("host-1") is None
    marks.keep("host-1", maintenance=True, reason="sets ats")
    marks.keep("host-1", opened_ssh=True)
    mark = server.host("esx-01").mark
    assert mark is not None
    assert (mark.maintenance, mark.opened_ssh, mark.reason, mark.since) == (
        True,
        True,
        "sets ats",
        server.time,
    )
    assert mark.run == undisputed().holder.run != ""
    marks.keep("host-1", maintenance=False, reason="", opened_ssh=False)
    assert server.host("esx-01").mark is None
    assert marks.items() == ()


def test_what_the_mark_says_already_takes_no_call() -> None:
    server = estate()
    marks = taken(server)
    marks.keep("host-1", opened_ssh=True)
    marks.keep("host-1", opened_ssh=True)
    assert len(server.asked()) == 1
    marks.clear("host-1")
    marks.clear("host-1")
    marks.keep("host-1", opened_ssh=False)
    marks.waits_since("host-1", BOOT)
    assert len(server.asked()) == 2


def test_settings_wait_and_wait_no_more_one_by_one() -> None:
    server = estate()
    marks = taken(server)
    marks.waits_since("host-1", BOOT, ATS)
    marks.waits_since("host-1", BOOT, NVIDIA)
    marks.waits_no_more("host-1", ATS)
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.waiting == {"nvidia": BOOT}
    marks.waits_no_more("host-1", NVIDIA)
    assert server.host("esx-01").mark is None
    marks.waits_no_more("host-1", NVIDIA)


def test_a_mark_of_another_plan_is_refused_and_one_that_is_no_mark_is_none() -> None:
    server = estate()
    server.host("esx-01").set_mark(plan="other")
    with pytest.raises(StalePlan, match=r"plan other has been working on esx-01 since 2026-03-02 21:04$"):
        taken(server)
    server.host("esx-01").attributes.update(dict.fromkeys(server.host("esx-01").attributes, "edited by hand"))
    assert taken(server).own("host-1") is None


def test_the_same_plan_without_its_id_file_is_told_which_id_to_bring() -> None:
    server = estate()
    server.host("esx-01").set_mark(plan=PLAN.name, id="788e2259-7ec1-4be8-b06f-503840d1b649")
    with pytest.raises(StalePlan) as raised:
        taken(server)
    assert "copy its .id file with the ID 788e2259-7ec1-4be8-b06f-503840d1b649" in raised.value.remedy


@pytest.mark.parametrize(
    ("written_at", "boot_time", "expected"),
    [
        (BOOT, BOOT, True),
        (BOOT, BOOT + timedelta(seconds=3), True),
        (BOOT, datetime(2026, 3, 1, tzinfo=UTC), False),
        (None, None, True),
        (None, BOOT, False),
    ],
)
def test_a_setting_waits_until_the_host_boots(
    written_at: datetime | None, boot_time: datetime | None, expected: bool
) -> None:
    mark = HostMark(plan="demo", since=BOOT, waiting={"ats": written_at})
    assert is_waiting(mark, ATS, boot_time) is expected
    assert not is_waiting(mark, NVIDIA, boot_time)
    assert not is_waiting(None, ATS, boot_time)
