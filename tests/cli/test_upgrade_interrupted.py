"""An upgrade that is killed at random requests and met by a second machine: it ends as if nothing had been.

Nobody experiences anything that the plans of its waves did not show. At every request of a wave it is killed
by tests/faults.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.host_watch import Watch, is_tidy, watch_labs
from tests.cli.locks import leave_proofs
from tests.cli.test_trial import Killed, killed_at, let_live
from tests.cli.test_two_machines import Other, before_each
from tests.extent import examples
from tests.properties.witness.comparison import faults_of
from tests.properties.witness.stage import Shown, Witnessed, noting
from vgpu_cfg.execution import Run
from vgpu_cfg.lab.state.inventory import Alarm, Cluster, Host, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.locks import HEAD

BUNDLES = [f"/vmfs/volumes/vsan/{name}_595.71.03.zip" for name in ("NVD-AIE-800", "nvd-gpu-mgmt-daemon")]
SMALL = """\
about: Three servers, VMs of others on vGPUs and without, and a bundle with a newer driver.
clusters:
- name: gpu
  hosts:
  - names: [esx-01.lab, esx-02.lab, esx-03.lab]
    memory: 512GiB
    bundles: [{path: /vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip, driver: {version: 595.71.03}}]
    gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0}]
datastores: [{name: vsan, kind: vsan, capacity: 20TiB, free: 15TiB}]
vms:
- {name: others-01, host: esx-01.lab, cpus: 4, memory: 16GiB, gpus: [grid_a100-20c]}
- {name: others-02, host: esx-02.lab, cpus: 4, memory: 16GiB, gpus: [grid_a100-20c]}
- {name: plain-01, host: esx-03.lab, cpus: 4, memory: 16GiB}
"""
RAN = Ran(0, "", "")


class Site:
    """A lab whose upgrade is written, and what its diary and the plans of the running wave say."""

    def __init__(
        self, vgpu_cfg: CommandLine, patch: pytest.MonkeyPatch, estate: str, depots: int, *more: str
    ) -> None:
        self.vgpu_cfg, self.estate = vgpu_cfg, estate
        self.shown: list[Shown] = []
        lab = self.lab()
        with lab.transaction():
            for cluster in lab.state.all(Cluster):
                cluster.drs_enabled, cluster.drs_behavior = True, "fullyAutomated"
                lab.state.touch(cluster)
        words = ("--driver", "595.71", *(f"--depot={path}" for path in BUNDLES[:depots]), *more)
        vgpu_cfg.done("upgrade", *words, "--server", f"lab:{estate}", "--write", "waves")
        self.waves = sorted(str(path) for path in Path("waves").glob("*.yaml"))
        patch.setattr(Run, "carry_out", noting(Run.carry_out, self.shown))

    def lab(self) -> Lab:
        return self.vgpu_cfg.lab(self.estate)

    def surprised(self, wave: Callable[[], None]) -> list[str]:
        """Run a wave; return the disturbances of VMs that its plans did not show."""
        self.shown.clear()
        state = self.lab().state
        before = state.diary[-1] if state.diary else None
        wave()
        state = self.lab().state
        begin = state.diary.index(before) + 1 if before is not None else 0
        strangers = {vm.moid: vm.name for vm in state.all(VirtualMachine)}
        witnessed = Witnessed(RAN, tuple(self.shown), tuple(state.diary[begin:]), strangers, {})
        return [one.text for one in faults_of(witnessed)]

    def versions(self) -> set[str]:
        """Return the drivers of all hosts."""
        hosts = self.lab().state.all(Host)
        return {host.driver.version if host.driver is not None else "" for host in hosts}


def boots_end(lab: Lab) -> None:
    """Wait until the hosts are back that a killed run left rebooting."""
    lab.run_until_idle()
    while (lab.state.booting or lab.state.leaving) and lab.wait():
        continue


def killed_often(site: Site, watch: Watch, chance: random.Random, times: int, wave: str) -> int:
    """Apply a wave, killed up to so many times at a random request; return how often it was."""
    for number in range(times + 1):
        was_killed = killed_at(watch, chance.randint(1, 90), is_answered=chance.random() < 0.5)
        if number == times:
            let_live(watch)
        ran = None
        with suppress(Killed):
            ran = site.vgpu_cfg("apply", "--yes", wave)
        is_killed = ran is None or (was_killed() and number < times)
        let_live(watch)
        leave_proofs(site.vgpu_cfg.state_folder, site.lab().state)
        if not is_killed and ran is not None and ran.code == 0:
            return number
        boots_end(site.lab())
    site.vgpu_cfg.done("apply", "--yes", wave)
    return times


def check_killed(site: Site, watch: Watch, kills: int) -> None:
    """Kill the waves at so many random requests altogether, and look at the end."""
    chance = random.Random(17)  # noqa: S311 - what is tried is no secret
    left = kills
    for number, wave in enumerate(site.waves, 1):
        times = left if number == len(site.waves) else left // 2

        def applied(wave: str = wave, times: int = times) -> None:
            nonlocal left
            left -= killed_often(site, watch, chance, times, wave)

        assert site.surprised(applied) == []
    assert left <= kills // 2
    assert {entry.what for entry in site.lab().state.diary} >= {"move", "maintenance", "host up"}
    assert site.versions() == {"595.71.03"}
    assert is_tidy(site.lab().state)
    assert all(vm.is_on for vm in site.lab().state.all(VirtualMachine) if not vm.is_template)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


@pytest.fixture
def small(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Site:
    vgpu_cfg.write("estate.yaml", SMALL)
    return Site(vgpu_cfg, monkeypatch, "./estate.yaml", 1)


def test_status_lists_a_wave_that_waits_for_its_window(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began late in the window: one of its two hosts is left for the next one."""
    late = (datetime.now(UTC) + timedelta(days=3)).replace(hour=7, minute=26)
    vgpu_cfg.write("estate.yaml", SMALL)
    site = Site(vgpu_cfg, monkeypatch, "./estate.yaml", 1, f"--window={late:%a} 06:00-08:00 UTC")
    vgpu_cfg.done("apply", "--yes", site.waves[0], VGPU_CFG_LAB_TIME=f"{late:%Y-%m-%dT06:00:00Z}")
    put_off = vgpu_cfg("apply", "--yes", site.waves[1], VGPU_CFG_LAB_TIME=late.isoformat())
    assert put_off.code == 7, put_off.told
    document = json.loads(vgpu_cfg.done("status", "--server", "lab:./estate.yaml", "--output", "json").out)
    (waits,) = document["ailments"]
    assert (waits["kind"], waits["subject"]) == ("window", "plan:upgrade-595.71-wave-02")
    assert f"{late:%a} 06:00-08:00 UTC" in waits["says"]


