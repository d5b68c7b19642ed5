"""What each change to hosts, clusters and networks needs, and on which object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.planning.privileges.needed import needed_privileges
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ChangeNetwork,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    RebootHost,
    RelocateVm,
    RestartService,
    SetClusterOption,
    SetVCenterOption,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds import change_host
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.plan import Plan, PlanTarget
from vgpu_cfg.changes.values import HostRef, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.planning.privileges import needs_of_changes

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
OBSERVED = Inventory(vcenter=VCenter(address="vc01", root_folder_moid="group-d1"), read_at=NOON)
COMMON: dict[str, Any] = {"id": "x", "subject": Subject(kind="host", name="esx-01", moid="host-1")}
ON_HOST: dict[str, Any] = {**COMMON, "host": HostRef(name="esx-01", moid="host-1")}
MARK = "Global.SetCustomField"
DEFINED = {"group-d1": ("Global.ManageCustomFields",)}
MAINTENANCE = "Host.Config.Maintenance"


def needed(*changes: Change) -> dict[str, tuple[str, ...]]:
    plan = Plan(
        name="demo",
        target=PlanTarget(address="vc01"),
        read_at=NOON,
        desired=DesiredPlan(name="demo", vcenter="vc01"),
        changes=changes,
    )
    return needed_privileges(plan, OBSERVED)


@pytest.mark.parametrize(
    "change",
    [
        EnterMaintenance(**ON_HOST, reason="why"),
        ExitMaintenance(**ON_HOST),
        RebootHost(**ON_HOST),
        ShutDownHost(**ON_HOST),
    ],
    ids=lambda change: change.kind,
)
def test_taking_a_host_down_and_marking_it(change: Change) -> None:
    assert needed(change) == {"host-1": (MARK, MAINTENANCE), **DEFINED}


WRITES: tuple[tuple[HostWrite, tuple[str, ...]], ...] = (
    (GraphicsWrite(), ("Host.Config.Settings",)),
    (ModuleWrite(module="nvidia", options=""), ("Host.Config.Settings",)),
    (PassthroughWrite(devices=()), ("Host.Config.PciPassthru",)),
    (OptionWrite(options={}), ("Host.Config.AdvancedConfig",)),
    (RulesetWrite(ruleset="pvrdma", is_enabled=True), ("Host.Config.NetService",)),
    (ShellWrite(commands=()), ("Host.Config.NetService",)),
    (VmknicWrite(), ("Host.Config.Network",)),
    (SwitchWrite(switch="vSwitch0"), ("Host.Config.Network",)),
    (EsxcliWrite(command="system.settings.kernel.set"), ()),
)


@pytest.mark.parametrize(("write", "privilege"), WRITES, ids=lambda value: getattr(value, "kind", None))
def test_what_a_write_to_a_host_needs(write: HostWrite, privilege: tuple[str, ...]) -> None:
    assert needed(ChangeHost(**ON_HOST, write=write, settings=())) == {
        "host-1": (MARK, *privilege),
        **DEFINED,
    }


def test_a_licence_is_the_root_folders_matter() -> None:
    found = needed(ChangeHost(**ON_HOST, write=LicenceWrite(secret="esxi"), settings=()))
    assert found["group-d1"] == ("Global.Licenses", "Global.ManageCustomFields")


def test_a_vmknic_is_tied_to_a_network() -> None:
    made = VmknicWrite(network_moid="dvportgroup-1", network_name="roce")
    assert needed(ChangeHost(**ON_HOST, write=made, settings=()))["dvportgroup-1"] == ("Network.Assign",)


def test_every_kind_of_write_is_among_them() -> None:
    kinds = {
        thing
        for name, thing in vars(change_host).items()
        if isinstance(thing, type) and name.endswith("Write") and thing.__module__ == change_host.__name__
    }
    assert kinds == {LicenceWrite, *(type(write) for write, _ in WRITES)}


def test_the_other_way_is_not_asked_about() -> None:
    other = ShellWrite(commands=(("true",),))
    change = ChangeHost(**ON_HOST, write=GraphicsWrite(), other_way=other, settings=())
    assert needed(change) == {"host-1": (MARK, "Host.Config.Settings"), **DEFINED}


def test_services_and_options() -> None:
    assert needed(RestartService(**ON_HOST, service="xorg")) == {"host-1": ("Host.Config.NetService",)}
    option = SetClusterOption(**COMMON, cluster_moid="domain-c1", option="a", value="1")
    assert needed(option) == {"domain-c1": ("Host.Inventory.EditCluster",)}
    assert needed(SetVCenterOption(**COMMON, option="a", value=True)) == {"group-d1": ("Global.Settings",)}
    assert needed(ManualStep(**COMMON, text="by hand")) == {}


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (MakeSwitch(datacenter_moid="datacenter-1", name="roce"), {"datacenter-1": ("DVSwitch.Create",)}),
        (EditSwitch(switch_name="roce", switch_moid="dvs-1", mtu=9000), {"dvs-1": ("DVSwitch.Modify",)}),
        (
            EditSwitch(switch_name="roce", switch_moid="dvs-1", members={"host-1": ("vmnic2",)}),
            {"dvs-1": ("DVSwitch.HostOp", "DVSwitch.Modify"), "host-1": ("Host.Config.Network",)},
        ),
        (
            EditSwitch(switch_name="roce", members={"host-1": ("vmnic2",)}),
            {"host-1": ("Host.Config.Network",)},
        ),
        (
            SetPortgroup(switch_name="roce", switch_moid="dvs-1", name="roce-100", vlan=100),
            {"dvs-1": ("DVPortgroup.Create",)},
        ),
        (
            SetPortgroup(switch_name="roce", portgroup_moid="dvportgroup-1", name="roce-100", vlan=100),
            {"dvportgroup-1": ("DVPortgroup.Modify",)},
        ),
        (SetPortgroup(switch_name="roce", name="roce-100", vlan=100), {}),
    ],
)
def test_what_distributed_switches_need(network: Any, expected: dict[str, tuple[str, ...]]) -> None:
    assert needed(ChangeNetwork(**COMMON, network=network)) == expected


def test_what_is_done_to_a_switch_that_the_plan_makes_is_asked_of_its_datacenter() -> None:
    made = MakeSwitch(datacenter_moid="datacenter-1", name="roce")
    members = EditSwitch(switch_name="roce", members={"host-1": ("vmnic2",)})
    portgroup = SetPortgroup(switch_name="roce", name="roce-100", vlan=100)
    changes = [ChangeNetwork(**COMMON, network=network) for network in (made, members, portgroup)]
    assert needed(*changes)["datacenter-1"] == (
        "DVPortgroup.Create",
        "DVSwitch.Create",
        "DVSwitch.HostOp",
        "DVSwitch.Modify",
    )


def test_an_alarm_is_optional() -> None:
    plan = Plan(
        name="demo",
        target=PlanTarget(address="vc01"),
        read_at=NOON,
        desired=DesiredPlan(name="demo", vcenter="vc01"),
        changes=(EnterMaintenance(**ON_HOST, reason="why"),),
    )
    optional = [one.need for one in needs_of_changes(plan, OBSERVED) if one.need.is_optional]
    assert [need.privileges for need in optional] == [("Alarm.Create", "Alarm.Edit", "Alarm.Delete")]


def test_a_running_vm_that_moves_takes_what_the_method_and_what_vmotion_take() -> None:
    vm = VmRef(name="a", moid="vm-1")
    there = Destination(host_moid="host-2", host_name="esx-02", resource_pool_moid="resgroup-2")
    moved = RelocateVm(
        id="x",
        subject=Subject(kind="vm", name="a", moid="vm-1"),
        edits=(),
        vm=vm,
        destination=there,
        is_running=True,
    )
    assert needed(moved)["vm-1"] == ("Resource.ColdMigrate", "Resource.HotMigrate")
    assert needed(moved.model_copy(update={"is_running": False}))["vm-1"] == ("Resource.ColdMigrate",)
