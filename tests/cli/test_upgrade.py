"""`upgrade` as it is typed: affected hosts and VMs, what goes first, and waves over windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.operations.hosts.power import BOOT_SECONDS, ENTER_SECONDS, GOING_SECONDS, SECONDS_A_VM
from vgpu_cfg.lab.state.inventory import Cluster, VirtualMachine

SMALL = ("--server", "lab:fleet-6x2-18vms")
MIXED = ("--server", "lab:mixed-fleet")


def upgrade(vgpu_cfg: CommandLine, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(vgpu_cfg.done("upgrade", *words, "--output", "json").out)
    return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("mixed"), patch)
        return upgrade(vgpu_cfg, "--fixed-in", "580.95.05", *MIXED)


def fates(found: dict[str, Any]) -> dict[str, str]:
    return {vm["name"]: f"{vm['fate']}: {vm['why']}" for host in found["hosts"] for vm in host["vms"]}


def test_vms_of_others_move_or_must_be_off_each_with_the_reason(mixed: dict[str, Any]) -> None:
    found = fates(mixed)
    assert found["plain-db"] == "moves: "
    assert found["research-pt"] == "power off: it has a passthrough device"
    assert found["research-mig"].startswith("power off: on every other host: no capacity for")


def test_each_owner_gets_a_text(mixed: dict[str, Any]) -> None:
    assert set(mixed["letters"]) == {"desktops", "research", "unknown owner"}
    assert "Power off before this time" in mixed["letters"]["research"]
    assert "vdi-" not in mixed["letters"]["research"]


def test_a_bulletin_keeps_each_host_in_its_branch(mixed: dict[str, Any]) -> None:
    hosts = {host["name"]: host for host in mixed["hosts"]}
    assert hosts["esx-a100-01.lab"]["target"] == "580.95.05"
    assert hosts["esx-old-01.lab"]["blocked"] == "no version with the fix is specified for branch 470"
    planned = {name for wave in mixed["waves"] for name in wave["hosts"]}
    assert "esx-old-01.lab" not in planned
    assert planned == {host["name"] for host in mixed["hosts"] if not host["blocked"]}


def test_a_host_without_vgpus_needs_no_guest_driver_that_both_branches_know(vgpu_cfg: CommandLine) -> None:
    """An R470 guest runs on no R570 host, and nothing runs on this one."""
    found = upgrade(vgpu_cfg, "--driver", "570.133", *MIXED)
    assert {host["name"]: host["blocked"] for host in found["hosts"]} == {"esx-old-01.lab": ""}


def test_hosts_that_have_the_driver_are_left_alone(vgpu_cfg: CommandLine) -> None:
    found = upgrade(vgpu_cfg, "--driver", "580.95", *SMALL)
    assert (found["hosts"], found["up_to_date"]) == ([], 6)
    assert "no host needs the upgrade" in vgpu_cfg.done("upgrade", "--driver", "580.95", *SMALL).told


def test_the_rule_says_whether_hosts_or_guests_go_first(vgpu_cfg: CommandLine) -> None:
    first = upgrade(vgpu_cfg, "--driver", "595.71", *SMALL)["first"][0]["text"]
    assert first.startswith("Upgrade the hosts first: R595 supports guests on R595, R580")


def test_a_cluster_has_so_many_down_as_its_vms_find_room(vgpu_cfg: CommandLine) -> None:
    """Of six hosts two pairs have the same boards: with two down, the first pair's VMs have no host left."""
    found = upgrade(vgpu_cfg, "--driver", "595.71", "--max-hosts-down", "5", *SMALL)
    assert found["max_hosts_down"]["gpu"] < 5
    assert found["max_hosts_down"]["gpu"] >= 2


@pytest.mark.parametrize(
    ("estate", "kept"),
    [("fleet-6x2-18vms", {False}), ("image-4xa100", {True})],
    ids=["a VM has no other host", "none"],
)
def test_each_wave_shows_the_spare_of_its_clusters(
    estate: str, kept: set[bool], vgpu_cfg: CommandLine
) -> None:
    words = ("--driver", "595.71", "--server", f"lab:{estate}")
    vgpu_cfg.write("quotas.yaml", "{version: 1, spare: {hosts: 1, per: cluster}}")
    assert [wave["spares"] for wave in upgrade(vgpu_cfg, *words)["waves"]] == [[], []]
    waves = upgrade(vgpu_cfg, *words, "--quotas", "quotas.yaml")["waves"]
    assert {one["is_kept"] for wave in waves for one in wave["spares"]} == kept
    told = vgpu_cfg.done("upgrade", *words, "--quotas", "quotas.yaml", COLUMNS="200").told
    assert ("kept" in told, "from wave 1: cluster gpu: not every host can be evacuated" in told) == (
        True in kept,
        False in kept,
    )


