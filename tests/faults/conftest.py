"""Where the results of tests/faults are kept, and how its end counts them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.faults.harness.commands import COMMANDS
from tests.faults.harness.mishaps import KILLS, SIGNALS, Mishap
from tests.faults.harness.results import Results, default_file
from tests.faults.harness.scenarios import RACES

_SHARE = re.compile(r"(?P<count>\d+) points here, (?P<wrong>\d+) wrong$")


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    return CommandLine(folder, monkeypatch)


@pytest.fixture(scope="session")
def results_file() -> Path:
    """Return the file with what was tried, by this run and by those before it with the same code."""
    return default_file()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was tried with this code, in this run and before."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    each = ((report.nodeid, *one) for report in reports for one in report.user_properties)
    told = [(name, str(text)) for _, name, text in dict.fromkeys(each)]
    drawn = [text for name, text in told if name == "cells"]
    if drawn:
        terminalreporter.section("cells of the table command x mishap, drawn by a fresh seed")
        for line in drawn:
            terminalreporter.write_line(line)
    shares = [found for name, text in told if name == "table" and (found := _SHARE.search(text))]
    if shares:
        count, wrong = (sum(int(found[which]) for found in shares) for which in ("count", "wrong"))
        terminalreporter.section("the table command x mishap")
        terminalreporter.write_line(f"{count} cells, each tried with this code, {wrong} wrong")
    points = list(Results(default_file()).read())
    if not points:
        return
    terminalreporter.section("mishaps tried with this code")
    abouts = {name: scenario.about for name, scenario in COMMANDS.items()}
    abouts |= {name: race.scenario.about for name, race in RACES.items()}
    for name, about in abouts.items():
        mine = [point for point in points if point.key.scenario == name]
        if not mine:
            continue
        counts = Counter(_kind(point.key.mishap) for point in mine)
        tried = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        wrong = sum(bool(point.wrong) for point in mine)
        terminalreporter.write_line(f"{name:17} {tried}, {wrong} wrong: {about}")


def _kind(mishap: Mishap) -> str:
    if mishap == "another run":
        return "orders"
    if mishap in SIGNALS:
        return "signals"
    return "kills" if mishap in KILLS else "breaks"
