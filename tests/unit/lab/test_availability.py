"""What a cluster sets of HA for all of its VMs: sent, shown, refused, and what it does when a host dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, estate_of
from tests.unit.lab.test_clusters import TWO_HOSTS
from tests.unit.lab.test_host_failure import places
from tests.unit.lab.test_host_failure import rig as failing
from vgpu_cfg.lab.state.inventory import Cluster, VmOverride

Das = vim.cluster.DasConfigInfo
Settings = vim.cluster.DasVmSettings


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(estate_of(TWO_HOSTS, tmp_path))


def send(rig: Rig, das: Any, method: str = "ReconfigureComputeResource_Task") -> Any:
    kind: Any = vim.cluster.ConfigSpec if method == "ReconfigureCluster_Task" else vim.cluster.ConfigSpecEx
    return rig.run(rig.find(Cluster), method, spec=kind(dasConfig=das), modify=True)


@pytest.mark.parametrize("method", ["ReconfigureComputeResource_Task", "ReconfigureCluster_Task"])
def test_what_is_sent_is_kept_and_the_rest_stays(rig: Rig, method: str) -> None:
    assert send(rig, Das(defaultVmSettings=Settings(restartPriority="high")), method).state == "success"
    sent = Das(
        enabled=False,
        vmMonitoring="vmMonitoringOnly",
        defaultVmSettings=Settings(isolationResponse="shutdown"),
        option=[vim.option.OptionValue(key="das.isolationaddress0", value="192.0.2.1")],
    )
    assert send(rig, sent, method).state == "success"
    cluster = rig.find(Cluster)
    settings = cluster.das.defaultVmSettings
    assert (settings.restartPriority, settings.isolationResponse) == ("high", "shutdown")
    assert (cluster.ha_enabled, cluster.das.vmMonitoring) == (False, "vmMonitoringOnly")
    assert [one.key for one in cluster.das.option] == ["das.isolationaddress0"]
    gone = Das(option=[vim.option.OptionValue(key="das.isolationaddress0", value="")])
    assert send(rig, gone, method).state == "success"
    assert list(rig.find(Cluster).das.option) == []


@pytest.mark.parametrize(
    "das",
    [
        Das(hostMonitoring="on"),
        Das(vmMonitoring="often"),
        Das(defaultVmSettings=Settings(restartPriority="first")),
        Das(defaultVmSettings=Settings(isolationResponse="suspend")),
    ],
)
def test_a_word_that_there_is_not_is_refused(rig: Rig, das: Any) -> None:
    das.enabled = False
    assert isinstance(send(rig, das).fault, vmodl.fault.InvalidArgument)
    assert rig.find(Cluster).ha_enabled


@pytest.mark.parametrize(
    ("das", "own", "is_restarted"),
    [
        (None, None, True),
        (Das(hostMonitoring="enabled"), None, True),
        (Das(hostMonitoring="disabled"), None, False),
        (Das(defaultVmSettings=Settings(restartPriority="disabled")), None, False),
        (Das(defaultVmSettings=Settings(restartPriority="disabled")), "high", True),
        (Das(defaultVmSettings=Settings(restartPriority="disabled")), "clusterRestartPriority", False),
        (Das(defaultVmSettings=Settings(restartPriority="low")), "disabled", False),
    ],
)
def test_a_dead_hosts_vm_starts_elsewhere_as_it_is_set(
    tmp_path: Path, das: Any, own: str | None, is_restarted: bool
) -> None:
    lab = failing(tmp_path, ha=True)
    (cluster,) = lab.lab.state.all(Cluster)
    cluster.das = das
    if own is not None:
        cluster.overrides[lab.vm("one").moid] = VmOverride(das_settings=Settings(restartPriority=own))
    lab.lab.at_server("esx-01", "fail")
    assert (places(lab)["one"][0] == "esx-02") is is_restarted


def test_it_is_shown_with_what_nobody_set(tmp_path: Path) -> None:
    lab = failing(tmp_path, ha=True)
    (cluster,) = lab.content.rootFolder.childEntity[0].hostFolder.childEntity
    spec = vim.cluster.ConfigSpecEx(
        dasConfig=Das(defaultVmSettings=Settings(restartPriority="low"), admissionControlEnabled=True)
    )
    lab.end(cluster.ReconfigureComputeResource_Task(spec, True))
    shown = cluster.configurationEx.dasConfig
    assert (shown.enabled, shown.hostMonitoring, shown.admissionControlEnabled) == (True, "enabled", True)
    assert shown.defaultVmSettings.restartPriority == "low"
    assert shown.defaultVmSettings.vmToolsMonitoringSettings.failureInterval == 30
