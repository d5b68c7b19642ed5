"""A real torchrun job of four ranks is paused on its checkpoint, and continues undisturbed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.proof.guests import Guests, open_guests, with_four_workers
from tests.proof.programs import TRAINS
from tests.proof.test_launchers import torch, with_launcher
from vgpu_cfg.model.guests.training_modules import TrainWorker

__all__ = ["torch"]
pytestmark = pytest.mark.timeout(1200)  # guests boot, and eight processes import torch on two cores

RANKS, STEPS = 4, 60
SAVE = "touch save; while [ -e save ]; do sleep 0.1; done"
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = (PATH, "OMP_NUM_THREADS=1", "PET_REDIRECTS=1", "PET_TEE=1")


FOUR = pytest.mark.exhaustive("two more guests that boot, and import torch at each start")


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guests]:
    """Give the two guests of all tests with two ranks each, or four with one."""
    if request.param == RANKS:
        with open_guests(tmp_path, with_four_workers(tmp_path)) as guests:
            yield guests
    else:
        yield request.getfixturevalue("guests")


@contextmanager
def four_ranks(guests: Guests) -> Iterator[None]:
    """Let the workers have four ranks together."""
    slots = RANKS // len(guests.hosts)
    with_launcher(guests, workers=tuple(TrainWorker(name=one.name, slots=slots) for one in guests.hosts))
    try:
        yield
    finally:
        with_launcher(guests)


def begin(guests: Guests, folder: str) -> subprocess.Popen[bytes]:
    """Start the training in a folder, as a user does; another terminal has it."""
    for one in guests.hosts:
        one.write(f"{folder}/train.py", TRAINS)
    words = ["cd", folder, "&&", "exec", "env", *ENVIRONMENT, "/opt/vgpu-cfg/train", "--by", "torchrun", "--"]
    return guests["hvd-01"].start("sh", "-c", " ".join([*words, "python3", "train.py", str(STEPS)]))


def train(guests: Guests, folder: str, *words: str) -> str:
    done = guests["hvd-01"].execute(
        "sh", "-c", f'cd {folder}; exec "$@"', "sh", "/opt/vgpu-cfg/train", *words
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def losses(guests: Guests, folder: str) -> list[tuple[int, str]]:
    """Return the steps of rank 0 in the order in which they were made, each with its exact loss."""
    lines = guests["hvd-01"].read(f"{folder}/losses").splitlines()
    return [(int(step), loss) for step, loss in map(str.split, lines)]


def await_step(guests: Guests, folder: str, step: int) -> None:
    wait = f'until grep -q "^{step} " {folder}/losses 2>/dev/null; do sleep 0.2; done'
    done = guests["hvd-01"].execute("timeout", "300", "sh", "-c", wait)
    assert done.returncode == 0, (
        guests["hvd-01"].execute("sh", "-c", "cat /var/log/vgpu-cfg/resumed.log").stdout
    )


def told(guests: Guests) -> str:
    return guests["hvd-01"].execute("sh", "-c", "cat /tmp/resuming /var/log/vgpu-cfg/resumed.log").stdout


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("workers", [2, pytest.param(RANKS, marks=FOUR)], indirect=True)
def test_a_paused_training_has_the_loss_curve_of_an_undisturbed_one(workers: Guests) -> None:
    guests = workers
    with four_ranks(guests):
        assert begin(guests, "/srv/calm").wait(timeout=300) == 0
        job = begin(guests, "/srv/rolling")
        await_step(guests, "/srv/rolling", 10)
        said = train(guests, "/srv/rolling", "--pause", "--timeout", "120", "sh", "-c", SAVE)
        assert "paused on a checkpoint" in said
        assert job.wait(timeout=120) == 143
        assert guests.left() == []
        until_now = losses(guests, "/srv/rolling")
        # The second worker is away, as for a power cycle, and comes back while its training waits for it.
        guests["hvd-02"].execute("sh", "-c", "kill $(cat /run/mesh.pid)")
        resume = "cd /; exec /opt/vgpu-cfg/train --resume >/tmp/resuming 2>&1"
        resuming = guests["hvd-01"].start("sh", "-c", resume)
        guests["hvd-02"].execute("rm", "-f", "/run/mesh.pid")
        assert guests["hvd-01"].execute(*guests.ssh("hvd-02"), "true").returncode != 0
        guests.restart_sshd("hvd-02")
        assert resuming.wait(timeout=240) == 0, told(guests)
        await_step(guests, "/srv/rolling", STEPS - 1)
    calm, rolling = losses(guests, "/srv/calm"), losses(guests, "/srv/rolling")
    assert dict(rolling) == dict(calm)
    assert [step for step, _ in calm] == list(range(STEPS))
    # What was made after the checkpoint is made again, and nothing before it.
    saved = int(guests["hvd-01"].read("/srv/rolling/saved"))
    assert [step for step, _ in rolling] == [step for step, _ in until_now] + list(range(saved, STEPS))
    assert 10 < saved <= until_now[-1][0] + 1
    assert {one.read("/srv/rolling/saved") for one in guests.hosts} == {str(saved)}
