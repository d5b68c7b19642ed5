from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import A100_HOST, L40S_HOST, OTHER_A100_HOST, HostRig, rig_of

SHARED = """
about: Two hosts with an A100 each, one of which carries a vGPU.
clusters:
- name: gpu
  drs: {drs}
  drs_options: {options}
  hosts:
  - names: [one.lab, two.lab]
    gpus: [{{board: A100, mode: {mode}, label: "{label}"}}]
vcenter:
  settings: {{vgpu.hotmigrate.enabled: {hot}}}
vms:
- {{name: gpu-01, host: one.lab, gpus: [{gpu}], memory: 16GiB}}
"""


def shared(
    tmp_path: Path,
    *,
    drs: str = "fullyAutomated",
    options: str = "{VgpuMMAutomationTimeoutSecs: '-1'}",
    hot: str = "true",
    mode: str = "time_sliced",
    gpu: str = "grid_a100-10c",
    label: str = "",
) -> HostRig:
    return rig_of(SHARED.format(drs=drs, options=options, hot=hot, mode=mode, gpu=gpu, label=label), tmp_path)


def test_drs_moves_what_runs_and_the_host_rests() -> None:
    rig = HostRig()
    info = rig.enter()
    assert info.state == "success"
    assert rig.host().runtime.inMaintenanceMode
    assert not rig.state().vms.keys() & {rig.vm("web-01").moid, rig.vm("web-02").moid}
    assert rig.vm("web-01").is_on
    assert rig.host_of("web-01") != A100_HOST


@pytest.mark.parametrize("word", ["ensureObjectAccessibility", "noAction", "evacuateAllData"])
def test_a_word_for_vsan_that_the_api_knows_is_taken(word: str) -> None:
    rig = HostRig()
    info = rig.end(rig.host().EnterMaintenanceMode_Task(60, None, for_vsan(word)))
    assert info.state == "success"


@pytest.mark.parametrize("word", ["ensureAccessibility", "evacuateSome", ""])
def test_any_other_word_for_vsan_is_refused_at_once(word: str) -> None:
    rig = HostRig()
    with pytest.raises(vmodl.fault.InvalidArgument) as caught:
        rig.host().EnterMaintenanceMode_Task(60, None, for_vsan(word))
    where = getattr(caught.value, "invalidProperty")  # noqa: B009 - pyvmomi's fault types are not declared
    assert where == "maintenanceSpec.vsanMode.objectAction"
    assert not rig.state().entering_maintenance


def for_vsan(word: str) -> Any:
    return vim.host.MaintenanceSpec(vsanMode=vim.vsan.host.DecommissionMode(objectAction=word))


def test_a_vm_that_is_off_stays_where_it_is() -> None:
    rig = HostRig()
    rig.rest("esx-r12-04.lab")
    assert rig.host_of("archive-01") == "esx-r12-04.lab"


@pytest.mark.parametrize("level", ["manual", "partiallyAutomated"])
def test_without_full_automation_the_task_waits_and_times_out(level: str) -> None:
    rig = HostRig()
    rig.cluster().drs_behavior = level
    info = rig.enter(timeout=600)
    assert info.state == "error"
    assert isinstance(info.error, vim.fault.Timedout)
    assert not rig.state().in_maintenance
    assert not rig.state().entering_maintenance
    assert rig.lab.clock.now() - info.startTime.timestamp() == pytest.approx(600)


def test_a_task_that_waits_ends_when_the_last_vm_stops() -> None:
    rig = HostRig()
    rig.cluster().drs_behavior = "manual"
    task = rig.host().EnterMaintenanceMode_Task(0)
    rig.lab.run_until_idle()
    assert task.info.state == "running"
    for name in ("web-01", "web-02"):
        vim.VirtualMachine(rig.vm(name).moid, rig.instance._stub).PowerOffVM_Task()
    info = rig.end(task)
    assert info.state == "success"
    assert rig.state().in_maintenance


def test_a_task_that_waits_can_be_cancelled() -> None:
    rig = HostRig()
    rig.cluster().drs_behavior = "manual"
    task = rig.host().EnterMaintenanceMode_Task(0)
    rig.lab.run_until_idle()
    task.CancelTask()
    assert task.info.state == "error"
    assert not rig.state().entering_maintenance
    assert rig.enter(timeout=10).state == "error"


def test_a_host_that_enters_or_rests_takes_no_vm() -> None:
    rig = HostRig()
    rig.rest("esx-r12-04.lab")
    rig.cluster().drs_enabled = False
    archive = vim.VirtualMachine(rig.vm("archive-01").moid, rig.instance._stub)
    assert isinstance(rig.end(archive.PowerOnVM_Task()).error, vim.fault.InvalidState)
    rig.leave("esx-r12-04.lab")
    assert rig.end(archive.PowerOnVM_Task()).state == "success"


def test_a_host_enters_once_and_leaves_once() -> None:
    rig = HostRig()
    with pytest.raises(vim.fault.InvalidState):
        rig.host().ExitMaintenanceMode_Task(0)
    rig.rest()
    with pytest.raises(vim.fault.InvalidState):
        rig.host().EnterMaintenanceMode_Task(0)
    rig.leave()
    assert not rig.state().in_maintenance


