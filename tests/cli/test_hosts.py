"""Hosts from out of the box to ready and back again, by the commands that a person types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import (
    A100_HOSTS,
    ESTATE,
    HAND,
    L40S_HOSTS,
    PLAN,
    SSH,
    Watch,
    hosts_of,
    is_tidy,
    marks_of,
    put_state,
    settings_of,
    state_file,
    values_of,
    watch_labs,
)
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine
from vgpu_cfg.lab.state.tags import fields_of, set_attribute

SSH_ONLY = {"SetField", "StartService", "StopService"}
"""What reading by the shell takes: the service, and the mark that owes it a stop."""

LATER = pytest.mark.long("more ways to prepare the hosts of the example: tests/cli/test_hosts.py")

RESTARTS = 2
"""Of every host of the example, and none can be spared.

The A100 hosts: the first reboot brings the driver, the graphics types, the NICs' firmware and the words
of their driver. MIG, ECC and the scheduler are set in the host driver, so they wait until it is there;
passthrough and virtual functions wait for the firmware: the second reboot brings what they need. The vGPU
mode comes after it, as a reboot drops it. The L40S hosts: one cold boot brings driver, ATS and BIOS, and one
reboot the scheduler, which is set in that driver.
"""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The example applied up to the hand that it waits for, then to its end."""

    before_hand: dict[str, Any]
    at_the_end: dict[str, Any]
    restarts: dict[str, int]
    most_down: int
    state: Path
    """The lab's state, as a file."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """Apply the example, once for all tests."""
    folder = tmp_path_factory.mktemp("ready")
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(folder, patch)
        watch = watch_labs(patch)
        first = vgpu_cfg("apply", "--yes", PLAN, "--output", "json")
        assert first.code == 7, first.told
        vgpu_cfg.done(*HAND)
        second = vgpu_cfg.done("apply", "--yes", PLAN, "--output", "json")
        yield Prepared(
            json.loads(first.out),
            json.loads(second.out),
            dict(watch.restarts),
            watch.most_down,
            state_file(vgpu_cfg).absolute(),
        )


@pytest.fixture
def ready(prepared: Prepared) -> Path:
    """Return the lab's state with the example applied, as a file."""
    return prepared.state


def readings(report: dict[str, Any]) -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """Return what was read back, by host, setting and device."""
    return {
        row["name"]: {(found["setting"], found["device"]): found for found in row["readings"]}
        for row in report["hosts"]
    }


# ---------------------------------------------------------------- on


def test_hosts_come_from_out_of_the_box_to_ready_and_stay_so(
    prepared: Prepared, vgpu_cfg: CommandLine, watch: Watch
) -> None:
    report = prepared.before_hand
    assert {row["name"]: row["state"] for row in report["hosts"]} == {
        **dict.fromkeys(A100_HOSTS, "ready"),
        **dict.fromkeys(L40S_HOSTS, "waiting"),
    }
    assert len(report["waiting_for"]) == 2
    put_state(vgpu_cfg, prepared.state)
    state = vgpu_cfg.lab(ESTATE).state
    for host in state.all(Host):
        assert values_of(host) == (WANTED_A100 if host.name in A100_HOSTS else WANTED_L40S), host.name
    assert is_tidy(state)
    assert prepared.restarts == dict.fromkeys((*A100_HOSTS, *L40S_HOSTS), RESTARTS)
    assert prepared.most_down == 2
    assert all(vm.is_on for vm in state.all(VirtualMachine) if not vm.is_template and vm.name != "archive-01")

    at_the_end = readings(prepared.at_the_end)
    told = readings(report) | {name: at_the_end[name] for name in L40S_HOSTS}
    for name in A100_HOSTS:
        assert told[name].keys() >= READ_BACK_A100
    for name in L40S_HOSTS:
        assert told[name].keys() >= READ_BACK_L40S
    for found in (found for row in told.values() for found in row.values()):
        assert found["runtime"] is not None, found
        assert not found["waits_for"], found

    before = settings_of(state)
    watch.forget()
    again = vgpu_cfg.done("apply", "--yes", PLAN)
    assert "0 changes" in again.told
    assert watch.writes.keys() <= SSH_ONLY
    after = vgpu_cfg.lab(ESTATE).state
    assert after.tasks == state.tasks
    assert settings_of(after) == before
    assert is_tidy(after)


