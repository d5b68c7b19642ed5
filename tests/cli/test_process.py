"""What only a process of its own shows: Ctrl-C, a reader that goes away, a terminal, a served lab."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.team import ALONE, SECRETS, boots
from tests.cli.test_guests import told_secrets
from tests.processes import killed_at_the_end
from vgpu_cfg.lab.state.inventory import VirtualMachine

PLAN = "plans/pair.yaml"
LATER = pytest.mark.exhaustive("every way to say no at a terminal: tests/cli/test_process.py")
ESTATE = "two-a100"
PROGRAM = (sys.executable, "-m", "vgpu_cfg")
DEADLINE_SECONDS = 240
"""Well within the time that a test has, so that what was read is told."""
TAKE_TERMINAL = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes the terminal that of the session, so that Ctrl-C typed there is a signal."""


def environment(**more: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


@contextmanager
def started(*words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command whose output is read line by line; it is killed at the deadline, and reading ends."""
    process = subprocess.Popen(
        [*PROGRAM, *words],
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process, killed_at_the_end(process, DEADLINE_SECONDS):
        yield process


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Read lines until one holds the words."""
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        if words in line:
            return "".join(read)
    raise AssertionError(f"{words!r} never came in {''.join(read)}")


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, " ".join(f"{out} {err}".split())


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_lets_what_runs_end_and_starts_nothing_more(vgpu_cfg: CommandLine) -> None:
    with started("apply", "--yes", PLAN, VGPU_CFG_LAB_SPEED="10") as process:
        read_until(process, "start   create hvd-02")
        process.send_signal(signal.SIGINT)
        code, told = end_of(process)
    assert code == 130, told
    assert "stopping after the running tasks finish" in told
    assert "STOPPED" in told
    assert "done create hvd-01" in told
    assert "SKIPPED power on hvd-{01..02}" in told
    assert "LEFT hvd-{01..02}: created, but not completed: power on hvd-{01..02}" in told
    vms = [vm for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if not vm.is_template]
    assert {vm.name for vm in vms} == {"hvd-01", "hvd-02"}
    assert not any(vm.is_on for vm in vms)

    vgpu_cfg.done("apply", "--yes", PLAN)
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


@contextmanager
def left_twice(*words: str) -> Iterator[str]:
    """Leave a run by Ctrl-C twice while vCenter makes a VM; yield what it told."""
    with started(*words, VGPU_CFG_LAB_SPEED="0.1") as process:
        read_until(process, "start   create hvd-02")
        process.send_signal(signal.SIGINT)
        read_until(process, "stopping")
        process.send_signal(signal.SIGINT)
        code, told = end_of(process)
    assert code == 130, told
    yield told


def test_ctrl_c_twice_leaves_at_once_and_the_same_command_waits_for_what_still_runs(
    vgpu_cfg: CommandLine,
) -> None:
    vgpu_cfg.machine = socket.gethostname()
    with left_twice("apply", "--yes", PLAN) as told:
        assert re.search(r"task-\d+: 'create hvd-0[12]' was still running in vCenter", told)
        assert "its locks remain. The next command on this machine waits for them and removes" in told
    ran = vgpu_cfg.done("apply", "--yes", PLAN)
    assert "has ended, but vCenter tasks are still running: CloneVM of" in ran.told
    assert "continuing while these tasks run" not in ran.told
    assert vgpu_cfg.look(ESTATE).vms == {"hvd-01", "hvd-02"}
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0
    assert vgpu_cfg.lab(ESTATE).state.alarms == []


def test_unlock_elsewhere_waits_for_what_the_run_began(vgpu_cfg: CommandLine) -> None:
    with left_twice("apply", "--yes", PLAN):
        shutil.rmtree(vgpu_cfg.state_folder / "locks")  # as on another machine
    held = json.loads(vgpu_cfg.done("unlock", "--server", f"lab:{ESTATE}", "--output", "json").out)
    (run,) = held["runs"]
    ran = vgpu_cfg.done("unlock", run["run"], "--server", f"lab:{ESTATE}", "--force", "--yes")
    assert "vCenter tasks are still running: CloneVM of" in ran.told
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


def test_a_terminal_that_closes_ends_a_run_in_order(vgpu_cfg: CommandLine) -> None:
    """The kernel and the shell each send SIGHUP then, and nothing can be written any more."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *PROGRAM, "apply", "--yes", PLAN],
        env=environment(VGPU_CFG_LAB_SPEED="10"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        text=True,
    )
    os.close(theirs)
    with process, killed_at_the_end(process, DEADLINE_SECONDS):
        shown = ""
        while "start   create hvd-02" not in shown and (chunk := _read(ours)):
            shown += chunk
        os.close(ours)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=DEADLINE_SECONDS) == 130
    assert vgpu_cfg.lab(ESTATE).state.alarms == []
    assert "stopped" in vgpu_cfg.done("history", PLAN).told
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


def test_ctrl_c_leaves_guests_to_themselves_and_the_next_run_goes_on_with_them(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", ALONE)
    with started("apply", "--yes", str(plan), VGPU_CFG_LAB_SPEED="50", **SECRETS) as process:
        read_until(process, "start   stage hvd-01")
        process.send_signal(signal.SIGINT)
        code, told = end_of(process)
    assert code == 130, told
    assert "LEFT hvd-01: guest setup incomplete" in told
    # A guest may not have come up for the first time yet; none comes up twice, and no VM is switched.
    before = {name: powered_on for name, (_, powered_on) in boots(vgpu_cfg).items()}
    again = vgpu_cfg.done("apply", "--yes", plan, **SECRETS)
    assert boots(vgpu_cfg) == {name: (1, powered_on) for name, powered_on in before.items()}
    assert vgpu_cfg("plan", "--exit-code", plan, **SECRETS).code == 0
    assert told_secrets(vgpu_cfg, again) == []
    assert "SECRET" not in told


# ---------------------------------------------------------------- no terminal, and one


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_without_a_terminal_and_without_yes_nothing_is_changed(command: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/before.yaml")
    before = vgpu_cfg.look(ESTATE)
    plan = {"apply": "plans/shrunk.yaml", "destroy": "plans/before.yaml"}[command]
    more = {"apply": ["--delete=ch-02", "--allow-power-cycle"], "destroy": []}[command]
    ran = vgpu_cfg(command, plan, *more)
    assert ran.code == 2, ran.told
    assert "confirmation requires a terminal" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


def at_a_terminal(*words: str, answers: Sequence[str]) -> tuple[int, str]:
    """Run a command at a pseudo terminal and answer each question once: nothing that is typed may be lost.

    At the deadline it is killed, and its code says so.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *PROGRAM, *words],
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        text=True,
    )
    os.close(theirs)
    with process, killed_at_the_end(process, DEADLINE_SECONDS):
        shown = ""
        left = list(answers)
        while chunk := _read(ours):
            shown += chunk
            if left and shown.count("[y/N]") > len(answers) - len(left):
                os.write(ours, left.pop(0).encode())
        code = process.wait(timeout=DEADLINE_SECONDS)
    os.close(ours)
    return code, " ".join(shown.split())


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode(errors="replace")
    except OSError:  # Linux says so where the other side has closed
        return ""


