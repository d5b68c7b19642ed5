"""The states that a run leads hosts through: from each of some the same command gets to the same end.

What a killed process leaves is what vCenter holds at that moment. So one run is followed, and every state
that it goes through is kept; each is then what another run starts from. test_points.py kills
processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import (
    ESTATE,
    hosts_of,
    is_reading,
    is_tidy,
    marks_of,
    settings_of,
    state_file,
    watch_labs,
)
from tests.cli.locks import leave_proofs
from vgpu_cfg.lab.state.inventory import Host, LabState

ONE = "plans/hosts-one.yaml"
TWO = "plans/hosts-two.yaml"
EVERY = 12
"""So many moments lie between two that are tried here; tests/faults/test_points.py tries all."""
WAITS = 7
"""The exit code of a run that waits for somebody's hand."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of the lab in the middle of a run: after which call, and its file's content."""

    number: int
    after: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Course:
    """A run that nobody disturbed: the states it went through, what it wrote, and its end."""

    plan: str
    moments: tuple[Moment, ...]
    writes: int
    end: dict[str, Any]


def follow(plan: str, folder: Path) -> Course:
    moments: list[Moment] = []
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(folder, patch)
        watch = watch_labs(patch)
        place = state_file(vgpu_cfg)

        def keep(name: str) -> None:
            content = place.read_bytes() if place.exists() else b""
            if content and (not moments or moments[-1].content != content):
                moments.append(Moment(len(moments), name, content))

        watch.after_call = keep
        vgpu_cfg.done("apply", "--yes", plan)
        state = vgpu_cfg.lab(ESTATE).state
        assert is_tidy(state)
        return Course(plan, tuple(moments), sum(watch.writes.values()), settings_of(state))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return follow(ONE, tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return follow(TWO, tmp_path_factory.mktemp("two"))


def set_back(vgpu_cfg: CommandLine, moment: Moment) -> LabState:
    place = state_file(vgpu_cfg)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(moment.content)
    state = vgpu_cfg.lab(ESTATE).state
    leave_proofs(vgpu_cfg.state_folder, state)
    return state


def untold(vgpu_cfg: CommandLine, plan: str) -> Iterator[str]:
    """Yield each host that is in maintenance mode and of which `status` gives no reason."""
    told = json.loads(vgpu_cfg.done("status", plan, "--output", "json").out)
    rows = {row["name"]: row for row in told["hosts"]}
    for name, host in hosts_of(vgpu_cfg.lab(ESTATE).state).items():
        if host.in_maintenance and not (rows[name]["is_in_maintenance_mode"] and rows[name]["reason"]):
            yield name


def not_mended(vgpu_cfg: CommandLine, course: Course) -> str:
    """Run the command again; return what then differs from the undisturbed run, empty where nothing does.

    Where it finds a host that is away it cannot tell a reboot from a host that is off, and asks for a hand.
    The hand waits here until the host is back.
    """
    is_away = any(host.connection != "connected" for host in vgpu_cfg.lab(ESTATE).state.all(Host))
    ran = vgpu_cfg("apply", "--yes", course.plan)
    if ran.code == WAITS and is_away:
        lab = vgpu_cfg.lab(ESTATE)
        while lab.state.booting and lab.wait():
            continue
        ran = vgpu_cfg("apply", "--yes", course.plan)
    if ran.code:
        return f"exit {ran.code}: {ran.told[-600:]}"
    state = vgpu_cfg.lab(ESTATE).state
    if not is_tidy(state):
        return f"not tidy: {marks_of(state)}"
    found = settings_of(state)
    differ = [name for name in found if found[name] != course.end[name]]
    return "; ".join(f"{name}: {found[name]}, not {course.end[name]}" for name in differ)


def is_kept(moment: Moment, stride: int) -> bool:
    """Whether a moment is tried: after every write, and every so many of those that time alone made."""
    return not is_reading(moment.after) or moment.number % stride == 0


@pytest.mark.long("hosts at some moments of a run: tests/faults/test_host_moments.py")
def test_one_host_ends_the_same_from_wherever_the_run_was_killed(one: Course, vgpu_cfg: CommandLine) -> None:
    moments = [moment for moment in one.moments if is_kept(moment, 7)]
    assert len(moments) > 30
    for moment in moments[::EVERY]:
        set_back(vgpu_cfg, moment)
        where = f"killed after {moment.after} ({moment.number})"
        assert not list(untold(vgpu_cfg, ONE)), where
        assert not not_mended(vgpu_cfg, one), where


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_no_host_is_ever_down_without_a_reason(two: Course, vgpu_cfg: CommandLine) -> None:
    down = 0
    for moment in two.moments[::6]:
        state = set_back(vgpu_cfg, moment)
        down += sum(host.in_maintenance for host in hosts_of(state).values())
        assert not list(untold(vgpu_cfg, TWO)), f"killed after {moment.after} ({moment.number})"
    assert down > 5
