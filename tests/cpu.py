"""The CPU seconds of tests by folder and file, `--cpu`: a busy machine changes them less than durations.

They include the processes that a test has waited for, and the fixtures that it was the first to use.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

import pytest

NAME = "cpu_seconds"
MOST = 25
"""So many files are listed, those that take most."""
_BEGUN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vgpu-cfg")
    group.addoption("--cpu", action="store_true", help="print the CPU seconds of folders and files of tests")


def used() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGUN] = used()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        if item.config.getoption("cpu"):
            item.user_properties.append((NAME, used() - item.stash[_BEGUN]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("cpu"):
        return
    reports = [one for kind in terminalreporter.stats.values() for one in kind if hasattr(one, "when")]
    files: Counter[str] = Counter()
    for report in reports:
        if report.when == "teardown":
            files[report.nodeid.partition("::")[0]] += dict(report.user_properties).get(NAME, 0)
    folders: Counter[str] = Counter()
    for file, seconds in files.items():
        folders["/".join(PurePath(file).parts[:2])] += seconds
    terminalreporter.section("CPU seconds of folders, and of the files that take most")
    for name, seconds in (("all", sum(files.values())), *folders.most_common(), *files.most_common(MOST)):
        terminalreporter.write_line(f"{seconds:9.1f}  {name}")