def test_yes_at_the_prompt_goes_ahead(vgpu_cfg: CommandLine) -> None:
    code, shown = at_a_terminal("apply", PLAN, answers=["y\n"])
    assert code == 0, shown
    assert "Make these 4 changes? [y/N]" in shown
    assert vgpu_cfg.look(ESTATE).vms == {"hvd-01", "hvd-02"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [("n\n", 130), pytest.param("\n", 130, marks=LATER), pytest.param("\x03", 130, marks=LATER)],
)
def test_anything_else_does_not(answer: str, code: int, vgpu_cfg: CommandLine) -> None:
    ended, shown = at_a_terminal("apply", PLAN, answers=[answer])
    assert ended == code, shown
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answer", "code", "vms"),
    [
        ("y\n", 0, {"hvd-01", "hvd-02"}),
        ("n\n", 130, {"hvd-01"}),
        pytest.param("\x03", 130, {"hvd-01"}, marks=LATER),
    ],
)
def test_the_canary_is_asked_about(answer: str, code: int, vms: set[str], vgpu_cfg: CommandLine) -> None:
    ended, shown = at_a_terminal("apply", PLAN, "--canary=1", answers=["y\n", answer])
    assert ended == code, shown
    assert "The canary hvd-01 matches the plan. Continue with hvd-02? [y/N]" in shown
    assert vgpu_cfg.look(ESTATE).vms == vms
    if code:
        assert "LEFT hvd-02: not started: you answered no after the canary hvd-01" in shown
        assert f"NEXT vgpu-cfg apply {PLAN} --canary=1" in shown


