"""`train` and real horovodruns of several versions: each says what it is, and reads the line that follows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.unit.staging.training.sandbox import Sandbox
from tests.unit.staging.training.test_launcher import WORKERS, first, install, launcher, train
from vgpu_cfg.model.guests.training_modules import TrainWorker

__all__ = ["first"]

pytestmark = pytest.mark.long("horovodruns of Horovod")

SOURCES = Path(__file__).resolve().parents[4] / ".cache" / "horovod"
OLD = ("0.19.5", "0.20.3", "0.21.3", "0.22.1", "0.23.0", "0.24.3")
NEW = ("0.25.0", "0.26.1", "0.27.0", "0.28.1")
FIRST_ELASTIC, LAST = "0.20.3", NEW[-1]
BETWEEN = pytest.mark.exhaustive("the versions of Horovod between the first and the last")


def versions(first: str, *after: str) -> list[Any]:
    """Return versions for `parametrize`: `--all` asks the first and the last, `--faults` those between."""
    marks = (() if one in (first, LAST) else BETWEEN for one in (first, *after))
    return [pytest.param(one, marks=mark) for one, mark in zip((first, *after), marks, strict=True)]


# It is asked only what it is and how it reads its words: nothing starts. Before 0.20 the module had another
# name. --check-build tells or fails that nothing is compiled here: only the line of its version is printed.
HOROVODRUN = """
import json
import sys

import horovod

sys.argv[0] = "horovodrun"
try:
    from horovod.runner import launch
except ImportError:
    from horovod.run import runner as launch


def tell_elastic(settings, env, command, *more):
    print(json.dumps({
        "np": settings.num_proc,
        "fewest": getattr(settings, "min_num_proc", None) or settings.min_np,
        "most": getattr(settings, "max_num_proc", None) or settings.max_np,
        "resets": settings.reset_limit,
        "nics": sorted(settings.nics.split(",") if isinstance(settings.nics, str) else settings.nics),
        "hosts": settings.discovery.find_available_hosts_and_slots(),
        "command": command,
    }))


# Horovod reads this file again in each process that it starts.
if __name__ == "__main__":
    launch.check_build = lambda verbose: sys.exit(print(f"Horovod v{horovod.__version__}:"))
    read = launch.parse_args()
    if read.check_build:
        launch.check_build(read.verbose)
    if getattr(read, "host_discovery_script", None):
        # Its own settings, and the hosts that it finds by the script, up to where it would start processes.
        launch.gloo_built = lambda **_: True
        launch.gloo_run_elastic = tell_elastic
        sys.exit(launch._run(read))
    nics = read.nics.split(",") if isinstance(read.nics, str) else sorted(read.nics or ())
    shown = {
        "np": getattr(read, "num_proc", None) or read.np,
        "ssh_port": read.ssh_port,
        "hostfile": read.hostfile,
        "hosts": read.hosts,
        "nics": nics,
        "command": read.command,
    }
    print(json.dumps(shown))
"""


def give_horovodrun(guest: Sandbox, version: str) -> None:
    """Put the horovodrun of a version into a guest; skip the test where it was not fetched."""
    if not (SOURCES / "installed").exists():
        pytest.skip("there are no sources of Horovod: script/build-horovod says why")
    program = guest.write("/horovodrun.py", HOROVODRUN)
    python = shlex.quote(str(SOURCES / "env/bin/python"))
    guest.stand_in(
        "horovodrun",
        f'PYTHONPATH={shlex.quote(str(SOURCES / version))} exec {python} {shlex.quote(str(program))} "$@"',
    )


def read_by_horovodrun(guest: Sandbox, *words: str) -> dict[str, Any]:
    """Run `train`; return how horovodrun read its line."""
    status, _, rest = train(guest, *words)
    assert status == 0, rest
    found: dict[str, Any] = json.loads(rest.splitlines()[0])
    return found


@pytest.mark.parametrize("version", versions(*OLD, *NEW))
def test_each_reads_the_line_that_is_for_it(first: Sandbox, version: str) -> None:
    give_horovodrun(first, version)
    install(first)
    assert read_by_horovodrun(first, "--", "python", "train.py", "--lr", "0.1 $(reboot)") == {
        "np": 2,
        "ssh_port": 2222,
        "hostfile": f"{first.root}/opt/vgpu-cfg/hostfile",
        "hosts": None,
        "nics": ["ens224"],
        "command": [
            "env",
            "-u",
            "NCCL_SOCKET_IFNAME",
            f"{first.root}/opt/vgpu-cfg/rank",
            "python",
            "train.py",
            "--lr",
            "0.1 $(reboot)",
        ],
    }


@pytest.mark.parametrize("version", ["0.22.1", "0.28.1"])
def test_each_reads_fewer_processes(first: Sandbox, version: str) -> None:
    give_horovodrun(first, version)
    install(first, launcher(workers=(WORKERS[0], TrainWorker(name="hvd-02", address="10.111.0.12", slots=2))))
    found = read_by_horovodrun(first, "--np", "2", "python", "train.py")
    assert (found["np"], found["hosts"], found["hostfile"]) == (2, "hvd-01:1,hvd-02:1", None)


@pytest.mark.parametrize("version", versions(FIRST_ELASTIC, *OLD[2:], *NEW))
def test_each_reads_the_line_of_an_elastic_training(first: Sandbox, version: str) -> None:
    """It counts processes, the plan workers; who is there its own runner learns from the script."""
    give_horovodrun(first, version)
    unequal = (WORKERS[0], TrainWorker(name="hvd-02", address="10.111.0.12", slots=2))
    install(first, launcher(workers=unequal, elastic=(1, 2), max_restarts=3))
    assert read_by_horovodrun(first, "--", "python", "train.py") == {
        "np": 3,
        "fewest": 1,
        "most": 3,
        "resets": 3,
        "nics": ["ens224"],
        "hosts": {"hvd-01": 1, "hvd-02": 2},
        "command": [
            "env",
            "-u",
            "NCCL_SOCKET_IFNAME",
            f"{first.root}/opt/vgpu-cfg/rank",
            "python",
            "train.py",
        ],
    }


def test_one_that_is_not_elastic_is_refused_before_anything_starts(first: Sandbox) -> None:
    give_horovodrun(first, "0.19.5")
    install(first, launcher(elastic=(1, 2)))
    status, _, rest = train(first, "python", "train.py")
    assert status == 1
    assert (
        "Horovod 0.19.5 does not support elastic training: its horovodrun does not have "
        "--host-discovery-script"
    ) in rest
    assert not [call for call in first.calls if call.startswith("ssh")]


@pytest.mark.parametrize(("version", "asked"), [("0.22.1", "0.28.1"), ("0.24.3", "0.25.0")])
def test_the_word_of_a_newer_one_is_refused(first: Sandbox, version: str, asked: str) -> None:
    give_horovodrun(first, asked)
    install(first)
    _, _, rest = train(first, "--dry-run", "python", "train.py")
    line = shlex.split(rest.splitlines()[0])
    give_horovodrun(first, version)
    done = first.command(line)
    assert done.returncode == 2
    assert "horovodrun: error: unrecognized arguments: --network-interfaces" in done.stderr


@pytest.mark.parametrize("version", versions(*NEW))
def test_the_word_of_an_older_one_is_still_taken(first: Sandbox, version: str) -> None:
    # So it is what `train` writes where horovodrun does not say which version it is.
    give_horovodrun(first, version)
    install(first)
    done = first.command(["horovodrun", "-np", "2", "--network-interface", "ens224", "python"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nics"] == ["ens224"]