READ_BACK_A100 = {
    ("driver", ""),
    ("graphics_type", ""),
    ("assignment_policy", ""),
    ("ats", ""),
    ("nmlx5_core", ""),
    ("nmlx5_rdma", ""),
    ("gpu_graphics_type", "0000:21:00.0"),
    ("gpu_graphics_type", "0000:e2:00.0"),
    ("mig", "0000:21:00.0"),
    ("ecc", "0000:21:00.0"),
    ("ecc", "0000:e2:00.0"),
    ("scheduler", "0000:e2:00.0"),
    ("vgpu_mode", "0000:e2:00.0"),
    ("nic_firmware", "0000:24:00.0 SRIOV_EN"),
    ("nic_firmware", "0000:24:00.0 NUM_OF_VFS"),
    ("nic_firmware", "0000:e4:00.0 ATS_ENABLED"),
    ("nic_sriov", "0000:24:00.0"),
    ("nic_passthrough", "0000:e4:00.0"),
    ("nic_label", "0000:e4:00.0"),
}
READ_BACK_L40S = {
    ("driver", ""),
    ("graphics_type", ""),
    ("ats", ""),
    ("bios_sriov", ""),
    ("gpu_graphics_type", "0000:21:00.0"),
    ("scheduler", "0000:21:00.0"),
}
WANTED_A100 = {
    "driver": ("nvd-aie", "580.95.02"),
    "graphics": ("sharedDirect", "consolidation", "consolidation"),
    "ats": ("TRUE", "TRUE"),
    "bios": True,
    "gpu 0000:21:00.0": ("sharedDirect", "sharedDirect", "sameSize", (True, True), (True, True)),
    "gpu 0000:e2:00.0": ("sharedDirect", "sharedDirect", "mixedSize", (False, False), (True, True)),
    "nic 0000:c1:00.0": ((), 0, 0),
    "nic 0000:24:00.0": ((("SRIOV_EN", "True(1)", "True(1)"), ("NUM_OF_VFS", "8", "8")), 8, 8),
    "nic 0000:e4:00.0": ((("ATS_ENABLED", "True(1)", "True(1)"),), 0, 0),
    "passed through": [("0000:e4:00.0", True, "rail")],
    "module nmlx5_core": ("pfctx=0x08 pfcrx=0x08 trust_state=2",) * 2,
    "module nmlx5_rdma": ("pcp_force=3 dscp_force=26",) * 2,
    "module nvidia": ("NVreg_RegistryDwordsPerDevice=pci=0000:e2:00.0;RmPVMRL=0x01",) * 2,
}
WANTED_L40S = {
    "driver": ("nvd-aie", "580.95.02"),
    "graphics": ("sharedDirect", "performance", "performance"),
    "ats": ("TRUE", "TRUE"),
    "bios": True,
    "gpu 0000:21:00.0": ("sharedDirect", "sharedDirect", "sameSize", (False, False), (True, True)),
    "nic 0000:c1:00.0": ((), 0, 0),
    "nic 0000:24:00.0": ((), 0, 0),
    "passed through": [],
    "module nmlx5_core": ("", ""),
    "module nmlx5_rdma": ("", ""),
    "module nvidia": ("NVreg_RegistryDwords=RmPVMRL=0x11",) * 2,
}


@LATER
def test_one_host_at_a_time_where_the_plan_says_so(vgpu_cfg: CommandLine, watch: Watch) -> None:
    text = Path(PLAN).read_text(encoding="utf-8").replace("max_hosts_down: 2", "max_hosts_down: 1")
    plan = vgpu_cfg.write("one.yaml", text)
    assert vgpu_cfg("apply", "--yes", plan).code == 7
    assert watch.most_down == 1


