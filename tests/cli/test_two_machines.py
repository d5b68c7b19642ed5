"""Two machines with one plan, or two plans for one host: whoever comes second changes nothing, and says why.

The second machine has a state folder and a working copy of its own. It types its command in the middle of the
first one's run, before one of that run's calls.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran, plan_id
from tests.cli.host_watch import ESTATE, SSH, Watch, is_reading, is_tidy, marks_of, watch_labs
from tests.cli.locks import ANNA, take_for_others
from vgpu_cfg.lab.state.inventory import Alarm, Host, VirtualMachine
from vgpu_cfg.model.locks import HEAD, LockName

ONE, TWO, PAIR = "plans/hosts-one.yaml", "plans/hosts-two.yaml", "plans/pair.yaml"
LATER = pytest.mark.exhaustive("another machine comes at many moments: tests/cli/test_two_machines.py")


class Other:
    """Another machine beside the first: what it types is run at once, wherever the first one stands."""

    def __init__(self, first: CommandLine, folder: Path) -> None:
        self._first = first
        self.folder = folder
        shutil.copytree(first.folder / "plans", folder / "plans")
        shutil.copytree(first.folder / "estates", folder / "estates")
        (folder / "state").mkdir()
        (first.state_folder / "lab").mkdir(parents=True, exist_ok=True)
        (folder / "state" / "lab").symlink_to(first.state_folder / "lab")

    def take_id(self, plan: str) -> None:
        """Fetch the id of a plan, as from a commit of the first machine."""
        shutil.copy(self._first.folder / f"{plan}.id", self.folder / f"{plan}.id")

    def __call__(self, *words: str) -> Ran:
        here, self._first.machine = self._first.machine, "desk-02"
        os.chdir(self.folder)
        try:
            return self._first(*words)
        finally:
            os.chdir(self._first.folder)
            self._first.machine = here


@pytest.fixture
def other(vgpu_cfg: CommandLine, tmp_path: Path) -> Other:
    folder = tmp_path / "other"
    folder.mkdir()
    return Other(vgpu_cfg, folder)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def before_each(watch: Watch, stride: int, act: Callable[[str], None]) -> None:
    """Let something be done before every so many of the calls; its own calls do not count."""
    number = 0

    def take(name: str) -> None:
        nonlocal number
        number += 1
        if number % stride == 0:
            watch.before_call = lambda _name: None
            act(name)
            watch.before_call = take

    watch.before_call = take


def locks_of(run: CommandLine) -> set[str]:
    """Return what is locked at the lab."""
    alarms = run.lab(ESTATE).state.all(Alarm)
    return {alarm.name.removeprefix(HEAD) for alarm in alarms if alarm.name.startswith(HEAD)}


@LATER
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stride", [5, 23])
def test_one_plan_on_two_machines(stride: int, vgpu_cfg: CommandLine, other: Other, watch: Watch) -> None:
    seen: list[int] = []

    def meet(name: str) -> None:
        is_locked = bool(locks_of(vgpu_cfg))
        before = vgpu_cfg.look(ESTATE)
        ran = other("apply", "--yes", ONE)
        if is_locked:
            assert ran.code == 6, f"before {name}: {ran.told}"
            assert "another run has locked plan one: jane on desk-01, `apply` of one" in ran.told
            assert vgpu_cfg.look(ESTATE) == before, name
        else:
            assert ran.code in (0, 5), f"before {name}: {ran.told}"
        seen.append(ran.code)

    before_each(watch, stride, meet)
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 0, ran.told
    assert 6 in seen
    assert is_tidy(vgpu_cfg.lab(ESTATE).state)
    assert vgpu_cfg("plan", "--exit-code", ONE).code == 0


@LATER
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stride", [7, 41])
def test_two_plans_on_one_host(stride: int, vgpu_cfg: CommandLine, other: Other, watch: Watch) -> None:
    refused: set[str] = set()

    def meet(name: str) -> None:
        held = locks_of(vgpu_cfg)
        if not any(one.startswith("host ") for one in held):
            return
        before = vgpu_cfg.look(ESTATE)
        ran = other("apply", "--yes", TWO)
        assert ran.code == 6, f"before {name}: {ran.told}"
        assert vgpu_cfg.look(ESTATE) == before, name
        refused.add(ran.told.partition("ERROR ")[2][:52])

    before_each(watch, stride, meet)
    vgpu_cfg.done("apply", "--yes", ONE)
    assert refused == {"another run has locked host esx-r12-01.lab: jane on "}
    assert is_tidy(vgpu_cfg.lab(ESTATE).state)


def test_two_first_applies_of_one_file_make_no_vm_twice(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    told: list[str] = []

    def meet(_name: str) -> None:
        told.append(other("apply", "--yes", PAIR).told)

    before_each(watch, 30, meet)
    vgpu_cfg.done("apply", "--yes", PAIR)
    assert told
    assert all("another run has locked plan horovod-a100" in each for each in told), told
    vms = [vm.name for vm in vgpu_cfg.lab("two-a100").state.all(VirtualMachine) if not vm.is_template]
    assert len(vms) == len(set(vms)) == 2


def test_who_knows_the_name_of_a_plan_and_who_knows_its_id_are_held_apart(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    vgpu_cfg.done("apply", "--yes", PAIR)
    assert (vgpu_cfg.folder / f"{PAIR}.id").exists()
    told: list[Ran] = []

    def meet(name: str) -> None:
        if name == "LogUserEvent":  # the run ends, and has its lock still
            before = vgpu_cfg.look("two-a100")
            told.append(other("apply", "--yes", PAIR))
            assert vgpu_cfg.look("two-a100") == before

    before_each(watch, 1, meet)
    vgpu_cfg.done("destroy", "--yes", PAIR)
    assert [ran.code for ran in told] == [6]
    assert "another run has locked plan horovod-a100: jane on desk-01" in told[0].told


def test_a_run_whose_lock_is_taken_away_stops_before_its_next_write_and_another_goes_on(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    unlocked: list[Ran] = []

    def unlock(name: str) -> None:
        if name != "RebootHost_Task" or unlocked:
            return
        held = json.loads(other("unlock", "--server", f"lab:{ESTATE}", "--output", "json").out)
        (run,) = held["runs"]
        assert other("apply", "--yes", ONE).code == 6
        assert "another run has locked host esx-r12-01.lab" in other("apply", "--yes", TWO).told
        unlocked.append(other("unlock", run["run"], "--server", f"lab:{ESTATE}", "--yes", "--force"))

    before_each(watch, 1, unlock)
    ran = vgpu_cfg("apply", "--yes", "--rollback-on-failure", ONE)
    assert unlocked[0].code == 0, unlocked[0].told
    (removed,) = re.findall(r"REMOVED (\d+) locks: (.*?) NEXT", unlocked[0].told)
    assert int(removed[0]) == len(removed[1].split(", ")), removed
    assert "host esx-r12-01.lab" in unlocked[0].told
    assert ran.code == 6, ran.told
    assert "was removed; the run makes no further changes" in ran.told
    # It is told what became of it, and nothing is taken back where another run may work by now.
    assert "the result could not be verified" in ran.told
    assert "ROLLBACK not performed: the lock of this run" in ran.told
    assert "LOG" in ran.out
    state = vgpu_cfg.lab(ESTATE).state
    (host,) = [host for host in state.all(Host) if host.name == "esx-r12-01.lab"]
    assert host.in_maintenance
    assert marks_of(state)["esx-r12-01.lab"]["maintenance"]
    watch.before_call = lambda _name: None
    vgpu_cfg.lab(ESTATE).run_until_idle()
    other.take_id(ONE)
    done = other("apply", "--yes", ONE)
    assert done.code == 0, done.told
    assert is_tidy(vgpu_cfg.lab(ESTATE).state)


# ------------------------------------------------- locked only to change something

LOCK = "lock CreateAlarm"


@pytest.mark.parametrize("plan", [PAIR, "plans/to-verify.yaml"])
def test_what_is_in_sync_is_only_read(plan: str, vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("apply", "--yes", plan)
    watch.forget()
    vgpu_cfg.done("apply", "--yes", plan)
    assert watch.calls
    assert all(map(is_reading, watch.calls)), watch.calls


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("access", "is_locked"), [("open-and-close", True), ("on", False)])
def test_hosts_in_sync_are_locked_only_to_open_a_shell(
    access: str, is_locked: bool, vgpu_cfg: CommandLine, watch: Watch
) -> None:
    vgpu_cfg.done("apply", "--yes", ONE)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        for host in lab.state.all(Host):
            host.services[SSH].running = access == "on"
        lab.state.touch()
    plan = vgpu_cfg.folder / ONE
    text = plan.read_text(encoding="utf-8")
    plan.write_text(text.replace("ssh: open-and-close", f"ssh: {access}"), encoding="utf-8")
    watch.forget()
    vgpu_cfg.done("apply", "--yes", ONE)
    assert (LOCK in watch.calls) == is_locked
    assert is_locked or all(map(is_reading, watch.calls)), watch.calls


def test_the_lock_of_another_run_is_met_by_who_has_nothing_to_do(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PAIR)
    lab = vgpu_cfg.lab("two-a100")
    number = plan_id(1)
    take_for_others(lab, LockName(kind="id", key=number, label="horovod-a100"))
    ran = vgpu_cfg("apply", "--yes", PAIR)
    assert ran.code == 6
    assert "another run has locked plan horovod-a100: anna on ci-7" in ran.told


def test_a_dead_run_is_cleared_away_before_nothing_is_found_to_do(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    vgpu_cfg.done("apply", "--yes", PAIR)
    dead = ANNA.model_copy(update={"machine": "desk-01", "plan": "horovod-a100"})
    take_for_others(vgpu_cfg.lab("two-a100"), PLAN_LOCK, POOL_LOCK, holder=dead)
    (vgpu_cfg.state_folder / "locks" / f"{dead.run}.lock").touch()
    told = vgpu_cfg.done("apply", "--yes", PAIR).told
    assert f"run {dead.run} " in told
    assert "ended without releasing its locks; removing them" in told
    assert "in sync" in told
    assert not vgpu_cfg.lab("two-a100").state.alarms


def test_a_change_made_between_the_reading_and_the_lock_is_not_made_again(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    vgpu_cfg.done("apply", "--yes", PAIR)
    other.take_id(PAIR)
    off = "  power: off\n"
    for plan in (vgpu_cfg.folder / PAIR, other.folder / PAIR):
        plan.write_text(plan.read_text(encoding="utf-8").rstrip() + f"\n{off}", encoding="utf-8")
    ran: list[Ran] = []

    def act(name: str) -> None:
        if name == LOCK and not ran:
            ran.append(other("apply", "--yes", PAIR))

    before_each(watch, 1, act)
    told = vgpu_cfg.done("apply", "--yes", PAIR).told
    assert (ran[0].code, watch.calls["ShutdownGuest"]) == (0, 2), ran[0].told
    assert "in sync" in told


# ---------------------------------------------------------------- unlock


AT = ("--server", "lab:two-a100")
PLAN_LOCK = LockName(kind="plan", key="horovod-a100")
POOL_LOCK = LockName(kind="cluster", key="domain-c7", label="gpu")


def test_a_run_that_was_heard_of_keeps_its_locks_unless_somebody_insists(vgpu_cfg: CommandLine) -> None:
    assert "no run holds locks" in vgpu_cfg.done("unlock", *AT).told
    take_for_others(vgpu_cfg.lab("two-a100"), PLAN_LOCK, POOL_LOCK)
    told = vgpu_cfg.done("unlock", *AT).told
    assert f"{ANNA.run} apply of demo anna on ci-7" in told
    refused = vgpu_cfg("unlock", ANNA.run, "--yes", *AT)
    assert refused.code == 6
    assert "may still be in progress" in refused.told
    assert "--force" in refused.told
    nobody = vgpu_cfg("unlock", ANNA.run, "--force", *AT)
    assert nobody.code == 2
    assert "nobody" not in nobody.out
    done = vgpu_cfg.done("unlock", ANNA.run[:3], "--force", "--yes", *AT)
    assert "2 locks: plan horovod-a100, cluster gpu" in done.told
    again = vgpu_cfg.done("unlock", ANNA.run[:3], "--force", "--yes", *AT)
    assert "none: the locks had already been removed" in again.told
    vgpu_cfg.done("apply", "--yes", PAIR)


def test_a_run_that_nobody_knows_is_told_with_those_that_are(vgpu_cfg: CommandLine) -> None:
    take_for_others(vgpu_cfg.lab("two-a100"), PLAN_LOCK)
    ran = vgpu_cfg("unlock", "ffff", *AT)
    assert ran.code == 5
    assert ANNA.run in ran.told


def test_a_lock_that_tells_no_run_is_listed_beside_those_of_runs(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab("two-a100")
    take_for_others(lab, PLAN_LOCK)
    with lab.transaction():
        alarm = next(one for one in lab.state.all(Alarm) if one.name == PLAN_LOCK.text)
        alarm.spec.description = "mine"
        lab.state.touch(alarm)
    told = vgpu_cfg.done("unlock", *AT).told
    assert "plan horovod-a100 is locked, but the lock does not contain a run ID" in told
    assert f"'{PLAN_LOCK.text}'" in told
    take_for_others(lab, POOL_LOCK)
    told = vgpu_cfg.done("unlock", *AT).told
    assert ANNA.run in told
    assert f"'{PLAN_LOCK.text}'" in told


def test_a_silent_run_is_told_by_plan_and_status_and_unlocked_by_command(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab("two-a100")
    take_for_others(lab, PLAN_LOCK)
    assert "VG016 horovod-a100: run a11a00000001" in vgpu_cfg.done("plan", PAIR).told
    with lab.changed:
        lab.clock.wait(lab.clock.now() + 901, lab.changed)
    with lab.transaction():
        lab.state.touch()
    assert "VG017 horovod-a100: run a11a00000001" in vgpu_cfg.done("status", PAIR).told
    ran = vgpu_cfg("apply", "--yes", PAIR)
    assert ran.code == 6
    assert "`vgpu-cfg unlock a11a00000001 --server lab:" in ran.told
    done = vgpu_cfg.done("unlock", ANNA.run, "--yes", "--output", "json", *AT)
    assert [lock["label"] for lock in json.loads(done.out)["removed"]] == [""]
    vgpu_cfg.done("apply", "--yes", PAIR)


@pytest.mark.parametrize("right", ["Alarm.Create", "Alarm.Edit", "Alarm.Delete"])
def test_who_may_make_no_lock_is_told_before_anything(right: str, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look("two-a100")
    vgpu_cfg.script("two-a100", lacking=[right])
    ran = vgpu_cfg("apply", "--yes", PAIR)
    assert ran.code == 5
    assert f"lacks {right}" in ran.told
    assert vgpu_cfg.look("two-a100") == before
