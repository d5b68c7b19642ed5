"""Hosts that do not answer: for whom they were taken down, and whether they come back by themselves."""

from __future__ import annotations

import pytest

from tests.unit.planning.hosts.plans import MARK, estate, host, kinds, plan
from vgpu_cfg.changes.severity import Severity

AWAY = {"connection": "notResponding", "maintenance": True}


@pytest.mark.parametrize("restart", ["", "shutdown"])
def test_a_host_that_this_plan_shut_down_waits_for_a_hand(restart: str) -> None:
    found = plan(
        estate(host(**AWAY, facts={"mark": MARK | {"maintenance": True, "restart": restart}}), host())
    )
    assert kinds(found) == ["manual_step"]


def test_a_host_that_this_plan_told_to_reboot_comes_back_by_itself() -> None:
    found = plan(
        estate(host(**AWAY, facts={"mark": MARK | {"maintenance": True, "restart": "reboot"}}), host())
    )
    assert kinds(found) == []
    (told,) = [one for one in found.diagnostics if one.code == "VG526"]
    assert told.severity is Severity.WARNING
    assert told.message == "the host is rebooting for this plan and will reconnect"


def test_a_host_that_another_plan_took_down_is_left_to_it() -> None:
    mark = MARK | {"plan": "other", "maintenance": True, "restart": "shutdown"}
    found = plan(estate(host(**AWAY, facts={"mark": mark}), host()), assignment_policy="performance")
    assert kinds(found) == []
    (told,) = [one for one in found.diagnostics if one.code == "VG526"]
    assert told.severity is Severity.WARNING
    assert told.message.startswith("the host does not respond; plan other took it down; no VM")