def test_waves_keep_to_the_window_and_the_first_is_a_canary(vgpu_cfg: CommandLine) -> None:
    """A good hour has two hosts of half an hour each, one after the other."""
    found = upgrade(vgpu_cfg, "--driver", "595.71", "--window", "Sat 06:00-07:05 UTC", *SMALL)
    waves = found["waves"]
    assert [(len(wave["hosts"]), wave["canary"]) for wave in waves] == [
        (1, True), (1, False), (2, False), (2, False)
    ]  # fmt: skip
    assert [wave["opens"].partition("T")[2] for wave in waves] == [
        f"{time}:00+00:00" for time in ("06:00", "06:30", "06:00", "06:00")
    ]
    assert len({wave["closes"] for wave in waves}) == 3


def test_only_hosts_that_are_named_are_planned(vgpu_cfg: CommandLine) -> None:
    found = upgrade(vgpu_cfg, "--esxi", "99999999", "--host", "esx-000[12]*", *SMALL)
    assert [host["name"] for host in found["hosts"]] == ["esx-0001.lab", "esx-0002.lab"]


def test_a_recording_is_enough(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    recording = tmp_path / "small.json.gz"
    vgpu_cfg.done("inventory", "--record", str(recording), *SMALL)
    told = upgrade(vgpu_cfg, "--driver", "595.71", "--from", str(recording))
    assert fates(told) == fates(upgrade(vgpu_cfg, "--driver", "595.71", *SMALL))


DEPOTS = (
    "--depot=/vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip",
    "--depot=/vmfs/volumes/vsan/nvd-gpu-mgmt-daemon_595.71.03.zip",
)


def let_admins_and_owners_act(vgpu_cfg: CommandLine, found: dict[str, Any]) -> None:
    """Set DRS to fully automated, and power off the VMs that must be off."""
    off = {name for name, fate in fates(found).items() if fate.startswith("power off")}
    lab = vgpu_cfg.lab("fleet-6x2-18vms")
    with lab.transaction():
        for cluster in lab.state.all(Cluster):
            cluster.drs_behavior = "fullyAutomated"
            lab.state.touch(cluster)
        for vm in lab.state.all(VirtualMachine):
            if vm.name in off:
                vm.power_state = "poweredOff"
                lab.state.touch(vm)


def test_apply_runs_a_written_wave_and_later_forecasts_know_its_times(
    vgpu_cfg: CommandLine, tmp_path: Path
) -> None:
    words = ("--driver", "595.71", "--max-hosts-down", "2", *DEPOTS, *SMALL)
    before = upgrade(vgpu_cfg, *words, "--write", str(tmp_path / "waves"))
    assert "Power off before this time" in (tmp_path / "waves/owners/unknown-owner.txt").read_text("utf-8")
    wave = str(tmp_path / "waves/wave-02.yaml")
    refused = vgpu_cfg("plan", wave)
    assert (refused.code, "DRS in gpu is manual" in refused.told) == (4, True)
    let_admins_and_owners_act(vgpu_cfg, before)
    vgpu_cfg.done("apply", str(tmp_path / "waves/wave-01.yaml"), "--yes")
    ran = vgpu_cfg.done("apply", wave, "--yes")
    assert "5 settings, 5 reboots" in ran.told
    assert upgrade(vgpu_cfg, *words)["hosts"] == []
    later = upgrade(vgpu_cfg, "--driver", "596", *SMALL)["seconds"]
    assert later["measured"] == 6
    assert later["reboot"] < before["seconds"]["reboot"]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_rehearsal_plays_the_windows_and_learns_from_its_canary(vgpu_cfg: CommandLine) -> None:
    """The canary is forecast by defaults, the others by its time; the lab is unchanged."""
    words = ("--driver", "595.71", "--window", "Sat 06:00-06:40 UTC", *DEPOTS, *SMALL)
    played = upgrade(vgpu_cfg, *words, "--rehearse")["rehearsal"]
    shown = [(one["hosts"], one["done"], one["exit_code"], one["measured"]) for one in played]
    assert shown == [(1, 1, 0, 0), (5, 5, 0, 1)]
    assert played[0]["seconds"] >= GOING_SECONDS + BOOT_SECONDS + ENTER_SECONDS + 3 * SECONDS_A_VM
    assert played[1]["seconds"] == pytest.approx(played[1]["expected_seconds"], rel=0.15)
    assert len(upgrade(vgpu_cfg, *words)["hosts"]) == 6


def test_a_rehearsal_is_for_the_lab(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    recording = str(tmp_path / "small.json.gz")
    vgpu_cfg.done("record", recording, *SMALL)
    ran = vgpu_cfg("upgrade", "--driver", "595.71", "--rehearse", "--from", recording, COLUMNS="200")
    assert (ran.code, "works only in the lab" in ran.told) == (2, True)


def test_a_folder_with_plan_files_is_left_alone(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "waves"
    folder.mkdir()
    words = ("upgrade", "--driver", "595.71", *DEPOTS, *SMALL, "--write", str(folder))
    (folder / "other.yaml").write_text("version: 1", encoding="utf-8")
    ran = vgpu_cfg(*words)
    assert (ran.code, "already contains plan files" in ran.told) == (3, True)
    assert [path.name for path in folder.iterdir()] == ["other.yaml"]


def test_a_glob_selects_the_hosts_of_several_clusters(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    text = "version: 1\nname: types\nvcenter: lab:mixed-fleet\nhosts:\n- cluster: '{}'\n  ats: true\n"
    plan.write_text(text.format("*"), encoding="utf-8")
    every = json.loads(vgpu_cfg("plan", str(plan), "--output", "json").out)["plan"]
    plan.write_text(text.format("l40*"), encoding="utf-8")
    some = json.loads(vgpu_cfg("plan", str(plan), "--output", "json").out)["plan"]
    names = set(some["hosts_in_sync"]) | {one["host"]["name"] for one in some["unknown"]}
    assert names == {"esx-l40s-01.lab", "esx-l40s-02.lab", "esx-l40s-03.lab"}
    assert names < set(every["hosts_in_sync"]) | {one["host"]["name"] for one in every["unknown"]}


def test_without_an_image_esxi_is_not_upgraded_and_the_screen_says_so(vgpu_cfg: CommandLine) -> None:
    """A wave would bring the driver alone, though both were asked for."""
    words = ("upgrade", "--esxi", "99999999", "--driver", "595.71", "--write", "waves", *SMALL)
    told = vgpu_cfg.done(*words, COLUMNS="200").told
    why = "ESXi is upgraded only through an image, but its cluster does not have one"
    assert f"BLOCKED 6 hosts left out ({why}): esx-{{0001..0006}}.lab" in told
    assert "WAVE BEGINS" not in told
    assert "waves: not written: no host can be upgraded" in told
    assert not (vgpu_cfg.folder / "waves").exists()


def test_what_is_mistyped_is_told_before_a_vcenter_is_read(vgpu_cfg: CommandLine) -> None:
    for words, said in (
        ([], "specify --driver, --fixed-in or --esxi"),
        (["--driver", "R595"], "'R595' is not a driver version"),
        (["--esxi", "8.0 U3"], "'8.0 U3' is not a build number"),
        (["--driver", "595.71", "--window", "Saturday"], "not a valid maintenance window"),
        (["--driver", "595.71", "--window", "Sat 06:00-14:00"], "'Sat 06:00-14:00' has no time zone"),
    ):
        ran = vgpu_cfg("upgrade", *words, "--from", "absent.json", COLUMNS="200")
        assert ran.code == 2
        assert said in ran.told


def test_a_window_too_short_for_a_host_is_told(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("upgrade", "--driver", "595.71", "--window", "Sat 06:00-06:20 UTC", *SMALL)
    assert ran.code == 2
    assert "is too short" in ran.told


@pytest.mark.exhaustive("300 hosts are read and laid out; the six of the other tests take the same way")
def test_300_hosts_fit_on_a_screen(vgpu_cfg: CommandLine) -> None:
    fleet = ("--server", "lab:fleet-300x5-1200vms")
    told = vgpu_cfg.done("upgrade", "--driver", "595.71", "--window", "Sat 06:00-14:00 UTC", *fleet).out
    assert len(told.splitlines()) <= 50
    assert "300 of 300 hosts affected, 1200 running VMs" in told