def test_a_plan_reads_and_does_nothing_else(vgpu_cfg: CommandLine, watch: Watch, ready: Path) -> None:
    for is_ready in (False, True):
        if is_ready:
            put_state(vgpu_cfg, ready)
        watch.forget()
        for command in (("plan", PLAN), ("status", PLAN), ("runbook", PLAN)):
            vgpu_cfg.done(*command)
        assert watch.calls["RetrievePropertiesEx"] > 0
        assert not watch.writes
        assert not any(name.startswith("$") for name in watch.calls)


def test_a_status_says_whom_it_could_not_read_in_full(vgpu_cfg: CommandLine, ready: Path) -> None:
    put_state(vgpu_cfg, ready)
    shown = vgpu_cfg.done("status", PLAN, VGPU_CFG_REMEMBER_DAYS="0")
    assert "in sync except for 4 partly unknown hosts" in shown.out
    assert "UNKNOWN 4 settings each of esx-r12-{01..02}.lab, readable only over SSH" in shown.out
    assert vgpu_cfg("status", PLAN, "--exit-code", VGPU_CFG_REMEMBER_DAYS="0").code == 9
    assert "in sync" in vgpu_cfg.done("status", PLAN, "--exit-code").out


def test_the_plan_after_an_apply_is_in_sync_without_a_shell(
    vgpu_cfg: CommandLine, watch: Watch, ready: Path
) -> None:
    put_state(vgpu_cfg, ready)
    plan = vgpu_cfg("plan", PLAN, "--exit-code")
    assert plan.code == 0, plan.told
    assert "in sync, 4 hosts, 0 changes" in plan.told
    assert "UNKNOWN" not in plan.told
    assert not watch.writes
    assert not any(name.startswith("$") for name in watch.calls)
    trips = sum(watch.calls.values())
    watch.forget()
    vgpu_cfg.done("plan", PLAN, VGPU_CFG_REMEMBER_DAYS="0")
    assert sum(watch.calls.values()) == trips  # what is remembered comes with the bulk reading


def test_what_is_remembered_is_short_and_written_once(
    vgpu_cfg: CommandLine, watch: Watch, ready: Path
) -> None:
    put_state(vgpu_cfg, ready)
    kept = remembered(vgpu_cfg.lab(ESTATE).state)
    assert set(kept) == {*A100_HOSTS, *L40S_HOSTS}
    assert set(kept[A100_HOSTS[0]]) == {f"vgpu_cfg.read.{row}" for row in ("ecc", "mig", "nic_firmware")}
    assert set(kept[L40S_HOSTS[0]]) == {"vgpu_cfg.read.bios_sriov"}
    assert all(len(text) <= 255 for texts in kept.values() for text in texts.values())
    vgpu_cfg.done("apply", "--yes", PLAN)
    # A mark before the service is started and after it is stopped, and nothing else.
    assert watch.calls["SetField"] == 2 * len(kept)
    assert remembered(vgpu_cfg.lab(ESTATE).state) == kept


@pytest.mark.parametrize("texts", [("", "{}"), ("1 00000000 000000000000000000000000", "1")])
def test_a_forged_memory_is_unknown_and_nothing_is_written_on_it(
    texts: tuple[str, str], vgpu_cfg: CommandLine, watch: Watch, ready: Path
) -> None:
    put_state(vgpu_cfg, ready)
    lab = vgpu_cfg.lab(ESTATE)
    forged = dict(zip(A100_HOSTS, texts, strict=True))
    with lab.transaction():
        for host in lab.state.all(Host):
            if host.name in forged:
                set_attribute(lab.state, host, "vgpu_cfg.read.ecc", forged[host.name])
                host.gpus[0].ecc_enabled = host.gpus[0].ecc_pending = False
                lab.state.touch(host)
    shown = vgpu_cfg("plan", PLAN, "--exit-code")
    assert shown.code == 9
    assert "UNKNOWN 2 settings each of esx-r12-{01..02}.lab, readable only over SSH: ECC" in shown.told
    # A shell tells what is: there it is no longer unknown.
    assert vgpu_cfg("plan", PLAN, "--open-shell", "--exit-code").code == 10


