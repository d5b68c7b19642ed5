"""Every test ends: it has a limit, and so has whatever it waits for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, modules, named
from tests.last_resort import own_limit

ENDS_SECONDS = 240
CONFTEST = """
import tests.time_limit
from tests.time_limit import *
from tests.time_limit import pytest_runtest_call, pytest_runtest_teardown, pytest_timeout_set_timer

tests.time_limit.LEAVING_SECONDS = 3
"""


def run_tests(folder: Path, text: str, *words: str) -> str:
    """Run tests in a folder under the limits that ours have; return what pytest printed."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 100\ntimeout_method = signal\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDS_SECONDS,
    )
    return done.stdout + done.stderr


def stands(process: str) -> bool:
    """Whether a process runs; one that ended and was not asked about does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


STARTS = """
import subprocess, threading
import pytest
from hypothesis import given, settings, strategies

def started(name):
    process = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE)
    open(name, "w").write(str(process.pid))
    return process
"""


LATER = pytest.mark.long("what becomes of a test that is out of time: tests/architecture/test_time_limits.py")


@pytest.mark.parametrize(
    "words", [pytest.param((), id="alone"), pytest.param(("-n", "1"), id="xdist", marks=LATER)]
)
def test_a_test_that_waits_for_ever_fails_and_leaves_no_process(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "@pytest.mark.timeout(3)\n"
        "def test_reads():\n    with started('child') as process:\n        process.stdout.read()\n"
        "def test_next():\n    pass\n",
        *words,
    )
    assert "Timeout (>3.0s)" in told
    assert "1 failed, 1 passed" in told
    assert not stands((tmp_path / "child").read_text(encoding="ascii"))


@LATER
def test_a_test_that_ends_in_time_keeps_what_it_started(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "def test_starts():\n    globals()['kept'] = started('child')\n"
        "def test_ends():\n    assert kept.poll() is None\n    kept.kill()\n    kept.communicate()\n",
    )
    assert "2 passed" in told


@LATER
def test_what_a_fixture_started_is_the_fixtures_to_end(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "@pytest.fixture(scope='module')\ndef server():\n    with started('child') as process:\n"
        "        yield process\n        assert process.poll() is None\n        process.kill()\n"
        "@pytest.mark.timeout(3)\n"
        "def test_hangs(server):\n    threading.Event().wait()\n"
        "def test_next(server):\n    assert server.poll() is None\n",
    )
    assert "1 failed, 1 passed" in told
    assert "error" not in told
    assert not stands((tmp_path / "child").read_text(encoding="ascii"))


@LATER
def test_hypothesis_does_not_try_the_example_again(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "@pytest.mark.timeout(3)\n@settings(database=None, deadline=None)\n"
        "@given(strategies.integers())\n"
        "def test_it(number):\n    open('tried', 'a').write('.')\n    threading.Event().wait()\n",
    )
    assert "1 failed" in told
    assert (tmp_path / "tried").read_text(encoding="ascii") == "."


@LATER
def test_a_fixture_that_does_not_leave_after_a_failure_is_stopped(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS
        + "@pytest.fixture\ndef server():\n    with started('child') as process:\n        yield process\n"
        "def test_fails(server):\n    assert False\n"
        "def test_next():\n    pass\n",
    )
    assert "1 failed, 1 passed, 1 error" in told
    assert "Timeout (>3" in told


@LATER
def test_without_a_limit_nothing_is_stopped(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "import signal\n@pytest.fixture\ndef late():\n    yield\n"
        "    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)\n"
        "def test_it(late):\n    pass\n",
        "--timeout",
        "0",
    )
    assert "1 passed" in told


# ---------------------------------------------------------------- what a test waits for

ENDLESS = {"run", "call", "check_call", "check_output", "communicate"}
"""What starts or hears a process, and ends when it does."""
NOBODYS_TIME = {"case", "lab", "rig"}
"""Their `wait`, `join` and `result` wait for no process and no thread: the lab's clock is a virtual one."""


def endless_waits(text: str) -> list[int]:
    """List the lines on which Python waits for a process, a thread or an event without saying how long."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_endless(node, node.func)
    )


def is_endless(call: ast.Call, name: ast.Attribute) -> bool:
    if any(word.arg == "timeout" for word in call.keywords):
        return False
    owner = ast.unparse(name.value).rpartition(".")[2]
    if name.attr in ENDLESS:
        return owner == "subprocess" or name.attr == "communicate"
    return name.attr in {"wait", "join", "result"} and not call.args and owner not in NOBODYS_TIME


def test_no_test_waits_without_end() -> None:
    found = [
        f"{named(path)}:{line}"
        for path in modules(ROOT / "tests")
        for line in endless_waits(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("subprocess.run(words)", False),
        ("subprocess.run(words, timeout=60)", True),
        ("subprocess.check_output(words)", False),
        ("process.communicate()", False),
        ("process.communicate(timeout=60)", True),
        ("process.wait()", False),
        ("process.wait(timeout=60)", True),
        ("event.wait(30)", True),
        ("thread.join()", False),
        ("thread.join(10)", True),
        ("', '.join(words)", True),
        ("self.lab.wait()", True),
        ("runner.run(plan)", True),
    ],
)
def test_what_is_a_wait_without_end(line: str, ends: bool) -> None:
    assert endless_waits(line) == ([] if ends else [1])


@pytest.mark.timeout(5000)
def test_the_last_resort_comes_after_a_tests_own_limit(request: pytest.FixtureRequest) -> None:
    assert own_limit(request.node) == 5000
