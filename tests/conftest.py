"""What holds for every test: sockets closed, the user's own settings out of sight, nothing random."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.time_limit import pytest_runtest_call, pytest_runtest_teardown, pytest_timeout_set_timer

__all__ = ["pytest_runtest_call", "pytest_runtest_teardown", "pytest_timeout_set_timer"]

pytest_plugins = [
    "pytester",
    "tests.cpu",
    "tests.extent",
    "tests.frame_room",
    "tests.last_resort",
    "tests.quick_types",
    "tests.spread",
]

LOOPBACK = ["127.0.0.0/8", "::1", "localhost"]
NOT_OURS = ("VGPU_CFG_", "GOVC_", "XDG_")
COLOURS = ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine, not the test
)
settings.load_profile("repeatable")

# Of what is imported and collected nothing is garbage: pytest_collection_finish lets it be looked for again.
gc.disable()

# A shell that runs the tests in the background hides Ctrl-C from them, and so from every program they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["TZ"] = "UTC"
time.tzset()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Open the loopback, and nothing else, for the contract tests; leave the proof to `--all`."""
    for item in items:
        if item.nodeid.startswith("tests/proof/"):
            item.add_marker(pytest.mark.long("training with a real Horovod on two hosts: tests/proof"))
        if item.nodeid.startswith("tests/contract/"):
            item.add_marker(pytest.mark.contract)
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what is imported and collected: 500,000 objects that all stay.

    Then it looks less often than each 700 new objects: of most calls it finds nothing to collect.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tests of a process. To make and remove one for each takes as long as most tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a test an empty home: nothing of the user's is read or written, nor of another test's."""
    for name in list(os.environ):
        if name.startswith(NOT_OURS) or name in COLOURS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(empty_home))
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("TERM", "dumb")
    yield empty_home
    for left in empty_home.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