def remembered(state: LabState) -> dict[str, dict[str, str]]:
    """Return what the hosts keep of what their shells told, by host and attribute."""
    names = {str(field["key"]): field["name"] for field in fields_of(state)}
    found: dict[str, dict[str, str]] = {}
    for host in state.all(Host):
        values = state.custom_values.get("values", {}).get(host.moid, {})
        kept = {names[key]: text for key, text in values.items() if names[key].startswith("vgpu_cfg.read.")}
        if kept:
            found[host.name] = kept
    return found


def test_a_plan_with_open_shells_closes_them_again(vgpu_cfg: CommandLine, watch: Watch, ready: Path) -> None:
    put_state(vgpu_cfg, ready)
    shown = vgpu_cfg.done("plan", "--open-shell", "--exit-code", PLAN)
    assert "their SSH services were started" in shown.told
    assert watch.writes.keys() <= SSH_ONLY
    assert watch.calls["StartService"] == watch.calls["StopService"] > 0
    assert is_tidy(vgpu_cfg.lab(ESTATE).state)


def test_an_ssh_service_that_somebody_else_has_started_stays_as_it_is(
    vgpu_cfg: CommandLine, watch: Watch, ready: Path
) -> None:
    put_state(vgpu_cfg, ready)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        for host in lab.state.all(Host):
            host.services[SSH].running = True
            lab.state.touch(host)
    watch.forget()
    vgpu_cfg.done("plan", "--exit-code", PLAN)
    assert not watch.writes
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert not watch.writes
    assert all(host.services[SSH].running for host in vgpu_cfg.lab(ESTATE).state.all(Host))


# ---------------------------------------------------------------- off


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@LATER
def test_every_setting_is_turned_off_again(vgpu_cfg: CommandLine, watch: Watch, ready: Path) -> None:
    start = {host.name: values_of(host) for host in vgpu_cfg.lab(ESTATE).state.all(Host)}
    put_state(vgpu_cfg, ready)
    for step in ("plans/hosts-off-first.yaml", "plans/hosts-off-then.yaml"):
        watch.forget()
        vgpu_cfg.done("apply", "--yes", step)
        assert watch.most_down <= 2
        # The driver is there throughout, and nothing that is set back waits for anything else to be.
        assert set(watch.restarts.values()) <= {1}
        watch.forget()
        assert "0 changes" in vgpu_cfg.done("apply", "--yes", step).told
        assert watch.writes.keys() <= SSH_ONLY
    state = vgpu_cfg.lab(ESTATE).state
    for host in state.all(Host):
        found, before = values_of(host), start[host.name]
        assert found["driver"] == ("nvd-aie", "580.95.02")
        assert found["module nvidia"] == ("", "")
        left = {key: value for key, value in found.items() if key not in {"driver", "module nvidia", "bios"}}
        gone = {key: value for key, value in before.items() if key not in {"driver", "bios"}}
        for name, (_, *rest) in [item for item in gone.items() if item[0].startswith("gpu ")]:
            gone[name] = ("shared", *rest)  # with a driver it is no longer `basic`
        assert left == gone
    assert is_tidy(state)


# ---------------------------------------------------------------- VMs on the hosts

OTHERS = """
about: Two servers with A100s, and a VM of somebody else.
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - names: [esx-01.lab, esx-02.lab]
    gpus:
    - {board: A100, pci_id: "0000:21:00.0", numa: 0}
    - {board: A100, pci_id: "0000:e2:00.0", numa: 1, mode: MODE, label: whole}
folders: [training]
templates:
- {name: ubuntu-22.04-efi, hardware_version: 19, cpus: 4, memory: 8GiB, disks: [64GiB]}
vms:
- {name: theirs, host: esx-01.lab, power: POWER, gpus: [GPU]}
"""
FAIR = """
version: 1
name: fair
vcenter: lab:others.yaml
hosts:
- names: [esx-01.lab]
  gpus: {match: {pci_id: "0000:21:00.0"}, use: vgpu, scheduler: equal_share}
  disruption: {allow: [maintenance, reboot]}
"""


