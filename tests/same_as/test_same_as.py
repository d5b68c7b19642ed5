"""Differences that are planted in a small package are seen, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.case_estate import NotInTheLab
from tests.same_as.__main__ import compared
from tests.same_as.comparison import differences
from tests.same_as.jobs import (
    FORMS,
    Command,
    Job,
    case_job,
    file_jobs,
    key_jobs,
    random_jobs,
    transcript_jobs,
)

MAIN = """
import os, secrets, sys, threading, time, traceback, uuid
from datetime import date, datetime, UTC
from pathlib import Path
from vgpu_cfg.lab import Lab

def main():
    begun = time.monotonic()
    time.sleep(3)
    print("the plan is ready in", time.monotonic() - begun, "s at", datetime.now(UTC), date.today())
    print(uuid.uuid4(), secrets.token_hex(6), os.getpid(), Path.cwd(), file=sys.stderr)
    Lab().exchange("POST", "/sdk", {"SOAPAction": "a"}, b"<a><b/></a>")
    Lab().execute("nvidia-smi -L")
    Path("report.txt").write_text("1 VM, 5 s")
    Path("given.txt").read_text()
    sys.exit(4)
"""
LAB = """
class Lab:
    def exchange(self, *given):
        return 200, {}, b""

    def execute(self, line):
        return 0, "", ""
"""
PACKAGE = {
    "__init__.py": '__version__ = "1.0"',
    "__main__.py": MAIN,
    "lab/__init__.py": LAB,
}
JOB = Job("planted", {"given.txt": "same"}, (Command(("plan", "plan.yaml")),))


def found(tmp_path: Path, **changed: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return what differs between the package and one in which a text of its main module is replaced."""
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        for path, text in PACKAGE.items():
            file = folder / "vgpu_cfg" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for before, after in changed.items():
        assert MAIN.count(PLANTED[before]) == 1, before
        (folders[1] / "vgpu_cfg/__main__.py").write_text(MAIN.replace(PLANTED[before], after))
    return [(one.what, one.lines) for one in compared([JOB], *folders)]


PLANTED = {
    "code": "sys.exit(4)",
    "word": "ready",
    "file": 'Path("report.txt").write_text("1 VM, 5 s")',
    "given": 'Path("given.txt").read_text()',
    "request": 'b"<a><b/></a>")',
    "line": "nvidia-smi -L",
    "duration": "5 s",
    "wait": "time.sleep(3)",
    "crash": "Lab().exchange",
}
PLAN = "vgpu-cfg plan plan.yaml"


def test_one_version_is_the_same_as_itself(tmp_path: Path) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "after", "what", "lines"),
    [
        ("code", "sys.exit(0)", f"exit code of {PLAN}", ["-4", "+0"]),
        ("word", "done", f"stdout of {PLAN}", ["-the plan is ready in 3.0 s", "+the plan is done in 3.0 s"]),
        ("file", "pass", "file work/report.txt", ["-1 VM, 5 s", "+(there is no such file)"]),
        ("given", 'Path("given.txt").unlink()', "file work/given.txt", ["+(there is no such file)"]),
        ("given", 'Path("given.txt").write_text("")', "file work/given.txt", ["+"]),
        (
            "request",
            'b"<a><b/></a>") and Lab().exchange("GET", "/api")',
            f"wire of {PLAN}",
            ["+GET", "+/api"],
        ),
        ("request", 'b"<a><c/></a>")', f"wire of {PLAN}", ["-<b/>", "+<c/>"]),
        ("line", "nvidia-smi -q", f"wire of {PLAN}", ["-nvidia-smi -L", "+nvidia-smi -q"]),
        ("duration", "6 s", "file work/report.txt", ["-1 VM, 5 s", "+1 VM, 6 s"]),
        ("wait", "time.sleep(4)", f"stdout of {PLAN}", ["ready in 4.0 s"]),
    ],
    ids=lambda one: one if isinstance(one, str) and one in PLANTED else "",
)
def test_what_is_planted_is_seen(tmp_path: Path, text: str, after: str, what: str, lines: list[str]) -> None:
    ((seen, diff),) = found(tmp_path, **{text: after})
    assert seen == what
    for line in lines:
        assert any(line in one for one in diff), diff


