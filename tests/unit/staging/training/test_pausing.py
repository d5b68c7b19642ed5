"""`train --pause` and `--resume`, run for real on two workers: each in a folder, ssh stood in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import SYSTEM_PATH, Sandbox
from tests.unit.staging.training.test_launcher import ALONE, both, first, install, launcher, train, train_of

__all__ = ["both", "first"]


@pytest.fixture(autouse=True)
def alone(both: Sandbox) -> Iterator[None]:
    """Let all commands of a test see the processes of this test alone."""
    if not ALONE:
        yield
        return
    # The first process of the namespace has its orphans reaped by the kernel.
    words = [*ALONE, "--kill-child", "sh", "-c", "trap '' CHLD; echo ready; exec sleep infinity"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        inside = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text(encoding="ascii").split()
        both.way = ("nsenter", "-t", inside[0], "-p", "-m", f"--wdns={both.root}")
        yield
        holder.kill()


STEPS = """
cd "$1" || exit 1
n=$NODE_RANK step=$(cat saved.$n 2>/dev/null || echo 0)
echo "from $step" >>trace.$n
[ ! -e broken ] || exit 9
while [ ! -e enough ]; do
    step=$((step + 1))
    [ ! -e "save.$n" ] || { echo "$step" >saved.$n && rm save.$n; }
    sleep 0.02
