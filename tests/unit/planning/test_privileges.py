"""What each change to hosts, clusters and networks needs, and on which object."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.plan import host_change
from vgpu_cfg.model.plan.change import (
    Change,
    ChangeHost,
    ChangeNetwork,
    EnterMaintenance,
    ExitMaintenance,
    HostRef,
    ManualStep,
    Plan,
    PlanTarget,
    RebootHost,
    RestartService,
    SetClusterOption,
    SetVCenterOption,
    ShutDownHost,
    Subject,
)
from vgpu_cfg.model.plan.host_change import (
    EditSwitch,
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    MakeSwitch,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    SetPortgroup,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.planning import privileges
from vgpu_cfg.planning.privileges import needed_privileges

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "permissions.md"
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
OBSERVED = Inventory(vcenter=VCenter(address="vc01"), read_at=NOON)
COMMON: dict[str, Any] = {"id": "x", "subject": Subject(kind="host", name="esx-01", moid="host-1")}
ON_HOST: dict[str, Any] = {**COMMON, "host": HostRef(name="esx-01", moid="host-1")}
MARK = "Global.SetCustomField"
MAINTENANCE = "Host.Config.Maintenance"


def needed(*changes: Change) -> dict[str, tuple[str, ...]]:
    plan = Plan(
        name="demo",
        target=PlanTarget(address="vc01"),
        read_at=NOON,
        desired=DesiredPlan(name="demo", vcenter="vc01"),
        changes=changes,
    )
    return dict(needed_privileges(plan, OBSERVED))


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
    assert needed(change) == {"host-1": (MARK, MAINTENANCE)}


WRITES: tuple[tuple[HostWrite, tuple[str, ...]], ...] = (
    (GraphicsWrite(), ("Host.Config.Settings",)),
    (ModuleWrite(module="nvidia", options=""), ("Host.Config.Settings",)),
    (PassthroughWrite(devices=()), ("Host.Config.PciPassthru",)),
    (OptionWrite(options={}), ("Host.Config.AdvancedConfig",)),
    (RulesetWrite(ruleset="pvrdma", is_enabled=True), ("Host.Config.NetService",)),
    (ShellWrite(commands=()), ("Host.Config.NetService",)),
    (VmknicWrite(), ("Host.Config.Network",)),
    (SwitchWrite(switch="vSwitch0"), ("Host.Config.Network",)),
    (LicenceWrite(secret="esxi"), ()),
    (EsxcliWrite(command="system.settings.kernel.set"), ()),
)


@pytest.mark.parametrize(("write", "privilege"), WRITES, ids=lambda value: getattr(value, "kind", None))
def test_what_a_write_to_a_host_needs(write: HostWrite, privilege: tuple[str, ...]) -> None:
    assert needed(ChangeHost(**ON_HOST, write=write, settings=())) == {"host-1": (MARK, *privilege)}


def test_a_vmknic_is_tied_to_a_network() -> None:
    made = VmknicWrite(network_moid="dvportgroup-1", network_name="roce")
    assert needed(ChangeHost(**ON_HOST, write=made, settings=()))["dvportgroup-1"] == ("Network.Assign",)


def test_every_kind_of_write_is_among_them() -> None:
    kinds = {
        thing
        for name, thing in vars(host_change).items()
        if isinstance(thing, type) and name.endswith("Write") and thing.__module__ == host_change.__name__
    }
    assert kinds == {type(write) for write, _ in WRITES}


def test_the_other_way_is_not_asked_about() -> None:
    other = ShellWrite(commands=(("true",),))
    change = ChangeHost(**ON_HOST, write=GraphicsWrite(), other_way=other, settings=())
    assert needed(change) == {"host-1": (MARK, "Host.Config.Settings")}


def test_services_and_options() -> None:
    assert needed(RestartService(**ON_HOST, service="xorg")) == {"host-1": ("Host.Config.NetService",)}
    option = SetClusterOption(**COMMON, cluster_moid="domain-c1", option="a", value="1")
    assert needed(option) == {"domain-c1": ("Host.Inventory.EditCluster",)}
    assert needed(SetVCenterOption(**COMMON, option="a", value=True)) == {}
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


def test_the_page_on_permissions_names_every_privilege() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = {value for name, value in vars(privileges).items() if name.isupper() and isinstance(value, str)}
    assert len(named) > 30
    assert {privilege for privilege in named if f"`{privilege}`" not in page} == set()
