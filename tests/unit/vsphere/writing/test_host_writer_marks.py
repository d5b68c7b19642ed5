"""What this tool leaves on a host while it works there: custom attributes and an alarm."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.vsphere.scripted import content, item, reading, session_on, typed
from vgpu_cfg.errors import NotOffered, NotPermitted
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter

MARK = HostAttribute.MARK
HOST = vim.HostSystem("host-1")
ALARM = vim.alarm.Alarm("alarm-9")


def fields(*names: str, kind: Any = vim.HostSystem) -> Any:
    found = [
        vim.CustomFieldsManager.FieldDef(key=key, name=name, type=str, managedObjectType=kind)
        for key, name in enumerate(names, start=101)
    ]
    values = {"field": typed("vim.CustomFieldsManager.FieldDef", *found)} if found else {}
    return reading(item(vim.CustomFieldsManager("CustomFieldsManager"), values))


def defined(key: int) -> Any:
    return vim.CustomFieldsManager.FieldDef(key=key, name=str(MARK), type=str)


def set_mark(session: Any, text: str | None) -> int:
    before: int = session.round_trips
    VCenterHostWriter(session).set_host_attribute("host-1", MARK, text)
    return int(session.round_trips - before)


@pytest.mark.parametrize("kind", [vim.HostSystem, vim.ManagedEntity, None], ids=str)
@pytest.mark.parametrize(("text", "sent"), [("{}", "{}"), (None, ""), ("", "")])
def test_an_attribute_that_is_there_is_set_or_cleared(kind: Any, text: str | None, sent: str) -> None:
    known = fields("other", "vgpu_cfg.host", kind=kind)
    with session_on({"RetrievePropertiesEx": known, "SetField": None}) as (session, vcenter):
        assert set_mark(session, text) == 2
        body = vcenter.sent("SetField")
    assert f"<key>102</key><value>{sent}</value>" in body
    assert '<entity type="HostSystem">host-1<' in body


def test_what_a_shell_told_takes_a_call_for_each_attribute_and_one_more() -> None:
    known = fields("vgpu_cfg.read.ecc", "vgpu_cfg.read.nic_firmware")
    with session_on({"RetrievePropertiesEx": known, "SetField": None}) as (session, vcenter):
        before = session.round_trips
        texts = {"vgpu_cfg.read.ecc": "1 abc", "vgpu_cfg.read.nic_firmware": "", "vgpu_cfg.read.mig": ""}
        VCenterHostWriter(session).remember("host-1", texts)
        assert session.round_trips - before == 3  # what is not defined need not be cleared
        bodies = [body for called, body in vcenter.calls if called == "SetField"]
    assert "<key>101</key><value>1 abc</value>" in bodies[0]
    assert "<key>102</key><value></value>" in bodies[1]


def test_an_attribute_is_defined_for_hosts_first() -> None:
    answers = {"RetrievePropertiesEx": fields(), "AddCustomFieldDef": defined(105), "SetField": None}
    with session_on(answers) as (session, vcenter):
        assert set_mark(session, "{}") == 3
        assert "<name>vgpu_cfg.host</name>" in vcenter.sent("AddCustomFieldDef")
        assert ">HostSystem</moType>" in vcenter.sent("AddCustomFieldDef")
        assert "<key>105<" in vcenter.sent("SetField")


def test_one_that_is_for_other_things_is_not_taken() -> None:
    other = fields("vgpu_cfg.host", kind=vim.VirtualMachine)
    answers = {"RetrievePropertiesEx": other, "AddCustomFieldDef": defined(105), "SetField": None}
    with session_on(answers) as (session, vcenter):
        set_mark(session, "{}")
        assert "<key>105<" in vcenter.sent("SetField")


def test_whoever_defines_it_at_the_same_moment_is_no_error() -> None:
    duplicate = vim.fault.DuplicateName(name=str(MARK), object=vim.CustomFieldsManager("c"))
    answers = {"RetrievePropertiesEx": fields(), "AddCustomFieldDef": duplicate, "setCustomValue": None}
    with session_on(answers) as (session, vcenter):
        assert set_mark(session, "{}") == 3
        assert "<key>vgpu_cfg.host</key><value>{}</value>" in vcenter.sent("setCustomValue")


def test_nothing_is_defined_to_be_cleared() -> None:
    with session_on({"RetrievePropertiesEx": fields()}) as (session, vcenter):
        assert set_mark(session, None) == 1
        assert vcenter.methods == ["RetrievePropertiesEx"]


def test_who_may_not_keep_attributes_is_told() -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Global.SetCustomField")
    answers = {"RetrievePropertiesEx": fields("vgpu_cfg.host"), "SetField": lacks}
    with session_on(answers) as (session, _), pytest.raises(NotPermitted, match=r"Global\.SetCustomField"):
        set_mark(session, "{}")


def test_a_vcenter_that_keeps_neither_offers_neither() -> None:
    service = content()
    service.customFieldsManager = service.alarmManager = None
    with session_on({}, service=service) as (session, _):
        writer = VCenterHostWriter(session)
        with pytest.raises(NotOffered):
            set_mark(session, "{}")
        with pytest.raises(NotOffered):
            writer.raise_alarm("host-1", "demo", "why")
        with pytest.raises(NotOffered):
            writer.clear_alarm("host-1", "demo")


def named(host: str = "esx-01", **alarms: str) -> Any:
    return reading(
        item(HOST, {"name": host}),
        *[
            item(vim.alarm.Alarm(moid.replace("_", "-")), {"info.name": name})
            for moid, name in alarms.items()
        ],
    )


def test_the_alarm_is_yellow_from_entering_to_leaving() -> None:
    with session_on({"RetrievePropertiesEx": named(), "CreateAlarm": ALARM}) as (session, vcenter):
        before = session.round_trips
        VCenterHostWriter(session).raise_alarm("host-1", "demo", "MIG on 0000:af:00.0")
        assert session.round_trips - before == 2
        body = vcenter.sent("CreateAlarm")
    assert "<name>vgpu-cfg demo: esx-01</name>" in body
    assert "<description>MIG on 0000:af:00.0</description>" in body
    entered = body.index("EnteredMaintenanceModeEvent")
    left = body.index("ExitMaintenanceModeEvent")
    assert entered < body.index(">yellow<") < left < body.index(">green<")
    assert body.count(">HostSystem</objectType>") == 2


def test_an_alarm_that_is_there_gets_the_new_reason() -> None:
    duplicate = vim.fault.DuplicateName(name="x", object=ALARM)
    answers = {"RetrievePropertiesEx": named(), "CreateAlarm": duplicate, "ReconfigureAlarm": None}
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        VCenterHostWriter(session).raise_alarm("host-1", "demo", "why")
        assert session.round_trips - before == 3
        assert 'type="Alarm">alarm-9<' in vcenter.sent("ReconfigureAlarm")


def test_an_alarm_that_the_fault_does_not_name_is_left() -> None:
    duplicate = vim.fault.DuplicateName(name="x", object=HOST)
    answers = {"RetrievePropertiesEx": named(), "CreateAlarm": duplicate}
    with session_on(answers) as (session, vcenter):
        VCenterHostWriter(session).raise_alarm("host-1", "demo", "why")
        assert vcenter.methods == ["RetrievePropertiesEx", "CreateAlarm"]


def test_who_may_make_no_alarm_is_told() -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Alarm.Create")
    answers = {"RetrievePropertiesEx": named(), "CreateAlarm": lacks}
    with session_on(answers) as (session, _), pytest.raises(NotPermitted, match=r"Alarm\.Create"):
        VCenterHostWriter(session).raise_alarm("host-1", "demo", "why")


def test_only_the_plans_own_alarm_is_removed() -> None:
    answers = {
        "GetAlarm": typed("vim.alarm.Alarm", vim.alarm.Alarm("alarm-1"), ALARM),
        "RetrievePropertiesEx": named(alarm_1="vgpu-cfg other: esx-01", alarm_9="vgpu-cfg demo: esx-01"),
        "RemoveAlarm": None,
    }
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        VCenterHostWriter(session).clear_alarm("host-1", "demo")
        assert session.round_trips - before == 3
        assert 'type="Alarm">alarm-9<' in vcenter.sent("RemoveAlarm")
    with session_on(answers) as (session, vcenter):
        VCenterHostWriter(session).clear_alarm("host-1", "third")
        assert "RemoveAlarm" not in vcenter.methods


def test_where_there_is_no_alarm_nothing_is_removed() -> None:
    with session_on({"GetAlarm": None}) as (session, vcenter):
        VCenterHostWriter(session).clear_alarm("host-1", "demo")
        assert vcenter.methods == ["GetAlarm"]


def test_an_alarm_that_went_meanwhile_is_gone_as_asked() -> None:
    answers = {
        "GetAlarm": typed("vim.alarm.Alarm", ALARM),
        "RetrievePropertiesEx": named(alarm_9="vgpu-cfg demo: esx-01"),
        "RemoveAlarm": vmodl.fault.ManagedObjectNotFound(obj=ALARM),
    }
    with session_on(answers) as (session, _):
        VCenterHostWriter(session).clear_alarm("host-1", "demo")
