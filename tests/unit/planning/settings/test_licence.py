"""Licences: known by their name alone; the key is nowhere in a plan."""

from __future__ import annotations

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.changes.kinds.change_host import LicenceWrite
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

LICENCE = setting("licence")
WANTED = "from secret vsphere"


def licensed(name: str) -> HostView:
    return view(facts={"licence": name})


ENTRY = hosts(licence="vsphere")
PLUS = licensed("VMware vSphere 8 Enterprise Plus")
EVALUATION = licensed("Evaluation Mode")
WRITES = (LicenceWrite(secret="vsphere"),)

CASES = (
    Case("licence", Situation.RIGHT, PLUS, ENTRY, WANTED),
    Case("licence", Situation.RIGHT, EVALUATION, hosts(licence=""), "none"),
    Case("licence", Situation.WRONG, EVALUATION, ENTRY, WANTED, found="Evaluation Mode", writes=WRITES),
    Case("licence", Situation.WRONG, licensed(""), ENTRY, WANTED, found="none", writes=WRITES),
    Case("licence", Situation.OFF, PLUS, hosts(licence=""), "none", by_hand="assign another license"),
    Case("licence", Situation.PENDING, PLUS, ENTRY, WANTED, has_one_value=True),
    Case("licence", Situation.NOT_OFFERED, EVALUATION, ENTRY, WANTED, by_hand=f"assign the license {WANTED}"),
    Case(
        "licence",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.LICENCE: "the account lacks Global.Licenses"}}),
        ENTRY,
        WANTED,
        unread="Global.Licenses",
    ),
)


def test_what_was_not_read_is_no_manual_step() -> None:
    seen = view(facts={"unread": {FactGroup.LICENCE: "no privilege"}})
    assert LICENCE.by_hand(seen, wish_of(LICENCE, ENTRY, seen)) == ""


def test_without_a_licence_in_the_plan_file_there_is_no_wish() -> None:
    assert list(LICENCE.desired_settings(hosts(), PLUS)) == []


def test_the_runbook_names_the_secret_and_never_a_key() -> None:
    how = LICENCE.how(EVALUATION, wish_of(LICENCE, ENTRY, EVALUATION))
    assert how.commands == ("govc license.assign -host {host} <the key in the secret vsphere>",)
    assert LICENCE.how(PLUS, wish_of(LICENCE, hosts(licence=""), PLUS)).commands == ()