def test_killed_at_random_requests_it_goes_on_and_surprises_nobody(small: Site, watch: Watch) -> None:
    check_killed(small, watch, examples(6, 20))


@pytest.mark.exhaustive("an upgrade of 300 hosts, killed at twenty requests: tests/cli")
@pytest.mark.timeout(3600)
def test_300_hosts_are_upgraded_killed_at_twenty_requests(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    check_killed(Site(vgpu_cfg, monkeypatch, "fleet-300x5-1200vms", 2), watch, 20)


def test_a_second_machine_changes_nothing_and_surprises_nobody(
    small: Site, watch: Watch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Other(small.vgpu_cfg, tmp_path / "other")
    shutil.copytree("waves", other.folder / "waves")
    shutil.copy("estate.yaml", other.folder)
    met: list[int] = []

    def meet(wave: str) -> None:
        if any(alarm.name.startswith(HEAD) for alarm in small.lab().state.all(Alarm)):
            before = small.vgpu_cfg.look(small.estate)
            ran = other("apply", "--yes", wave)
            assert "another run has locked" in ran.told
            assert small.vgpu_cfg.look(small.estate) == before
            met.append(ran.code)

    def both(wave: str) -> None:
        before_each(watch, 40, lambda _name: meet(wave))
        small.vgpu_cfg.done("apply", "--yes", wave)
        let_live(watch)

    waves: Sequence[str] = small.waves
    assert [one for wave in waves for one in small.surprised(partial(both, wave))] == []
    assert set(met) == {6}
    assert small.versions() == {"595.71.03"}
    assert is_tidy(small.lab().state)
