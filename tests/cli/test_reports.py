"""What pipelines keep of a command: JUnit XML, read back by another's parser, and comments in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml, Skipped, TestCase

from tests.cli.command_line import CommandLine, Ran

PLAN = "examples/site-repository/plan.yaml"
SITE = ("--set=network=vm-network", "--from=examples/site-repository/vcenter.json.gz")
BROKEN = "version: 1\nname: a b/c\nvms: [{name: x, cpus: none}]\n"


def cases(ran: Ran) -> dict[str, TestCase]:
    """Read a report: its cases by name, of which there is one each."""
    (suite,) = JUnitXml.fromstring(ran.out.encode())
    listed: list[TestCase] = list(suite)
    assert suite.tests == len(listed)
    assert suite.failures == sum(isinstance(one, Failure) for case in listed for one in case.result)
    found = {str(case.name): case for case in listed}
    assert len(found) == len(listed)
    return found


def failed(found: Iterable[TestCase]) -> set[str]:
    return {str(case.name) for case in found if any(isinstance(one, Failure) for one in case.result)}


@pytest.fixture
def too_many(vgpu_cfg: CommandLine) -> Path:
    text = (vgpu_cfg.folder / "examples/four-10c.yaml").read_text(encoding="utf-8")
    return vgpu_cfg.write("six.yaml", text.replace("{01..04}", "{01..06}"))


def test_a_plan_that_fits_is_a_case_for_each_vm_with_its_host(vgpu_cfg: CommandLine) -> None:
    found = cases(vgpu_cfg.done("plan", PLAN, *SITE, "--output", "junit"))
    assert set(found) == {"train-01", "train-02", *(f"notebook-0{number}" for number in (1, 2, 3))}
    assert failed(found.values()) == set()
    assert found["train-01"].system_out == "on esx-a100-01.lab"


def test_a_finding_fails_for_each_vm_that_it_is_about(vgpu_cfg: CommandLine, too_many: Path) -> None:
    ran = vgpu_cfg("plan", too_many, "--output=junit")
    assert ran.code == 4
    found = cases(ran)
    assert failed(found.values()) == {"quarter-05 VG103", "quarter-06 VG103"}
    assert {"quarter-04", "quarter-05"} & set(found) == {"quarter-04"}
    (failure,) = found["quarter-06 VG103"].result
    assert (failure.type, failure.message) == ("VG103", "grid_a100-10c cannot be placed")
    assert "free a GPU" in str(failure.text)


def test_a_status_fails_for_what_differs(vgpu_cfg: CommandLine) -> None:
    found = cases(vgpu_cfg.done("status", PLAN, *SITE, "--output=junit"))
    assert failed(found.values()) == set(found)


def test_a_verification_is_a_case_for_each_check(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/full-vgpu.yaml")
    ran = vgpu_cfg("verify", "examples/full-vgpu.yaml", "--quick", "--output=junit")
    found = cases(ran)
    assert (ran.code == 8) == bool(failed(found.values()))
    assert any(isinstance(one, Skipped) for case in found.values() for one in case.result)


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_broken_file_is_a_report_too(vgpu_cfg: CommandLine, command: str) -> None:
    vgpu_cfg.write("broken.yaml", BROKEN)
    ran = vgpu_cfg(command, "broken.yaml", "--output=junit")
    assert ran.code == 3
    assert failed(cases(ran).values()) == {"broken.yaml:1:1", "broken.yaml:2:7", "broken.yaml:3:23"}
    assert "broken.yaml:2:7: " in ran.err


def test_a_valid_file_is_a_report_without_failures(vgpu_cfg: CommandLine) -> None:
    found = cases(vgpu_cfg.done("validate", PLAN, "--set=network=x", "--output=junit"))
    assert (len(found), failed(found.values())) == (6, set())


def test_the_comment_of_a_plan_that_fits(vgpu_cfg: CommandLine) -> None:
    comment = vgpu_cfg.done("plan", PLAN, *SITE, "--output=markdown").out
    lines = comment.splitlines()
    assert lines[0] == "### Changes pending: `training` on `lab:mixed-fleet`"
    assert "**Disruption**: none; 12 other hosts and 14 other VMs are not affected." in lines
    row = "| VM notebook-{01..03} | new | esx-a100-02.lab | cpus 8, memory 64 GiB, gpu grid_a100d-20c |"
    assert row in lines
    assert lines[-1].startswith("Next: `vgpu-cfg apply ")
    assert "<details" not in comment


def test_the_comment_of_a_plan_that_is_refused(vgpu_cfg: CommandLine, too_many: Path) -> None:
    ran = vgpu_cfg("plan", too_many, "--output=markdown")
    assert ran.code == 4
    lines = ran.out.splitlines()
    assert lines[0] == "### Rejected, 1 error: `four-10c` on `lab:one-a100`"
    assert "<details open><summary>Findings: 1 error</summary>" in lines
    assert any(line.startswith("* **VG103** error, quarter-{05..06}: grid_a100-10c") for line in lines)
    assert any(line.startswith("  * esx-one-01.lab: 0000:21:00.0 is full") for line in lines)
    assert "* outside: add 1 host like esx-one-01.lab, without VMs" in lines
    assert not any(line.startswith("Next:") for line in lines)


def test_a_comment_holds_the_fix_that_was_tried(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / "examples/four-10c.yaml").read_text(encoding="utf-8")
    vgpu_cfg.write("eleven.yaml", text.replace("grid_a100-10c", "grid_a100-11c"))
    lines = vgpu_cfg("plan", "eleven.yaml", "--output=markdown").out.splitlines()
    start = lines.index("```diff")
    assert lines[start - 1] == ""
    assert lines[start + 3 : start + 5] == ["-   gpus: grid_a100-11c", "+   gpus: grid_a100-10c"]


def test_the_comment_of_an_estate_in_sync(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/full-vgpu.yaml")
    comment = vgpu_cfg.done("plan", "examples/full-vgpu.yaml", "--output=markdown").out
    assert comment.startswith("### In sync: `full-vgpu` on ")
    assert "Next:" not in comment


def test_the_comment_of_a_broken_file(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("broken.yaml", BROKEN)
    ran = vgpu_cfg("plan", "broken.yaml", "--output=markdown")
    assert ran.code == 3
    assert ran.out.splitlines()[0] == "### No plan: 3 errors in broken.yaml"
    assert "* `broken.yaml:2` 'a b/c' is not a valid plan name" in ran.out


def test_the_comment_where_nothing_could_be_read(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("plan", PLAN, "--set=network=x", "--server=lab:no-such", "--output=markdown")
    assert ran.code == 3
    assert ran.out.startswith("### No plan: no estate 'no-such' found")


@pytest.mark.parametrize("words", [["inventory"], ["destroy", PLAN], ["apply", PLAN], ["runbook", PLAN]])
@pytest.mark.parametrize("output", ["junit", "markdown"])
def test_other_commands_refuse_them(vgpu_cfg: CommandLine, words: list[str], output: str) -> None:
    ran = vgpu_cfg(*words, "--output", output)
    assert (ran.code, ran.out) == (2, "")
    assert f"'{output}' is not one of 'text'," in ran.told
