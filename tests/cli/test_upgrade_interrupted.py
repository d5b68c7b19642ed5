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
from dataclasses import dataclass, field, replace
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
        vgpu_cfg.write("quotas.yaml", "{version: 1, spare: {hosts: 1, per: cluster}}")
        lab = self.lab()
        with lab.transaction():
            for cluster in lab.state.all(Cluster):
                cluster.drs_enabled, cluster.drs_behavior = True, "fullyAutomated"
                lab.state.touch(cluster)
        words = ("--driver", "595.71", *(f"--depot={path}" for path in BUNDLES[:depots]), *more)
        where = ("--server", f"lab:{estate}", "--write", "waves", "--output", "json")
        found = json.loads(vgpu_cfg.done("upgrade", *words, *where).out)
        self.waves = sorted(str(path) for path in Path("waves").glob("*.yaml"))
        self.opens = dict(zip(self.waves, (wave["opens"] for wave in found["waves"]), strict=True))
        patch.setattr(Run, "carry_out", noting(Run.carry_out, self.shown))

    def lab(self) -> Lab:
        return self.vgpu_cfg.lab(self.estate)

    def apply(self, wave: str) -> Ran:
        """Apply a wave as its window opens."""
        return self.vgpu_cfg("apply", "--yes", wave, VGPU_CFG_LAB_TIME=self.opens[wave])

    def surprised(self, wave: Callable[[], None], details: str = "") -> list[str]:
        """Run a wave; return the disturbances of VMs that its plans, with their `details`, did not show."""
        self.shown.clear()
        state = self.lab().state
        before = state.diary[-1] if state.diary else None
        wave()
        state = self.lab().state
        begin = state.diary.index(before) + 1 if before is not None else 0
        strangers = {vm.moid: vm.name for vm in state.all(VirtualMachine)}
        shown = tuple(replace(one, text=one.text + details) for one in self.shown)
        witnessed = Witnessed(RAN, shown, tuple(state.diary[begin:]), strangers, {})
        return [one.text for one in faults_of(witnessed)]

    def lacks_spare(self) -> list[str]:
        """Return the clusters that do not keep their spare."""
        words = ("inventory", "--gpus", "--server", f"lab:{self.estate}", "--quotas", "quotas.yaml")
        found = json.loads(self.vgpu_cfg.done(*words, "--output", "json").out)
        return [one["cluster"] for one in found["spares"] if not one["is_kept"]]

    def versions(self) -> set[str]:
        """Return the drivers of all hosts."""
        hosts = self.lab().state.all(Host)
        return {host.driver.version if host.driver is not None else "" for host in hosts}


def boots_end(lab: Lab) -> None:
    """Wait until the hosts are back that a killed run left rebooting."""
    lab.run_until_idle()
    while (lab.state.booting or lab.state.leaving) and lab.wait():
        continue


@dataclass(slots=True)
class Kills:
    """How often commands are killed yet, each at one of its first `within` requests.

    `meet` is called as the last command of a wave, which lives, begins.
    """

    left: int
    within: int = 90
    meet: Callable[[str], None] = lambda _wave: None
    chance: random.Random = field(default_factory=lambda: random.Random(17))  # noqa: S311 - no secret


def killed_often(site: Site, watch: Watch, kills: Kills, times: int, wave: str) -> int:
    """Apply a wave, killed up to so many times at a random request; return how often it was."""
    for number in range(times + 1):
        at, is_answered = kills.chance.randint(1, kills.within), kills.chance.random() < 0.5
        was_killed = killed_at(watch, at, is_answered=is_answered)
        if number == times:
            let_live(watch)
            kills.meet(wave)
        ran = None
        with suppress(Killed):
            ran = site.apply(wave)
        is_killed = ran is None or (was_killed() and number < times)
        let_live(watch)
        leave_proofs(site.vgpu_cfg.state_folder, site.lab().state)
        if not is_killed and ran is not None and ran.code == 0:
            return number
        boots_end(site.lab())
    raise AssertionError(f"{wave} does not end: {ran and ran.told}")


def check_killed(site: Site, watch: Watch, kills: Kills) -> None:
    """Kill the waves at random requests, and look at the end."""
    planned = kills.left
    for number, wave in enumerate(site.waves, 1):
        times = kills.left if number == len(site.waves) else kills.left // 2

        def applied(wave: str = wave, times: int = times) -> None:
            kills.left -= killed_often(site, watch, kills, times, wave)

        # The first screen of hundreds of hosts counts VMs; `plan -v` names them.
        details = site.vgpu_cfg("plan", "-v", wave).out
        assert site.surprised(applied, details)[:20] == []
        assert site.lacks_spare() == []
    assert kills.left <= planned // 2
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
    check_killed(small, watch, Kills(examples(6, 20)))


class Second:
    """A second machine with the same waves, which applies the running one; `met` are its exit codes."""

    def __init__(self, site: Site, watch: Watch, folder: Path, stride: int) -> None:
        folder.mkdir()
        self._site, self._watch, self._stride = site, watch, stride
        self._other = Other(site.vgpu_cfg, folder)
        shutil.copytree("waves", folder / "waves")
        self.met: list[int] = []

    def follow(self, wave: str) -> None:
        """Apply a wave before every so many requests of the first machine."""
        before_each(self._watch, self._stride, lambda _name: self._apply(wave))

    def _apply(self, wave: str) -> None:
        site = self._site
        if any(alarm.name.startswith(HEAD) for alarm in site.lab().state.all(Alarm)):
            before = site.vgpu_cfg.look(site.estate)
            ran = self._other("apply", "--yes", wave)
            assert "another run has locked" in ran.told
            assert site.vgpu_cfg.look(site.estate) == before
            self.met.append(ran.code)


@pytest.mark.exhaustive("300 hosts are upgraded in four windows: tests/cli/test_upgrade_interrupted.py")
@pytest.mark.timeout(7200)
def test_300_hosts_are_upgraded_killed_at_twenty_requests(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, watch: Watch, tmp_path: Path
) -> None:
    site = Site(vgpu_cfg, monkeypatch, "fleet-300x5-1200vms", 2, "--window=Sat 06:00-14:00 UTC")
    second = Second(site, watch, tmp_path / "other", 1500)
    check_killed(site, watch, Kills(20, within=1500, meet=second.follow))
    assert set(second.met) == {6}
    assert len(second.met) >= len(site.waves) - 1


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_second_machine_changes_nothing_and_surprises_nobody(
    small: Site, watch: Watch, tmp_path: Path
) -> None:
    second = Second(small, watch, tmp_path / "other", 40)
    shutil.copy("estate.yaml", tmp_path / "other")

    def both(wave: str) -> None:
        second.follow(wave)
        small.vgpu_cfg.done("apply", "--yes", wave)
        let_live(watch)

    waves: Sequence[str] = small.waves
    assert [one for wave in waves for one in small.surprised(partial(both, wave))] == []
    assert set(second.met) == {6}
    assert small.versions() == {"595.71.03"}
    assert is_tidy(small.lab().state)
