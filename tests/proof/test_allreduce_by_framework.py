"""The allreduce of `verify` by PyTorch, started by a real torchrun and mpirun: gloo between two processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from vgpu_cfg.parsers.allreduce import AllReduce, parse_probe
from vgpu_cfg.parsers.frameworks import ASK_TORCH, parse_mpirun, parse_torch
from vgpu_cfg.verification.checks.training_checks import TORCH_PROBE

PYTHON = "/usr/bin/python3"


def has_torch() -> bool:
    if not Path(PYTHON).exists():
        return False
    ran = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False, timeout=120)
    return ran.returncode == 0


pytestmark = [
    pytest.mark.long("PyTorch takes seconds to import"),
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not there: apt-get install python3-torch"),
]
NEEDS_MPI = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin"
)
AS_RANK_DOES = (
    "export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE; "
    "export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK; "
    'exec "$@"'
)
PORT = 20000 + os.getpid() % 10000
WAYS = {
    "torchrun": (
        PYTHON,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        f"--master_port={PORT}",
        "--no_python",
    ),
    "mpirun": (
        *("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"),
        *("sh", "-c", AS_RANK_DOES, "rank"),
    ),
}


def summed(way: str, probe: Path) -> AllReduce:
    """Run a probe over two processes of this machine."""
    environment = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29612",
        "GLOO_SOCKET_IFNAME": "lo",
        # The Python of Debian 12 has a torchrun that loses what processes print unless it copies it.
        "PET_REDIRECTS": "1",
        "PET_TEE": "1",
    }
    ran = subprocess.run(
        [*WAYS[way], PYTHON, str(probe)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return parse_probe(ran.stdout)


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    path = tmp_path / "probe.py"
    path.write_text(
        resources.files("vgpu_cfg.verification.checks").joinpath(TORCH_PROBE).read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("way", ["torchrun", pytest.param("mpirun", marks=NEEDS_MPI)])
def test_two_processes_sum_exactly(way: str, probe: Path) -> None:
    found = summed(way, probe)
    assert (found.by, found.ranks, found.is_exact, found.is_on_gpu) == ("torch", 2, True, False)
    assert found.busbw_gigabytes > 0


def test_a_rank_that_computes_wrong_is_seen_by_all(probe: Path) -> None:
    text = probe.read_text(encoding="utf-8")
    right = "vector = (pattern * (rank + number)).float()\n"
    assert right in text
    wrong = f"{right}        vector[7] += float(rank == 1 and number == 3)\n"
    probe.write_text(text.replace(right, wrong), encoding="utf-8")
    assert summed("torchrun", probe).is_exact is False


def test_pytorch_says_what_it_is() -> None:
    ran = subprocess.run([PYTHON, "-c", ASK_TORCH], capture_output=True, text=True, check=True, timeout=120)
    found = parse_torch(ran.stdout)
    assert found.version
    assert (found.cuda, found.nccl, found.is_distributed) == ("", "", True)


@NEEDS_MPI
def test_mpirun_says_whose_it_is() -> None:
    ran = subprocess.run(
        [shutil.which("mpirun") or "", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert parse_mpirun(ran.stdout).is_open_mpi