def test_a_vm_whose_own_drs_is_off_is_not_moved() -> None:
    rig = HostRig()
    spec = vim.cluster.ConfigSpecEx(
        drsVmConfigSpec=[
            vim.cluster.DrsVmConfigSpec(
                operation="add",
                info=vim.cluster.DrsVmConfigInfo(
                    key=vim.VirtualMachine(rig.vm("web-01").moid), enabled=False
                ),
            )
        ]
    )
    rig.done(rig.host().parent.ReconfigureComputeResource_Task(spec, modify=True))
    assert isinstance(rig.enter(timeout=60).error, vim.fault.Timedout)
    assert rig.host_of("web-01") == A100_HOST
    assert rig.host_of("web-02") != A100_HOST


def test_a_vm_with_a_vgpu_is_moved_where_everything_allows_it(tmp_path: Path) -> None:
    rig = shared(tmp_path)
    since = rig.vm("gpu-01").boot_time
    assert rig.enter("one.lab").state == "success"
    assert rig.host_of("gpu-01") == "two.lab"
    assert rig.vm("gpu-01").boot_time == since
    assert not rig.state("one.lab").gpus[0].uses
    assert [use.vm for use in rig.state("two.lab").gpus[0].uses] == [rig.vm("gpu-01").moid]


@pytest.mark.parametrize(
    "change",
    [
        {"options": "{}"},
        {"options": "{VgpuMMAutomationTimeoutSecs: '0'}"},
        {"hot": "false"},
        {"drs": "partiallyAutomated"},
        {"mode": "passthrough", "gpu": "{label: ai}", "label": "ai"},
    ],
)
def test_a_vm_with_a_gpu_stays_otherwise(tmp_path: Path, change: dict[str, Any]) -> None:
    rig = shared(tmp_path, **change)
    assert isinstance(rig.enter("one.lab", timeout=120).error, vim.fault.Timedout)
    assert rig.host_of("gpu-01") == "one.lab"


def test_a_vm_with_a_vgpu_stays_where_no_other_host_has_room(tmp_path: Path) -> None:
    rig = shared(tmp_path)
    rig.rest("two.lab")
    assert isinstance(rig.enter("one.lab", timeout=120).error, vim.fault.Timedout)


def test_reboot_and_shutdown_want_maintenance_mode_or_force() -> None:
    rig = HostRig()
    for method in ("RebootHost_Task", "ShutdownHost_Task"):
        with pytest.raises(vim.fault.InvalidState):
            getattr(rig.host(), method)(force=False)
    rig.done(rig.host().RebootHost_Task(force=True))
    rig.settle()
    assert not rig.vm("web-01").is_on


def test_a_reboot_takes_time_and_brings_a_new_boot_time() -> None:
    rig = HostRig()
    rig.rest()
    before = rig.host().runtime.bootTime
    rig.done(rig.host().RebootHost_Task(force=False))
    assert rig.host().runtime.connectionState == "connected"
    assert rig.host().runtime.bootTime == before
    with pytest.raises(vim.fault.InvalidState):
        rig.host().RebootHost_Task(force=False)
    assert rig.lab.wait()
    host = rig.host()
    assert (host.runtime.connectionState, host.runtime.powerState) == ("notResponding", "unknown")
    with pytest.raises(vmodl.fault.HostNotConnected):
        host.configManager.serviceSystem.RestartService("xorg")
    with pytest.raises(vmodl.fault.HostNotConnected):
        host.ExitMaintenanceMode_Task(0)
    rig.settle()
    runtime = rig.host().runtime
    assert (runtime.connectionState, runtime.powerState) == ("connected", "poweredOn")
    assert runtime.bootTime > before
    assert runtime.inMaintenanceMode


def test_a_host_that_was_shut_down_waits_for_a_hand() -> None:
    rig = HostRig()
    rig.rest()
    before = rig.host().runtime.bootTime
    rig.done(rig.host().ShutdownHost_Task(force=False))
    rig.settle()
    assert rig.host().runtime.connectionState == "notResponding"
    assert rig.lab.wait(rig.lab.clock.now() + 600)
    assert rig.host().runtime.connectionState == "notResponding"
    rig.lab.at_server(A100_HOST, "power_on")
    rig.settle()
    assert rig.host().runtime.bootTime > before


def test_a_hand_changes_the_bios_of_a_host_that_is_off_only() -> None:
    rig = HostRig()
    with pytest.raises(ValueError, match="is on"):
        rig.lab.at_server(L40S_HOST, "bios", sriov=True)
    with pytest.raises(ValueError, match="is on"):
        rig.lab.at_server(L40S_HOST, "power_on")
    rig.rest(L40S_HOST)
    rig.done(rig.host(L40S_HOST).ShutdownHost_Task(force=False))
    rig.settle()
    with pytest.raises(ValueError, match="sriov"):
        rig.lab.at_server(L40S_HOST, "bios", nothing=True)
    with pytest.raises(ValueError, match="no host"):
        rig.lab.at_server("nowhere", "power_on")
    rig.lab.at_server(L40S_HOST, "bios", sriov=True)
    assert rig.state(L40S_HOST).bios.sriov


def test_privileges_are_asked_for() -> None:
    rig = HostRig()
    rig.lab.faults.lacking.add("Host.Config.Maintenance")
    with pytest.raises(vim.fault.NoPermission):
        rig.host().EnterMaintenanceMode_Task(0)
    rig.lab.faults.clear()
    rig.rest(OTHER_A100_HOST)
