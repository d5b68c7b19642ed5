"""What PyTorch and mpirun say of themselves, in several versions."""

from __future__ import annotations

import pytest

from vgpu_cfg.parsers.frameworks import Mpi, Torch, parse_mpirun, parse_torch
from vgpu_cfg.parsers.text import UnreadableOutput


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        (
            "torch 2.6.0+cu126\ncuda 12.6\nnccl 2.21.5\ndistributed yes\n",
            Torch("2.6.0+cu126", "12.6", "2.21.5", is_distributed=True),
        ),
        (
            "torch 1.9.0\ncuda 11.1\nnccl 2708\ndistributed yes\n",
            Torch("1.9.0", "11.1", "2708", is_distributed=True),
        ),
        (
            "torch 1.13.0a0\ncuda none\nnccl none\ndistributed yes\n",
            Torch("1.13.0a0", "", "", is_distributed=True),
        ),
        (
            "UserWarning: CUDA initialization\ntorch 2.1.2\ncuda none\nnccl none\ndistributed no\n",
            Torch("2.1.2", "", "", is_distributed=False),
        ),
    ],
    ids=["2.6", "one number for NCCL", "a build for CPUs", "after a warning"],
)
def test_pytorch_is_read(printed: str, found: Torch) -> None:
    assert parse_torch(printed) == found


@pytest.mark.parametrize("printed", ["", "torch 2.6.0\n", "ModuleNotFoundError: No module named 'torch'\n"])
def test_what_is_no_pytorch_is_not(printed: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_torch(printed)


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n", Mpi("Open MPI", "4.1.4")),
        ("mpirun (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org/\n", Mpi("Open MPI", "5.0.7")),
        ("mpirun (OpenRTE) 3.1.6\n", Mpi("Open MPI", "3.1.6")),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", Mpi("MPICH")),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619\n", Mpi("Intel MPI")),
    ],
)
def test_an_mpirun_is_known_by_its_first_line(printed: str, found: Mpi) -> None:
    assert parse_mpirun(printed) == found


def test_another_programs_words_are_none() -> None:
    with pytest.raises(UnreadableOutput):
        parse_mpirun("bash: mpirun: command not found\n")
