"""The triggered alarms of hosts, as a watch reads them from the lab and from vcsim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.contract.vcenters import Desk, VCenter, fresh, lab_vcenter
from tests.contract.vsphere.host_writing import Workshop
from vgpu_cfg.lab.simulation.clock import VMS_RUN_SINCE, as_datetime
from vgpu_cfg.model.observed.own_items import HostAlarm

ESTATE = """
about: Three servers, two of them with alarms.
clusters:
- name: gpu
  hosts:
  - name: esx-01.lab
    alarms:
    - {name: Host memory usage}
    - {name: Host CPU usage, status: yellow}
    - {name: Host hardware power status, acknowledged: true}
    - {name: "vgpu-cfg demo: esx-01.lab", status: yellow}
  - {name: esx-02.lab, alarms: [{name: Host memory usage, status: yellow}]}
  - {name: esx-03.lab}
"""


def lab(folder: Path) -> VCenter:
    estate = folder / "alarms.yaml"
    estate.write_text(ESTATE, encoding="utf-8")
    return lab_vcenter(str(estate))


def told(desk: Desk, *, trips: int) -> dict[str, list[tuple[str, bool]]]:
    names = {host.moid: host.name for host in desk.inventory().hosts}
    before = desk.session.round_trips
    found = desk.reader.read_alarms(list(names))
    assert desk.session.round_trips - before == trips
    return {names[moid]: [(one.name, one.is_red) for one in alarms] for moid, alarms in found.items()}


def test_alarms_of_hosts_that_nobody_has_acknowledged(tmp_path: Path) -> None:
    vcenter = lab(tmp_path)
    with vcenter.desk() as desk:
        assert told(desk, trips=2) == {
            "esx-01.lab": [("Host memory usage", True), ("Host CPU usage", False)],
            "esx-02.lab": [("Host memory usage", False)],
            "esx-03.lab": [],
        }
        moid = desk.inventory().hosts[1].moid
        (alarm,) = desk.reader.read_alarms([moid])[moid]
        assert alarm == HostAlarm(name="Host memory usage", is_red=False, since=as_datetime(VMS_RUN_SINCE))
        assert vcenter.lab is not None
        vcenter.lab.state.alarms.clear()
        assert set(map(tuple, told(desk, trips=1).values())) == {()}


def test_nothing_is_said_of_alarms_that_the_account_may_not_read(tmp_path: Path) -> None:
    vcenter = lab(tmp_path)
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        moids = [host.moid for host in desk.inventory().hosts]
        vcenter.lab.faults.lacking |= {"System.View"}
        assert desk.reader.read_alarms(moids) == {}


def test_an_alarm_on_vcsim_until_it_is_acknowledged(on_vcsim: Workshop) -> None:
    content, name, moid = on_vcsim.desk.session.service_content, fresh("Fan"), on_vcsim.host.moid
    of: Any = {"eventTypeId": f"test.{name}", "objectType": vim.HostSystem}
    red = vim.alarm.EventAlarmExpression(eventType=vim.event.EventEx, status="red", **of)
    expression = vim.alarm.OrAlarmExpression(expression=[red])
    spec = vim.alarm.AlarmSpec(name=name, description="", enabled=True, expression=expression)
    alarm = content.alarmManager.CreateAlarm(content.rootFolder, spec)
    assert told(on_vcsim.desk, trips=1)[on_vcsim.host.name] == []
    at = as_datetime(VMS_RUN_SINCE)
    event = vim.event.EventEx(objectId=moid, key=0, chainId=0, createdTime=at, userName="", **of)
    content.eventManager.PostEvent(event)
    assert told(on_vcsim.desk, trips=2)[on_vcsim.host.name] == [(name, True)]
    content.alarmManager.AcknowledgeAlarm(alarm, vim.HostSystem(moid))
    assert told(on_vcsim.desk, trips=1)[on_vcsim.host.name] == []
    alarm.RemoveAlarm()
