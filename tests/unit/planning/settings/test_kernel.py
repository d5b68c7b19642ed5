"""ATS: what the kernel setting is called by release, and that nothing is done where it is on already."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, OptionWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.host_settings.table import setting

ATS = setting("ats")
OPTION = "VMkernel.Boot.atsSupport"


def kernel(configured: str, runtime: str, name: str = "atsSupport") -> dict[str, Any]:
    return {"kernel": {name: {"configured": configured, "runtime": runtime}}}


def by_esxcli(value: str, name: str = "atsSupport") -> EsxcliWrite:
    return EsxcliWrite(command="system.settings.kernel.set", arguments=(("setting", name), ("value", value)))


CASES = (
    Case("ats", Situation.RIGHT, view(facts=kernel("TRUE", "TRUE")), hosts(ats=True), "TRUE"),
    Case("ats", Situation.RIGHT, view(facts=kernel("FALSE", "FALSE")), hosts(ats=False), "FALSE"),
    Case(
        "ats",
        Situation.WRONG,
        view(facts=kernel("FALSE", "FALSE")),
        hosts(ats=True),
        "TRUE",
        writes=(OptionWrite(options={OPTION: True}),),
    ),
    Case(
        "ats",
        Situation.WRONG,
        view(version="7.0.2", facts=kernel("FALSE", "FALSE")),
        hosts(ats=True),
        "TRUE",
        writes=(by_esxcli("TRUE"),),
    ),
    Case(
        "ats",
        Situation.WRONG,
        view(version="7.0.1", facts=kernel("FALSE", "FALSE", "vtdAtsSupport")),
        hosts(ats=True),
        "TRUE",
        writes=(by_esxcli("TRUE", "vtdAtsSupport"),),
    ),
    Case(
        "ats",
        Situation.OFF,
        view(facts=kernel("TRUE", "TRUE")),
        hosts(ats=False),
        "FALSE",
        writes=(OptionWrite(options={OPTION: False}),),
    ),
    Case("ats", Situation.PENDING, view(facts=kernel("TRUE", "FALSE")), hosts(ats=True), "TRUE"),
    Case(
        "ats",
        Situation.NOT_OFFERED,
        view(facts=kernel("FALSE", "FALSE")),
        hosts(ats=True),
        "TRUE",
        other=by_esxcli("TRUE"),
    ),
    Case(
        "ats",
        Situation.NOT_OFFERED,
        view(version="7.0.2", facts=kernel("FALSE", "FALSE")),
        hosts(ats=True),
        "TRUE",
        by_hand="esxcli system settings kernel set --setting=atsSupport --value=TRUE",
    ),
    Case(
        "ats",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.KERNEL: "esxcli was refused", FactGroup.OPTIONS: "refused"}}),
        hosts(ats=True),
        "TRUE",
        unread="esxcli was refused",
    ),
)


def test_no_key_is_no_wish() -> None:
    assert list(ATS.desired_settings(hosts(), view())) == []


@pytest.mark.parametrize(("value", "expected"), [(True, "TRUE"), (False, "FALSE")])
def test_without_esxcli_the_option_tells_one_value(value: bool, expected: str) -> None:
    host = view(facts={"options": {OPTION: value}, "unread": {FactGroup.KERNEL: "refused"}})
    reading = ATS.read(host, "")
    assert (reading.configured, reading.runtime) == (expected, None)


def test_a_release_without_the_setting_has_none() -> None:
    assert ATS.read(view(facts={}), "").is_absent


def test_it_takes_a_reboot_and_the_runbook_names_the_setting_of_the_release() -> None:
    host = view(version="7.0.1", facts=kernel("FALSE", "FALSE", "vtdAtsSupport"))
    desired = wish_of(ATS, hosts(ats=True), host)
    assert ATS.impact(host, desired) is Impact.HOST_REBOOT
    how = ATS.how(host, desired)
    assert how.commands == ("esxcli system settings kernel set --setting=vtdAtsSupport --value=TRUE",)
    assert how.undo[0] == "esxcli system settings kernel set --setting=vtdAtsSupport --value=FALSE"
