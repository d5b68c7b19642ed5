"""Which guest drivers the lab's hosts take, by NVIDIA's rule and nothing beyond it."""

from __future__ import annotations

import pytest

from vgpu_cfg.lab.guest.system.gpus import BRANCHES, takes


@pytest.mark.parametrize(
    ("host", "guests"),
    [
        (595, {595, 580}),
        (580, {580, 570, 535}),
        (570, {570, 550}),
        (550, {550, 535}),
        (535, {535, 525, 470}),
        (610, {610, 595}),
    ],
)
def test_a_host_takes_its_own_branch_the_one_before_and_between_long_term_ones_the_last(
    host: int, guests: set[int]
) -> None:
    assert {one for one in (*BRANCHES, 610) if takes(host, one)} == guests