def others(vgpu_cfg: CommandLine, gpu: str, *, mode: str = "passthrough", power: str = "on") -> None:
    vgpu_cfg.write(
        "others.yaml", OTHERS.replace("MODE", mode).replace("GPU]", f"{gpu}]").replace("POWER", f'"{power}"')
    )


@pytest.mark.parametrize(
    ("gpu", "what"),
    [
        ('{pci_id: "0000:e2:00.0"}', "a passthrough device"),
        ("{label: whole}", "a passthrough device"),
        ("grid_a100-40c", "a vGPU"),
    ],
)
def test_a_host_on_which_somebody_elses_vm_holds_a_device_is_not_taken_down(
    gpu: str, what: str, vgpu_cfg: CommandLine, watch: Watch
) -> None:
    others(vgpu_cfg, gpu)
    plan = vgpu_cfg.write("fair.yaml", FAIR)
    for command in (("plan", plan), ("apply", "--yes", "--allow-power-cycle", plan)):
        ran = vgpu_cfg(*command)
        assert ran.code == 4, ran.told
        assert f"VG512 theirs is running with {what} on the host and does not belong to this plan" in ran.told
    assert not watch.writes
    assert vgpu_cfg.look("others.yaml").tasks == ()


def test_a_host_on_which_it_is_switched_off_is_prepared(vgpu_cfg: CommandLine, watch: Watch) -> None:
    others(vgpu_cfg, '{pci_id: "0000:e2:00.0"}', power="off")
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("fair.yaml", FAIR))
    assert watch.restarts == {"esx-01.lab": 1}
    host = hosts_of(vgpu_cfg.lab("others.yaml").state)["esx-01.lab"]
    assert values_of(host)["module nvidia"] == ("NVreg_RegistryDwords=RmPVMRL=0x01",) * 2


MINE = """
vms:
- {name: mine, template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB,
   gpus: grid_a100-40c, place: {hosts: [esx-01.lab]}}
"""


def test_own_vms_are_switched_off_where_that_is_allowed_and_on_again(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    others(vgpu_cfg, "grid_a100-40c", mode="time_sliced", power="off")
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("vms.yaml", FAIR.partition("hosts:")[0] + MINE))
    plan = vgpu_cfg.write("both.yaml", FAIR + MINE)
    vgpu_cfg.keep_id(plan)
    before = vgpu_cfg.look("others.yaml")
    refused = vgpu_cfg("apply", "--yes", plan)
    assert refused.code == 4
    assert "VG533 VMs in this plan must be powered off while the host is prepared: mine" in refused.told
    assert vgpu_cfg.look("others.yaml") == before

    watch.forget()
    vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", plan)
    state = vgpu_cfg.lab("others.yaml").state
    (mine,) = [vm for vm in state.all(VirtualMachine) if vm.name == "mine"]
    assert mine.is_on
    assert watch.restarts == {"esx-01.lab": 1}
    assert is_tidy(state)
    watch.forget()
    assert "0 changes" in vgpu_cfg.done("apply", "--yes", plan).told
    assert not watch.writes


# ---------------------------------------------------------------- reviewed


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@LATER
def test_a_plan_reviewed_with_open_shells_is_what_is_done(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", "--open-shell", PLAN, "-o", "plan.json")
    assert is_tidy(vgpu_cfg.lab(ESTATE).state)
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 7, ran.told
    state = vgpu_cfg.lab(ESTATE).state
    assert {name for name, mark in marks_of(state).items() if mark["maintenance"]} == set(L40S_HOSTS)


def test_a_plan_reviewed_with_closed_shells_is_another_plan_and_is_told_so(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 4, ran.told
    assert "was created without access to the hosts' shells" in ran.told
    assert f"plan {PLAN} --open-shell -o plan.json" in ran.told
    assert watch.writes.keys() <= SSH_ONLY | {"AddCustomFieldDef"}
    state = vgpu_cfg.lab(ESTATE).state
    assert is_tidy(state)
    assert not state.tasks