def test_json_at_a_terminal_shows_the_plan_before_it_asks(vgpu_cfg: CommandLine) -> None:
    code, shown = at_a_terminal("apply", "--output", "json", PLAN, answers=["n\n"])
    assert code == 130
    assert "VM hvd-01 new on esx-a100-01.lab" in shown


# ---------------------------------------------------------------- pipes


@pytest.mark.parametrize(
    "words", [["validate", "--schema", "plan-file"], ["profiles"], ["plan", PLAN]], ids=lambda words: words[0]
)
def test_a_reader_that_is_not_there_is_no_bug(words: list[str], vgpu_cfg: CommandLine) -> None:
    with started(*words) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        told = process.stderr.read()
        process.wait(timeout=DEADLINE_SECONDS)
    assert told == ""


def test_a_reader_that_goes_away_does_not_break_off_a_run(vgpu_cfg: CommandLine) -> None:
    with started("apply", "--yes", PLAN, VGPU_CFG_LAB_SPEED="20") as process:
        read_until(process, "start   create hvd-02")
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        told = process.stderr.read()
        code = process.wait(timeout=DEADLINE_SECONDS)
    assert (code, told) == (0, f"{PLAN}.id: the plan's new ID; keep it next to pair.yaml, and commit both\n")
    assert vgpu_cfg.look(ESTATE).vms == {"hvd-01", "hvd-02"}
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


def test_what_is_printed_for_programs_is_json_and_nothing_else(vgpu_cfg: CommandLine) -> None:
    words = [*PROGRAM, "apply", "--yes", "--output", "json", PLAN]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS
    )
    assert json.loads(done.stdout)["kind"] == "report"


# ---------------------------------------------------------------- a served lab


@pytest.mark.enable_socket
def test_lab_serve_says_how_to_reach_it_and_ends_with_ctrl_c(vgpu_cfg: CommandLine) -> None:
    with started("lab", "serve", "two-a100", "--port", "0") as process:
        told = read_until(process, "CA ")
        url = re.search(r"https://(127\.0\.0\.1:\d+)/sdk", told)
        thumbprint = re.search(r"thumbprint +([0-9A-F:]{95})", told)
        authority = re.search(r"CA +(\S+)", told)
        assert url
        assert thumbprint
        assert authority
        login = ["--server", url[1], "--user", "administrator@vsphere.local"]
        for trust in (["--thumbprint", thumbprint[1]], ["--ca-file", authority[1]]):
            done = vgpu_cfg.done("inventory", *login, *trust, VGPU_CFG_PASSWORD="lab")
            assert "esx-a100-01.lab" in done.out
        process.send_signal(signal.SIGINT)
        code, told = end_of(process)
    assert code == 130, told
    assert "Traceback" not in told


@pytest.mark.enable_socket
def test_lab_serve_tells_a_program_how_to_reach_it(vgpu_cfg: CommandLine) -> None:
    with started("lab", "serve", "two-a100", "--port", "0", "--output", "json") as process:
        told = json.loads(read_until(process, "}"))
        assert (told["kind"], told["server"], told["ssh_config"]) == ("lab-serve", "lab:two-a100", None)
        address = told["url"].removeprefix("https://").removesuffix("/sdk")
        trust = ["--user", told["user"], "--thumbprint", told["thumbprint"]]
        done = vgpu_cfg.done("inventory", "--server", address, *trust, VGPU_CFG_PASSWORD=told["password"])
        assert "esx-a100-01.lab" in done.out
        process.send_signal(signal.SIGINT)
        code, _ = end_of(process)
    assert code == 130
