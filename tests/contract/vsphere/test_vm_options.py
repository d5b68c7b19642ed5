"""What a cluster is told of single VMs, and custom attributes of VMs, on both vCenters."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from tests.contract.vcenters import Desk, VCenter, fresh
from tests.contract.vsphere.test_vms import SMALL, Place, desk, detail_of, place
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.setting import Carrier
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS
from vgpu_cfg.ports import TaskState

__all__ = ["desk", "place"]

EVERY = [
    pytest.param(setting.key, value, id=f"{setting.key}-{value}")
    for setting in VM_SETTINGS
    if setting.carrier is Carrier.CLUSTER
    for value in setting.values
]


def made(desk: Desk, place: Place) -> str:
    return desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))


def told(desk: Desk, place: Place, moid: str, **settings: SettingValue) -> dict[str, SettingValue]:
    """Tell the cluster of a VM, and return what it says of it then."""
    ended = desk.done(desk.writer.set_overrides(place.cluster_moid, {moid: settings}))
    assert ended.state is TaskState.SUCCESS, ended
    return dict(desk.inventory().cluster_by_moid[place.cluster_moid].overrides_of(moid))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("key", "value"), EVERY)
def test_every_word_of_an_override_is_taken_and_read_back(
    key: str, value: SettingValue, desk: Desk, place: Place
) -> None:
    assert told(desk, place, made(desk, place), **{key: value}) == {key: value}


def test_overrides_of_a_vm_are_edited_one_by_one(desk: Desk, place: Place) -> None:
    moid = made(desk, place)
    both: dict[str, SettingValue] = {"drs": "manual", "ha_restart": "high"}
    assert told(desk, place, moid, **both) == both
    assert told(desk, place, moid, drs="full") == {"drs": "full", "ha_restart": "high"}
    assert told(desk, place, moid, ha_restart="low") == {"drs": "full", "ha_restart": "low"}
    assert told(desk, place, moid, drs="off") == {"drs": "off", "ha_restart": "low"}
    assert told(desk, place, moid, drs="partial") == {"drs": "partial", "ha_restart": "low"}


def test_monitoring_is_added_to_what_ha_does_already(vcenter: VCenter, desk: Desk, place: Place) -> None:
    if vcenter.kind == "vcsim":
        pytest.skip("vcsim edits nothing but the restart priority and its timeout of an HA override")
    moid = made(desk, place)
    told(desk, place, moid, ha_restart="high")
    assert told(desk, place, moid, ha_monitoring="vm") == {"ha_restart": "high", "ha_monitoring": "vm"}


def test_two_vms_are_told_of_in_one_task(desk: Desk, place: Place) -> None:
    first, second = made(desk, place), made(desk, place)
    told(desk, place, first, drs="manual")
    settings: dict[str, SettingValue] = {"drs": "full"}
    ended = desk.done(desk.writer.set_overrides(place.cluster_moid, {first: settings, second: settings}))
    assert ended.state is TaskState.SUCCESS
    cluster = desk.inventory().cluster_by_moid[place.cluster_moid]
    assert [dict(cluster.overrides_of(moid)) for moid in (first, second)] == [settings, settings]


def test_attributes_are_defined_set_changed_and_cleared(desk: Desk, place: Place) -> None:
    moid, owner, cost = made(desk, place), f"owner {fresh()}", f"cost {fresh()}"

    def shown(**values: str) -> dict[str, str]:
        desk.writer.set_attributes(moid, {names[key]: text for key, text in values.items()})
        found = detail_of(desk.vm(moid)).attributes
        return {key: found[name] for key, name in names.items() if found.get(name)}

    names = {"owner": owner, "cost": cost}
    assert shown(owner="ml-team", cost="12") == {"owner": "ml-team", "cost": "12"}
    assert shown(owner="other") == {"owner": "other", "cost": "12"}
    assert shown(cost="") == {"owner": "other"}


def test_an_attribute_that_nobody_has_is_not_defined_to_clear_it(desk: Desk, place: Place) -> None:
    moid, name = made(desk, place), f"never {fresh()}"
    desk.writer.set_attributes(moid, {name: ""})
    manager = desk.session.service_content.customFieldsManager
    assert isinstance(manager, vim.CustomFieldsManager)
    assert name not in {field.name for field in manager.field}
