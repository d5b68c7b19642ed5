"""A login with a host writer on one of the two vCenters, and what tests of it read besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.contract.vcenters import Desk, VCenter
from vgpu_cfg.changes.change import ChangeNetwork, SetClusterOption, SetVCenterOption
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.ports import HostWriter, TaskState
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter

MARK = HostAttribute.MARK


@dataclass(frozen=True, slots=True)
class Workshop:
    """A login with a host writer, and a host of a cluster to try it on."""

    kind: str
    desk: Desk
    writer: HostWriter
    host: Host

    def read(self, type_name: str, moid: str, *paths: str) -> dict[str, Any]:
        """Read properties as they stand in vCenter."""
        (found,) = collect_from(self.desk.session, (Paths(type_name, paths),), [Start(type_name, moid)])
        return dict(found.values)

    def trips(self, done: Callable[[], Any]) -> int:
        """Count the round trips of a call."""
        before = self.desk.session.round_trips
        done()
        return self.desk.session.round_trips - before

    def succeeds(self, task: str) -> str | None:
        """Wait for a task that must succeed, and return what it made."""
        update = self.desk.done(task)
        assert update.state is TaskState.SUCCESS, update
        return update.result_moid

    def in_maintenance(self) -> bool:
        (host,) = self.desk.reader.read_hosts([self.host.moid])
        return host.is_in_maintenance_mode

    def mark(self) -> str:
        """Read the mark as anybody would, by the attribute's name."""
        manager = str(self.desk.session.service_content.customFieldsManager._moId)
        known = self.read("vim.CustomFieldsManager", manager, "field").get("field") or ()
        names = {field.key: field.name for field in known}
        values = self.read("vim.HostSystem", self.host.moid, "customValue").get("customValue") or ()
        return next((entry.value for entry in values if names.get(entry.key) == str(MARK)), "")


def open_workshop(vcenter: VCenter) -> Iterator[Workshop]:
    with vcenter.desk() as desk:
        host = next(host for host in desk.inventory().hosts if host.cluster_moid is not None)
        yield Workshop(vcenter.kind, desk, VCenterHostWriter(desk.session), host)


def alarm_names(workshop: Workshop) -> list[str]:
    manager = workshop.desk.session.service_content.alarmManager
    alarms = [str(alarm._moId) for alarm in manager.GetAlarm(None) or ()]
    starts = [Start("vim.alarm.Alarm", moid) for moid in alarms]
    found = collect_from(workshop.desk.session, (Paths("vim.alarm.Alarm", ("info",)),), starts)
    return [f"{item.get('info').name} ({item.get('info').description})" for item in found]


def option_change(workshop: Workshop, value: str | None) -> SetClusterOption:
    assert workshop.host.cluster_moid is not None
    return SetClusterOption(
        id="option",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid=workshop.host.cluster_moid,
        option="VgpuMMAutomationTimeoutSecs",
        value=value,
    )


def vcenter_option(name: str, *, value: bool | int | str) -> SetVCenterOption:
    return SetVCenterOption(id="v", subject=Subject(kind="vcenter", name="vc"), option=name, value=value)


def datacenter(workshop: Workshop) -> str:
    return workshop.desk.inventory().datacenters[0].moid


def make(workshop: Workshop, network: Any) -> str | None:
    change = ChangeNetwork(id="n", subject=Subject(kind="network", name="roce"), network=network)
    return workshop.succeeds(workshop.writer.change_network(change))


def vlan_of(workshop: Workshop, moid: str) -> int:
    kind = "vim.dvs.DistributedVirtualPortgroup"
    return int(workshop.read(kind, moid, "config.defaultPortConfig")["config.defaultPortConfig"].vlan.vlanId)
