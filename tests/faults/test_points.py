"""Runs that are killed or broken at any request: the same typed once more ends as if nothing had been.

The product and the lab are processes of their own here, over HTTPS and SSH. `script/test --faults` tries
every request of every scenario; what was tried with the same code is not tried again.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT
from tests.faults.harness.commands import COMMANDS
from tests.faults.harness.scenarios import SCENARIOS

SHARDS = 6
DEADLINE_SECONDS = 3000
LONGEST = pytest.mark.exhaustive("cells of a command that takes minutes: tests/faults")
LATER = pytest.mark.exhaustive("mishaps at some requests of each scenario: tests/faults")


def module_ran(module: str, *words: str, results_file: Path | None = None) -> tuple[int, str]:
    """Run a module of the harness; return its exit code and what it told."""
    kept = () if results_file is None else ("--results", str(results_file))
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.harness.{module}", *words, *kept],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "scenario", ["made", *(pytest.param(name, marks=LATER) for name in SCENARIOS if name != "made")]
)
def test_some_mishaps_are_mended_by_the_same_command(scenario: str, results_file: Path) -> None:
    code, told = module_ran("runner", scenario, "--some", "1", results_file=results_file)
    assert code == 0, told


@pytest.mark.exhaustive("every mishap at every request of a run: tests/faults")
@pytest.mark.timeout(DEADLINE_SECONDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
def test_every_mishap_is(scenario: str, shard: int, results_file: Path) -> None:
    code, told = module_ran("runner", scenario, "--shard", f"{shard}/{SHARDS}", results_file=results_file)
    assert code == 0, told


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words", [("--draw=1/2",), ("--draw=2/2",), pytest.param(("--long",), marks=LONGEST)], ids=" ".join
)
def test_any_command_refused_stopped_or_killed_is_mended_by_the_same_command(
    words: tuple[str, ...], results_file: Path, record_property: Callable[[str, object], None]
) -> None:
    """A seed that is new each time chooses the command and the cells; the same seed chooses the same."""
    seed = os.environ.get("VGPU_CFG_TEST_SEED") or str(secrets.randbits(32))
    code, told = module_ran("again", *words, "--seed", seed, results_file=results_file)
    record_property("cells", told.splitlines()[-1])
    assert code == 0, told


@pytest.mark.exhaustive("every command that writes, every request, every mishap: tests/faults")
@pytest.mark.timeout(DEADLINE_SECONDS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
def test_every_cell_is(
    command: str, shard: int, results_file: Path, record_property: Callable[[str, object], None]
) -> None:
    words = (command, "--mishaps", "again", "--shard", f"{shard}/{SHARDS}")
    code, told = module_ran("runner", *words, results_file=results_file)
    record_property("table", told.splitlines()[-1])
    assert code == 0, told
