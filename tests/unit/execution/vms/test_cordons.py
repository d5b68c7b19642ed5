"""Cordons: written as planned, read back, and never over one that somebody else wrote meanwhile."""

from __future__ import annotations

from typing import Any

from tests.fakes.fake_vcenter import START, FakeVCenter
from tests.unit.execution.makers import run
from vgpu_cfg.changes.change import SetCordon
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.model.observed.cordon import CORDON_ATTRIBUTE, Cordon
from vgpu_cfg.model.observed.inventory import Host, Inventory, VCenter
from vgpu_cfg.planning.upkeep.cordon import cordon_host, uncordon_host

OTHERS = Cordon(attribute=CORDON_ATTRIBUTE, reason="fan", by="ben")


def cordon(*cordons: Cordon) -> SetCordon:
    host = Host(moid="host-1", name="esx-01", cordons=cordons)
    seen = Inventory(vcenter=VCenter(address="vc", user="anna"), read_at=START, hosts=(host,))
    change = cordon_host(host, [""], seen, "new DIMM")
    assert change is not None
    return change


def outcome(server: FakeVCenter, change: SetCordon) -> Outcome:
    report, _ = run(server, change)
    return report.outcomes[0]


def server_with(text: str = "", **fields: Any) -> FakeVCenter:
    return FakeVCenter(host_attributes={"host-1": {CORDON_ATTRIBUTE: text} if text else {}}, **fields)


def test_a_cordon_is_written_with_who_and_when_and_once() -> None:
    server = server_with()
    assert outcome(server, cordon()).status == "done"
    kept = Cordon.parse(CORDON_ATTRIBUTE, server.host_attributes["host-1"][CORDON_ATTRIBUTE])
    assert (kept.reason, kept.by, kept.since) == ("new DIMM", "anna", START)
    assert outcome(server, cordon()).status == "not_needed"
    assert len(server.calls) == 1


def test_what_somebody_cordoned_meanwhile_is_left_alone() -> None:
    server = server_with(OTHERS.text)
    found = outcome(server, cordon())
    assert found.status == "failed"
    assert "another user has since cordoned part of esx-01" in found.message
    assert server.host_attributes["host-1"] == {CORDON_ATTRIBUTE: OTHERS.text}
    assert outcome(server, cordon(OTHERS)).status == "done"  # that one was seen, and told


def test_a_cordon_that_does_not_show_is_no_cordon() -> None:
    found = outcome(server_with(drops=frozenset({"host_attributes"})), cordon())
    assert found.status == "failed"
    assert "does not have the new values for vgpu_cfg.cordon" in found.message


def test_it_is_given_back_by_clearing_the_attribute() -> None:
    server = server_with(OTHERS.text)
    change = uncordon_host(Host(moid="host-1", name="esx-01", cordons=(OTHERS,)), [""])
    assert change is not None
    assert outcome(server, change).status == "done"
    assert server.host_attributes["host-1"] == {CORDON_ATTRIBUTE: ""}
    assert uncordon_host(Host(moid="host-1", name="esx-01"), [""]) is None


def test_a_host_that_has_gone_is_told() -> None:
    assert "no longer exists" in outcome(FakeVCenter(), cordon()).message


def test_another_cordon_in_the_place_of_the_one_that_was_seen_stays() -> None:
    newer = OTHERS.model_copy(update={"reason": "smoke", "by": "carl"})
    seen = Host(moid="host-1", name="esx-01", cordons=(OTHERS,))
    for change in (uncordon_host(seen, [""]), cordon(OTHERS)):
        server = server_with(newer.text)
        assert change is not None
        found = outcome(server, change)
        assert found.status == "failed"
        assert "cordoned part of esx-01: smoke (carl)" in found.message
        assert server.host_attributes["host-1"] == {CORDON_ATTRIBUTE: newer.text}
