"""`train` by torchrun, mpirun and none on two hosts: they meet, fail, restart, and are ended everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from tests.proof.guests import Guests, changed
from tests.proof.programs import (
    FAILS_AT_FIRST,
    FAILS_ONCE,
    STUBBORN,
    TELLS_HOW_IT_STARTED,
    TELLS_TENSORFLOW,
    TORCH_SUM,
    WAITS,
)
from vgpu_cfg.model.guests.training_modules import LauncherModule

pytestmark = pytest.mark.timeout(1200)  # guests boot, and several programs import torch at once


@pytest.fixture(scope="module")
def torch() -> None:
    """Skip where this machine's Python, which the hosts have too, holds no PyTorch."""
    done = subprocess.run(
        ["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True, check=False, timeout=120
    )
    if done.returncode or shutil.which("torchrun", path="/usr/bin") is None:
        pytest.skip("there is no torchrun here: apt-get install python3-torch")


@pytest.fixture(scope="module")
def open_mpi() -> None:
    """Skip where there is no Open MPI of the distribution."""
    programs_of("4")


OPEN_MPI = Path(__file__).resolve().parents[2] / ".cache" / "openmpi"


def programs_of(version: str) -> str:
    """Return where the programs of an Open MPI are, "" for the distribution's 4; skip where it is absent."""
    if version == "4":
        if shutil.which("mpirun", path="/usr/bin") is None:
            pytest.skip("there is no mpirun here: apt-get install openmpi-bin")
        return ""
    if not (OPEN_MPI / "installed").exists():
        pytest.skip("there is no Open MPI 5: script/build-openmpi says why")
    return str(OPEN_MPI / version / "bin")


def with_launcher(guests: Guests, **more: object) -> None:
    """Stage another launcher on the first host."""
    spec = guests.specs["hvd-01"]
    launcher = spec.module("launcher")
    assert isinstance(launcher, LauncherModule)
    guests.restage("hvd-01", changed(spec, launcher.model_copy(update=more)), "launcher")


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("by", ["torchrun", "mpi"])
def test_they_meet_on_the_training_network_and_sum_exactly(
    guests: Guests, by: str, request: pytest.FixtureRequest
) -> None:
    if by == "mpi":
        request.getfixturevalue("open_mpi")
    done = guests.launch(by, TORCH_SUM)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = guests.logs()
    assert logs["rank-0.log"] == "SUMMED 0 2 hvd-01 10.111.0.11\n"
    assert logs["rank-1.log"] == "SUMMED 1 2 hvd-02 10.111.0.11\n"
    assert f"by {by}\nworkers hvd-01,hvd-02\nstatus 0\n" in logs["job"]
    assert guests.left() == []


def test_none_starts_the_command_once_on_each_and_passes_its_status_on(guests: Guests) -> None:
    done = guests.launch("none", TELLS_TENSORFLOW)
    assert done.returncode == 7
    assert "hvd-02 exited with status 7" in done.stderr
    cluster = '{"cluster": {"worker": ["10.111.0.11:12345", "10.111.0.12:12345"]}'
    assert guests.logs()["rank-1.log"] == f'1 {cluster}, "task": {{"type": "worker", "index": 1}}}}\n'


@pytest.mark.usefixtures("open_mpi")
def test_the_status_of_a_rank_is_passed_on_by_mpirun(guests: Guests) -> None:
    done = guests.launch("mpi", "import os, sys\nsys.exit(9 * (os.uname().nodename == 'hvd-02'))\n")
    assert done.returncode == 9


@pytest.mark.usefixtures("torch")
def test_torchrun_starts_all_ranks_again(guests: Guests) -> None:
    for one in guests.hosts:
        one.execute("rm", "-f", "/tmp/has-failed")
    with_launcher(guests, max_restarts=1)
    done = guests.launch("torchrun", FAILS_ONCE)
    with_launcher(guests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert guests.logs()["rank-0.log"].count("DONE") == 1
    assert "ATTEMPT 2" in guests.logs()["rank-1.log"] + guests.logs()["rank-0.log"]


@pytest.mark.parametrize("version", ["4", "5.0.8", "5.0.11"])
def test_each_open_mpi_obeys_the_words_that_are_for_it(guests: Guests, version: str) -> None:
    """The mesh's ssh and port, and the training network alone, by which its daemons find the first."""
    done = guests.launch("mpi", TELLS_HOW_IT_STARTED, programs=programs_of(version))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecated" not in done.stderr
    logs = guests.logs()
    assert "-F /etc/vgpu-cfg/mesh/ssh_config" in logs["rank-0.log"]
    assert "-p 2222 hvd-02" in logs["rank-0.log"]
    assert set(re.findall(r"tcp://([\d.,]+)[:,]", logs["rank-1.log"])) == {"10.111.0.11"}, logs["rank-1.log"]
    assert guests.left() == []


@pytest.mark.usefixtures("open_mpi")
def test_a_job_of_mpirun_is_started_again(guests: Guests) -> None:
    for one in guests.hosts:
        one.execute("rm", "-f", "/tmp/again")
    with_launcher(guests, max_restarts=1)
    done = guests.launch("mpi", FAILS_AT_FIRST)
    with_launcher(guests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it exited with status 3; restarting (1 of 1)" in done.stderr


@pytest.mark.usefixtures("torch")
def test_an_elastic_training_goes_on_with_those_that_answer(guests: Guests) -> None:
    # With room for two torchrun would wait half a minute for the other.
    with_launcher(guests, elastic=(1, 1))
    with guests.unplugged("hvd-02"):
        done = guests.launch("torchrun", TORCH_SUM)
    with_launcher(guests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hvd-02 does not respond over SSH" in done.stderr
    assert guests.logs()["rank-0.log"] == "SUMMED 0 1 hvd-01 hvd-01\n"


@pytest.mark.parametrize(
    ("by", "signal", "status"), [("none", SIGINT, 130), ("torchrun", SIGTERM, 143), ("mpi", SIGINT, 130)]
)
def test_a_signal_ends_every_process_on_every_host(
    guests: Guests, by: str, signal: int, status: int, request: pytest.FixtureRequest
) -> None:
    if by != "none":
        request.getfixturevalue({"torchrun": "torch", "mpi": "open_mpi"}[by])
    ended, said = guests.interrupt(by, WAITS, signal)
    assert (ended, guests.left()) == (status, []), said
    assert "UP\n" in guests.logs()["rank-1.log"]


def test_who_does_not_end_when_asked_is_ended_by_force(guests: Guests) -> None:
    ended, said = guests.interrupt("none", STUBBORN, SIGTERM)
    assert (ended, guests.left()) == (143, []), said
    assert "by force" in said


@pytest.mark.usefixtures("open_mpi")
def test_a_killed_train_leaves_nothing_behind(guests: Guests) -> None:
    ended, said = guests.interrupt("mpi", WAITS, SIGKILL)
    assert ended == 137, said
    # Nobody waits for the keepers now. The brackets let what looks miss itself.
    running = "grep -qaE '[o]rted|[p]rogram.py' /proc/[0-9]*/cmdline"
    look = f"grep -qaF VGPU_CFG_JOB= /proc/[0-9]*/environ || {running}"
    wait = f"for n in $(seq 600); do {look} || exit 0; sleep 0.1; done"
    for one in guests.hosts:
        one.execute("sh", "-c", wait)
    assert guests.left() == []


def test_horovodrun_is_ended_everywhere_too(guests: Guests, horovod: Path) -> None:
    ended, said = guests.interrupt("horovod", WAITS, SIGINT, programs=str(horovod))
    assert (ended, guests.left()) == (130, []), said


def test_torchrun_enters_containers_that_have_no_sshd(guests: Guests) -> None:
    # A runtime that runs what it is told in the host itself, and passes no signal on.
    docker = """#!/bin/sh
case "$1" in
container) echo true ;;
exec) shift 3; exec 7<&0; setsid "$@" <&7 & wait $! ;;
esac
"""
    for one in guests.hosts:
        one.write("/usr/local/bin/docker", docker, 0o755)
        one.execute("ln", "-sf", "/usr/local/bin/docker", "/usr/bin/docker")
        spec = guests.specs[one.name]
        worker = spec.module("worker")
        assert worker is not None
        entered = changed(spec, worker.model_copy(update={"sshd": False}))
        guests.restage(one.name, entered, *(name for name in ("rank", "launcher") if spec.module(name)))
    try:
        done = guests.launch("none", "import os\nprint('IN', os.environ['NODE_RANK'])\n")
        assert done.returncode == 0, done.stdout + done.stderr
        assert guests.logs()["rank-1.log"] == "IN 1\n"
        ended, said = guests.interrupt("none", WAITS, SIGINT)
        assert (ended, guests.left()) == (130, []), said
    finally:
        for one in guests.hosts:
            spec = guests.specs[one.name]
            one.execute("rm", "/usr/bin/docker", "/usr/local/bin/docker")
            guests.restage(one.name, spec, *(name for name in ("rank", "launcher") if spec.module(name)))