done
echo "at $step" >>trace.$n
"""
"""A training that counts its steps, saves the number when it is asked, and goes on from there."""
SAVE = """
n=${VGPU_CFG_ROOT##*-0} n=$((n - 1))
: >"$1/save.$n"
while [ -e "$1/save.$n" ]; do sleep 0.02; done
"""
"""Asks the rank of a worker to save, and waits until it has."""


class Training:
    """A training that runs in the background, and what it left in its folder."""

    def __init__(self, guest: Sandbox) -> None:
        self.guest, self.folder = guest, guest.root / "work"
        self.folder.mkdir()
        words = [*guest.way, "/bin/sh", train_of(guest), "sh", "-c", STEPS, "sh", str(self.folder)]
        environment = {
            "PATH": f"{guest.commands}:{SYSTEM_PATH}",
            "HOME": str(guest.root),
            "NCCL_DEBUG": "it's",
        }
        self.process = subprocess.Popen(
            words,
            env={**environment, "VGPU_CFG_ROOT": str(guest.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=guest.root,
        )
        self.await_starts(1)

    def await_starts(self, count: int) -> None:
        """Wait until both ranks have started so many times."""
        wait = 'until [ "$(cat trace.? 2>/dev/null | grep -c from)" -ge "$1" ]; do sleep 0.02; done'
        subprocess.run(["/bin/sh", "-c", wait, "sh", str(2 * count)], check=True, timeout=60, cwd=self.folder)

    def pause(self, hook: str = SAVE, *words: str) -> tuple[int, str]:
        status, _, said = train(self.guest, "--pause", *words, "sh", "-c", hook, "sh", str(self.folder))
        return status, said

    def saved(self, rank: int) -> int:
        return int((self.folder / f"saved.{rank}").read_text())

    def trace(self, rank: int) -> list[str]:
        return (self.folder / f"trace.{rank}").read_text().splitlines()

    def end(self) -> str:
        """Let it finish; return what the first of its starts said."""
        (self.folder / "enough").touch()
        said = self.process.communicate(timeout=60)[0]
        wait = f"while [ -e '{self.guest.root}/var/log/vgpu-cfg/begun' ]; do sleep 0.05; done"
        subprocess.run(["/bin/sh", "-c", wait], check=True, timeout=60)
        return str(said)


@contextmanager
def training(guest: Sandbox) -> Iterator[Training]:
    """Have a training run, and see it end."""
    running = Training(guest)
    try:
        yield running
    finally:
        running.end()


def paused(guest: Sandbox) -> Path:
    return guest.root / "var/log/vgpu-cfg/paused"


def test_a_training_is_saved_stopped_and_goes_on_from_there(both: Sandbox) -> None:
    with training(both) as running:
        status, said = running.pause()
        assert (status, "paused on a checkpoint: " in said) == (0, True), said
        said = running.process.communicate(timeout=60)[0]
        assert running.process.returncode == 143
        assert "training is paused on a checkpoint: train --resume continues it" in said
        assert "paused: " in train(both, "--status")[2]
        status, said = running.pause()
        assert (status, "already paused" in said) == (0, True)
        # Nobody starts another one in its place.
        status, _, said = train(both, "true")
        assert (status, "a training job is paused" in said) == (75, True)
        status, _, said = train(both, "--resume")
        assert (status, "resumed: " in said) == (0, True), said
        running.await_starts(2)
    for rank in (0, 1):
        starts, end = running.trace(rank)[:2], int(running.trace(rank)[2].split()[1])
        assert starts == ["from 0", f"from {running.saved(rank)}"]
        assert end > running.saved(rank) > 0
    assert not paused(both).exists()
    assert "no training is paused" in train(both, "--resume")[2]


@pytest.mark.parametrize(
    ("hook", "words", "why"),
    [
        ("case $VGPU_CFG_ROOT in *2) echo no room >&2; exit 4 ;; esac", (), "with status 4: no room"),
        ("exec sleep 100", ("--timeout", "1"), "it did not finish within 1 seconds"),
    ],
)
def test_a_training_that_cannot_save_goes_on(
    both: Sandbox, hook: str, words: tuple[str, ...], why: str
) -> None:
    with training(both) as running:
        status, said = running.pause(hook, *words)
        assert (status, "hvd-02 did not save: it" in said, why in said) == (1, True, True), said
        assert "training was not paused and continues" in said
        assert running.process.poll() is None
        assert not paused(both).exists()
    assert running.process.returncode == 0
    assert len(running.trace(0)) == 2


def test_one_that_saved_but_was_not_stopped_is_stopped_first(both: Sandbox) -> None:
    """As after a crash between the two."""
    with training(both) as running:
        begun = paused(both).with_name("begun")
        paused(both).write_text(begun.read_text())
        status, _, said = train(both, "--resume")
        assert (status, "resumed: " in said) == (0, True), said
        running.await_starts(2)


def test_one_that_ends_at_once_stays_paused(both: Sandbox) -> None:
    with training(both) as running:
        assert running.pause()[0] == 0
        (running.folder / "broken").touch()
        status, _, said = train(both, "--resume")
        assert (status, "training ended immediately and remains paused" in said) == (1, True), said
        (running.folder / "broken").unlink()
        assert train(both, "--resume")[0] == 0


def test_a_paused_one_can_be_forgotten(both: Sandbox) -> None:
    with training(both) as running:
        assert running.pause()[0] == 0
        assert "the paused training will not be resumed" in train(both, "--stop")[2]
        assert train(both, "true")[0] == 0


def test_it_is_started_as_it_was(both: Sandbox) -> None:
    """With its folder, the caller's variables and its words."""
    with training(both) as running:
        begun = paused(both).with_name("begun").read_text()
        assert f"cd -- {both.root} || exit 1\n" in begun
        assert "export NCCL_DEBUG='it'\\''s'\n" in begun
        assert f"--by none \"$@\" -- sh -c '{STEPS}' sh {running.folder}\n" in begun


def test_nothing_runs_and_nothing_is_done(both: Sandbox) -> None:
    status, _, said = train(both, "--pause", "false")
    assert (status, "no training is running, so there is nothing to pause" in said) == (0, True)
    assert not paused(both).exists()


def test_an_elastic_training_leaves_workers_out(both: Sandbox) -> None:
    status, _, said = train(both, "--without", "hvd-02", "--dry-run", "true")
    assert (status, "--without requires elastic training" in said) == (1, True)
    install(both, launcher(framework="torchrun", elastic=(1, 2)))
    status, _, said = train(both, "--without", "hvd-02", "--dry-run", "true")
    assert (status, "1 processes on 1 workers" in said) == (0, True), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pause"], "no command"),
        (["--resume", "true"], "--resume does not accept a command"),
        (["--pause", "--timeout", "0", "true"], "--timeout must be a number of seconds, not 0"),
        (["--pause", "--timeout"], "--timeout must be followed by a number of seconds"),
        (["--without"], "--without requires worker names: a,b"),
    ],
)
def test_wrong_words_of_a_pause(both: Sandbox, words: list[str], said: str) -> None:
    status, _, rest = train(both, *words)
    assert (status, said in rest) == (2, True)
