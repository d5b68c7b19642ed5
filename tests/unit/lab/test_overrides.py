"""What a cluster sets for one of its VMs, as it is written, read back, and gone with the VM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, estate_of
from tests.unit.lab.wire.client import shown
from vgpu_cfg.lab.state.inventory import Cluster, VirtualMachine

TWO_CLUSTERS = """
about: two clusters
clusters:
- {name: gpu, hosts: [{name: esx-1}]}
- {name: other, hosts: [{name: esx-2}]}
folders: [training]
templates:
- {name: ubuntu-22.04-efi}
"""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(estate_of(TWO_CLUSTERS, tmp_path))


@pytest.fixture
def vm(rig: Rig) -> VirtualMachine:
    return rig.clone("a", cluster="gpu")


def drs(vm: VirtualMachine, operation: str, **fields: Any) -> Any:
    if operation == "remove":
        return vim.cluster.DrsVmConfigSpec(operation=operation, removeKey=vim.VirtualMachine(vm.moid))
    info = vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine(vm.moid), **fields)
    return vim.cluster.DrsVmConfigSpec(operation=operation, info=info)


def das(vm: VirtualMachine, operation: str, **fields: Any) -> Any:
    if operation == "remove":
        return vim.cluster.DasVmConfigSpec(operation=operation, removeKey=vim.VirtualMachine(vm.moid))
    settings = vim.cluster.DasVmSettings(**fields) if fields else None
    info = vim.cluster.DasVmConfigInfo(key=vim.VirtualMachine(vm.moid), dasSettings=settings)
    return vim.cluster.DasVmConfigSpec(operation=operation, info=info)


def monitoring(**fields: Any) -> Any:
    return vim.cluster.VmToolsMonitoringSettings(**fields)


def sent(rig: Rig, *changes: Any, cluster: str = "gpu") -> Any:
    """Send all changes in one reconfiguration; return the fault, None where it succeeded."""
    spec = vim.cluster.ConfigSpecEx(
        drsVmConfigSpec=[change for change in changes if isinstance(change, vim.cluster.DrsVmConfigSpec)],
        dasVmConfigSpec=[change for change in changes if isinstance(change, vim.cluster.DasVmConfigSpec)],
    )
    moid = rig.find(Cluster, cluster).moid
    return rig.run(moid, "ReconfigureComputeResource_Task", spec=spec, modify=True).fault


def read(rig: Rig, cluster: str = "gpu") -> Any:
    """Return `configurationEx` as a client reads it over the wire."""
    return shown(rig.lab, rig.find(Cluster, cluster)).configurationEx


def test_both_services_are_set_in_one_reconfiguration_and_read_back(rig: Rig, vm: VirtualMachine) -> None:
    settings = monitoring(vmMonitoring="vmMonitoringOnly", clusterSettings=False)
    changes = (
        drs(vm, "add", enabled=True, behavior="manual"),
        das(vm, "add", restartPriority="highest", vmToolsMonitoringSettings=settings),
    )
    assert sent(rig, *changes) is None
    found = read(rig)
    (of_drs,), (of_das,) = found.drsVmConfig, found.dasVmConfig
    assert (of_drs.key._moId, of_drs.enabled, of_drs.behavior) == (vm.moid, True, "manual")
    assert (of_das.key._moId, of_das.dasSettings.restartPriority) == (vm.moid, "highest")
    assert of_das.restartPriority is None
    settings = of_das.dasSettings.vmToolsMonitoringSettings
    assert (settings.vmMonitoring, settings.clusterSettings) == ("vmMonitoringOnly", False)


def test_a_cluster_that_sets_nothing_shows_nothing(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig) is None
    assert not read(rig).drsVmConfig
    assert not read(rig).dasVmConfig


def test_the_old_property_shows_a_priority_that_it_has_a_word_for(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, das(vm, "add", restartPriority="high")) is None
    assert read(rig).dasVmConfig[0].restartPriority == "high"


def test_an_edit_changes_what_it_sets(rig: Rig, vm: VirtualMachine) -> None:
    settings = monitoring(vmMonitoring="vmMonitoringOnly", clusterSettings=False)
    first = das(vm, "add", restartPriority="high", vmToolsMonitoringSettings=settings)
    assert sent(rig, drs(vm, "add", enabled=True, behavior="manual"), first) is None
    edit = das(vm, "edit", vmToolsMonitoringSettings=monitoring(clusterSettings=True))
    assert sent(rig, drs(vm, "edit", enabled=False), edit) is None
    (of_drs,), (of_das,) = read(rig).drsVmConfig, read(rig).dasVmConfig
    assert (of_drs.enabled, of_drs.behavior) == (False, "manual")
    settings = of_das.dasSettings.vmToolsMonitoringSettings
    assert (of_das.dasSettings.restartPriority, settings.vmMonitoring) == ("high", "vmMonitoringOnly")
    assert settings.clusterSettings is True


def test_adding_to_drs_again_overwrites(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, drs(vm, "add", enabled=True, behavior="manual")) is None
    assert sent(rig, drs(vm, "add", enabled=False)) is None
    (found,) = read(rig).drsVmConfig
    assert (found.enabled, found.behavior) == (False, None)


@pytest.mark.parametrize("operation", ["edit", "remove"])
@pytest.mark.parametrize("service", [drs, das])
def test_what_is_not_there_is_neither_edited_nor_removed(
    rig: Rig, vm: VirtualMachine, service: Any, operation: str
) -> None:
    assert isinstance(sent(rig, service(vm, operation)), vmodl.fault.InvalidArgument)


def test_adding_to_ha_again_is_refused(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, das(vm, "add", restartPriority="high")) is None
    fault = sent(rig, das(vm, "add", restartPriority="low"))
    assert isinstance(fault, vmodl.fault.InvalidArgument)
    assert read(rig).dasVmConfig[0].dasSettings.restartPriority == "high"


def test_removing_one_service_leaves_the_other(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, drs(vm, "add", behavior="manual"), das(vm, "add", restartPriority="high")) is None
    assert sent(rig, drs(vm, "remove")) is None
    assert not read(rig).drsVmConfig
    assert read(rig).dasVmConfig[0].dasSettings.restartPriority == "high"
    assert sent(rig, das(vm, "remove")) is None
    assert not rig.find(Cluster, "gpu").overrides


def test_a_spec_of_which_one_part_cannot_be_changes_nothing(rig: Rig, vm: VirtualMachine) -> None:
    fault = sent(rig, drs(vm, "add", behavior="manual"), das(vm, "remove"))
    assert isinstance(fault, vmodl.fault.InvalidArgument)
    assert not read(rig).drsVmConfig


@pytest.mark.parametrize(
    "fields",
    [{"restartPriority": "urgent"}, {"vmToolsMonitoringSettings": monitoring(vmMonitoring="always")}],
)
def test_a_word_that_there_is_not_is_refused(rig: Rig, vm: VirtualMachine, fields: dict[str, Any]) -> None:
    assert isinstance(sent(rig, das(vm, "add", **fields)), vmodl.fault.InvalidArgument)


def test_a_vm_of_another_cluster_is_refused(rig: Rig, vm: VirtualMachine) -> None:
    fault = sent(rig, drs(vm, "add", behavior="manual"), cluster="other")
    assert isinstance(fault, vmodl.fault.InvalidArgument)


def test_an_override_stays_behind_when_its_vm_changes_the_cluster(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, drs(vm, "add", behavior="manual"), das(vm, "add", restartPriority="high")) is None
    pool = vim.ResourcePool(rig.find(Cluster, "other").resource_pool)
    rig.done(vm, "MigrateVM_Task", host=vim.HostSystem(rig.host("esx-2").moid), pool=pool)
    for cluster in ("gpu", "other"):
        assert not read(rig, cluster).drsVmConfig
        assert not read(rig, cluster).dasVmConfig
    assert sent(rig, drs(vm, "add", behavior="manual"), cluster="other") is None


def test_an_override_goes_with_its_vm(rig: Rig, vm: VirtualMachine) -> None:
    assert sent(rig, drs(vm, "add", behavior="manual")) is None
    rig.done(vm, "Destroy_Task")
    assert not read(rig).drsVmConfig
