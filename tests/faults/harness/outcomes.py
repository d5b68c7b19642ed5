"""Results of mishaps by phase: the committed data, and the table of the troubleshooting page.

python -m tests.faults.harness.outcomes .cache/faults.jsonl     writes outcomes.yaml anew from results
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.command_line import ROOT
from tests.faults.harness.mishaps import ALL, KILLS, SHELL_BREAKS, WORDS, Mishap
from tests.faults.harness.phases import PHASES, phase_of
from tests.faults.harness.results import Point, read_points
from tests.faults.harness.scenarios import SCENARIOS
from vgpu_cfg.documents import dump, read_document

FILE = Path(__file__).with_name("outcomes.yaml")
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
NOT_BY_SSH = ("does not occur over SSH", "nothing")
_HEAD = "| Failure | During | Result | Type |\n|---|---|---|---|\n"
SHELLS = ("commands in a host's shell", "commands in a guest's shell")
ENDINGS = {5: "login or reading failed", 6: "a change failed", 7: "a manual step remains"}
Counts = dict[str, int]
"""How many runs ended so: an exit code, `killed`; `typed twice` counts those that met a restarting host."""


def counted(points: Sequence[Point]) -> dict[str, Any]:
    """Count points by phase and mishap, and by scenario."""
    cells: dict[str, dict[str, Counter[str]]] = {phase: {} for phase in PHASES}
    scenarios: dict[str, Counter[str]] = {}
    for point in points:
        key = point.key
        cell = cells[phase_of(key.request)].setdefault(key.mishap, Counter())
        cell["killed" if point.code < 0 else f"exit {point.code}"] += 1
        cell["typed twice"] += point.again > 1
        cell["wrong"] += bool(point.wrong)
        scenarios.setdefault(key.scenario, Counter())["kills" if key.mishap in KILLS else "breaks"] += 1
    return {
        "scenarios": {name: dict(scenarios[name]) for name in SCENARIOS if name in scenarios},
        "phases": {
            phase: {mishap: _nonzero(found[mishap]) for mishap in ALL if mishap in found}
            for phase, found in cells.items()
        },
    }


def _nonzero(counts: Mapping[str, int]) -> Counts:
    return {name: count for name, count in sorted(counts.items()) if count}


def read_outcomes() -> dict[str, Any]:
    """Return the data that is committed."""
    data: dict[str, Any] = read_document(FILE).data
    return data


def table(data: Mapping[str, Any]) -> str:
    """Return the page's table: mishaps with the same endings in all phases share one."""
    rows: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for mishap in ALL:
        endings: dict[tuple[str, str], list[str]] = {}
        for phase in PHASES:
            ending = told(phase, mishap, data["phases"][phase].get(mishap, {}))
            if ending != NOT_BY_SSH:
                endings.setdefault(ending, []).append(phase)
        fewest_first = sorted(endings.items(), key=lambda one: len(one[1]))
        cells = tuple((_during(phases, endings), *ending) for ending, phases in fewest_first)
        rows.setdefault(cells, []).append(WORDS[mishap])
    return _HEAD + "\n".join(
        f"| {'; '.join(mishaps)} | {during} | {happens} | {typed} |"
        for cells, mishaps in rows.items()
        for during, happens, typed in cells
    )


def _during(phases: Sequence[str], endings: Mapping[Any, Sequence[str]]) -> str:
    if len(endings) == 1:
        return "any request"
    is_most = len(phases) == max(map(len, endings.values()))
    return "other requests" if is_most else ", ".join(phases)


def told(phase: str, mishap: Mishap, counts: Counts) -> tuple[str, str]:
    """Return what happens, and what to type; empty where nobody has tried."""
    if phase in SHELLS and mishap not in (*KILLS, *SHELL_BREAKS):
        return NOT_BY_SSH
    if not counts:
        return "", ""
    codes = sorted(int(name.removeprefix("exit ")) for name in counts if name.startswith("exit "))
    failing = [code for code in codes if code]
    again = "the same command"
    if counts.get("typed twice"):
        again += "; if it reports that a host is restarting, again"
    if "killed" in counts:
        return "the process ends; tasks of vCenter continue", again
    ends = " or ".join(f"with {code} ({ENDINGS.get(code, 'see exit codes')})" for code in failing)
    if not failing:
        return "the run continues and succeeds", "nothing"
    if 0 not in codes:
        return f"the run ends {ends}", again
    return f"the run continues, or ends {ends}", f"after an error, {again}"


def main(files: Sequence[str]) -> int:
    """Count the points of some files, and write the data anew."""
    points: dict[Any, Point] = {}
    for file in files:
        found = read_points(Path(file), is_any_code=True)
        points |= {point.key: point for point in found if point.key.scenario in SCENARIOS}
    FILE.write_text(dump(counted(list(points.values()))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
