"""Every job of tests/cli/jobs is done as an admin does it: by the lines that its screens print.

`tests/cli/job.py` describes their files.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.cli.job import Played, jobs

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", jobs())
def test_it_goes_through_by_its_screens(name: str, vgpu_cfg: CommandLine) -> None:
    assert Played(vgpu_cfg).job(jobs()[name]).wrong == []


def test_much_of_what_is_typed_was_printed_before(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counter(bool(step.source) for job in jobs().values() for step in job.steps if not step.by_hand)
    with capsys.disabled():
        sys.stdout.write(
            f"{len(jobs())} jobs, {counts.total()} steps, {counts[True]} of them from a screen\n"
        )
    assert counts[True] * 4 >= counts.total()
