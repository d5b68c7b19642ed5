"""Every test ends: it has a limit, and what it started ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

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


@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["alone", "xdist"])
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


def test_a_test_that_ends_in_time_keeps_what_it_started(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "def test_starts():\n    globals()['kept'] = started('child')\n"
        "def test_ends():\n    assert kept.poll() is None\n    kept.kill()\n    kept.communicate()\n",
    )
    assert "2 passed" in told


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


def test_hypothesis_does_not_try_the_example_again(tmp_path: Path) -> None:
    told = run_tests(
        tmp_path,
        STARTS + "@pytest.mark.timeout(3)\n@settings(database=None, deadline=None)\n"
        "@given(strategies.integers())\n"
        "def test_it(number):\n    open('tried', 'a').write('.')\n    threading.Event().wait()\n",
    )
    assert "1 failed" in told
    assert (tmp_path / "tried").read_text(encoding="ascii") == "."


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