def test_a_crash_is_an_exit_code_of_its_own(tmp_path: Path) -> None:
    seen = [what for what, _ in found(tmp_path, crash="None.exchange")]
    assert seen[0] == f"exit code of {PLAN}"
    assert f"stderr of {PLAN}" in seen


def told(out: str, **more: str) -> Mapping[str, object]:
    """Return what the player prints of a command with this output."""
    command = {"words": ["plan"], "code": 0, "out": out, "err": "", "wire": ""}
    whose = {"folder": "/tmp/same-as-1", "package": "/tmp/same-as-old", "version": "0.1.0"} | more
    return {"name": "a", "told": [command], "files": {}, **whose}


@pytest.mark.parametrize(
    ("out", "other"),
    [
        ("see /tmp/same-as-1/in/a.yaml", "see /tmp/same-as-2/in/a.yaml"),
        ("File /tmp/same-as-old/vgpu_cfg/a.py", "File /code/vgpu_cfg/a.py"),
        ("Written by vgpu-cfg 0.1.0: a", "Written by vgpu-cfg 0.2.0: a"),
    ],
)
def test_a_mask_hides_folders_and_the_number_of_the_version(out: str, other: str) -> None:
    new = told(other, folder="/tmp/same-as-2", package="/code", version="0.2.0")
    assert list(differences(told(out), new)) == []


@pytest.mark.parametrize(
    ("out", "other"),
    [
        ("see /tmp/same-as-1/in/a.yaml", "see /tmp/same-as-2/in/b.yaml"),
        ("driver 0.1.0", "driver 0.2.0"),
        ("in 5 s", "in 6 s"),
        ("2026-11-28 10:00 UTC", "2026-11-28 10:01 UTC"),
        ("5f0c9a7e-52d1-4b86-9e24-000000000001", "5f0c9a7e-52d1-4b86-9e24-000000000002"),
        ("a\n", "a"),
    ],
)
def test_a_mask_hides_nothing_else(out: str, other: str) -> None:
    new = told(other, folder="/tmp/same-as-2", package="/code", version="0.2.0")
    assert [one.what for one in differences(told(out), new)] == ["stdout of vgpu-cfg plan"]


def test_a_package_whose_requests_cannot_be_heard_is_refused(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder / "vgpu_cfg/lab").mkdir(parents=True)
        for path in ("vgpu_cfg/__init__.py", "vgpu_cfg/lab/__init__.py"):
            (tmp_path / folder / path).write_text('__version__ = "1.0"')
    with pytest.raises(SystemExit, match="could not be run"):
        list(compared([JOB], tmp_path / "old", tmp_path / "new"))


def test_each_example_transcript_and_case_of_keys_is_a_job() -> None:
    names = [job.name for job in (*file_jobs(), *transcript_jobs(), *key_jobs())]
    assert {"file examples/four-10c.yaml", "file plans/pair.yaml", "transcript drain"} <= {*names}
    assert len(names) == len({*names})


def test_random_plans_are_the_same_for_a_seed() -> None:
    assert list(random_jobs(3, 5)) == list(random_jobs(3, 5)) != list(random_jobs(3, 6))


def test_a_case_of_planning_is_an_estate_file_and_a_plan_file() -> None:
    job = case_job("mig-1g-beside-7g")
    assert {*job.files} == {"estate.yaml", "plan.yaml"}
    assert [command.words for command in job.commands] == list(FORMS)


def test_a_case_that_no_estate_file_can_describe_is_none() -> None:
    with pytest.raises(NotInTheLab):
        case_job("nic-taken")
