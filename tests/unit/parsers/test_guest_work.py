"""Work in a guest: how one line of shell asks for it, and which module states that it ends any."""

from __future__ import annotations

import os
import subprocess
from typing import get_args

import pytest

from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.parsers.guest_system import QUESTION, parse_guest_work

FIND = "/usr/bin/find\n"


@pytest.mark.parametrize(
    ("printed", "work"),
    [
        (FIND, ()),
        (f"/proc/812/fd/31\n/proc/812/fd/32\n{FIND}", ("process 812 on the GPU",)),
        (f"/proc/77/environ\n{FIND}", ("process 77 of `train`",)),
        (f"container mine repo.example/a:1\n{FIND}", ("container mine (repo.example/a:1)",)),
        (f"container vgpu-cfg-worker repo.example/a:1\n{FIND}", ()),
        ("container mine repo.example/a:1\n", None),
        ("", None),
    ],
)
def test_what_is_printed_says_what_works(printed: str, work: tuple[str, ...] | None) -> None:
    assert parse_guest_work(printed) == work


def asked() -> tuple[str, ...] | None:
    answer = subprocess.run(
        ["/bin/sh", "-c", QUESTION], capture_output=True, text=True, timeout=120, check=False
    )
    return parse_guest_work(answer.stdout)


def test_a_real_shell_finds_what_train_started() -> None:
    found = asked()
    assert found is not None
    with subprocess.Popen(["/bin/sleep", "60"], env=os.environ | {"VGPU_CFG_JOB": "a"}) as rank:
        mine = f"process {rank.pid} of `train`"
        assert mine not in found
        assert mine in (asked() or ())
        rank.kill()


def test_every_module_states_what_applying_it_ends() -> None:
    silent = [one for one in get_args(get_args(GuestModule)[0]) if "ENDS" not in vars(one)]
    assert not silent
