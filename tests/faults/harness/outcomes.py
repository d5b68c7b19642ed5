"""What became of mishaps, by phase: the data that is committed, and the page that is made of it.

python -m tests.faults.harness.outcomes .cache/faults.jsonl     writes outcomes.yaml anew from results
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.command_line import ROOT
from tests.faults.harness.mishaps import ALL, KILLS, SHELL_BREAKS, WORDS, Mishap
from tests.faults.harness.phases import PHASES, phase_of
from tests.faults.harness.results import Point, read_points
from tests.faults.harness.scenarios import SCENARIOS
from vgpu_cfg.documents import dump, read_document

FILE = Path(__file__).with_name("outcomes.yaml")
PAGE = ROOT / "docs" / "explanation" / "failure-states.md"
SHELLS = ("commands in a host's shell", "commands in a guest's shell")
ENDINGS = {5: "login or reading failed", 6: "a change failed", 7: "a hand is waited for"}
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


def page(data: Mapping[str, Any]) -> str:
    """Return the page."""
    return "".join(f"{line}\n" for line in _lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield "| What is run | killed at | broken at |"
    yield "|---|---|---|"
    for name, counts in data["scenarios"].items():
        about = SCENARIOS[name].about
        yield f"| {about} | {counts.get('kills', 0)} points | {counts.get('breaks', 0)} points |"
    for title, mishaps in (("Where the run is killed", KILLS), ("Where it lives", ALL[len(KILLS) :])):
        yield ""
        yield f"## {title}"
        for mishap in mishaps:
            yield ""
            yield f"### {WORDS[mishap][0].upper()}{WORDS[mishap][1:]}"
            yield ""
            yield "| In the phase | What happens | What to type |"
            yield "|---|---|---|"
            for phase in PHASES:
                happens, typed = told(phase, mishap, data["phases"][phase].get(mishap, {}))
                yield f"| {phase} | {happens} | {typed} |"


def told(phase: str, mishap: Mishap, counts: Counts) -> tuple[str, str]:
    """Return what happens, and what to type; empty where nobody has tried."""
    if phase in SHELLS and mishap not in (*KILLS, *SHELL_BREAKS):
        return "does not occur by SSH", "nothing"
    if not counts:
        return "", ""
    codes = sorted(int(name.removeprefix("exit ")) for name in counts if name.startswith("exit "))
    failing = [code for code in codes if code]
    again = "the same command"
    if counts.get("typed twice"):
        again += "; once more where it says that a host is away, which restarts"
    if "killed" in counts:
        return "the process is gone; what vCenter was doing goes on there", again
    ends = " or ".join(f"with {code} ({ENDINGS.get(code, 'see exit codes')})" for code in failing)
    if not failing:
        return "the run goes on and ends well", "nothing"
    if 0 not in codes:
        return f"the run ends {ends}", again
    return f"the run goes on, or ends {ends}", f"nothing; after an error {again}"


_HEAD = """\
# What a failure leaves, and what to type

Runs are broken here on purpose: the program is a process of its own, the lab another one, and between them are HTTPS and SSH.
At a request the process is killed, or the wire fails. Then the same command is typed again, at once, and
vCenter must show what it shows after a run that nobody disturbed: no VM twice, nothing of another's changed, no host in
maintenance mode, no mark, no lock, no SSH service left open; `plan --exit-code` ends with 0.

The tables are made from what was tried ([how](../../tests/README.md#mishaps)). What to type is the same everywhere: **the same
command**. A run that was killed leaves its locks; the next run on the same machine sees that its process has ended and takes them
over, elsewhere `vgpu-cfg unlock RUN-ID` does. What vCenter still works on then, the next run or `unlock` waits for. Every other command that
writes is tried as well, by what is refused once, by Ctrl-C once and twice, by SIGTERM, SIGHUP and SIGKILL
([the table](../../tests/README.md#the-table-command-x-mishap)). What real vCenters do beyond the lab is [unproven](what-is-proven.md).

The same command does not resume these, for a reason:

| What | What the same command does | Why | What to type |
|---|---|---|---|
| a rollback (`--rollback-on-failure`) that is stopped or killed | It goes forward. | A person who stops a run decides what comes next. | the same command, or `destroy` to remove the VMs |
| a saved plan (`apply plan.json`) that is done in part | It ends with 4 and changes nothing. | The reviewed plan was the whole. The review must cover what is left, and what that disturbs now. | `plan -o plan.json`, review it, then the same command |
| a host that restarts when the run is killed | It may end with 7. | A host that does not answer may be off. | the same command, once the host is back |

"""  # noqa: E501 - lines of a page


def main(files: Sequence[str]) -> int:
    """Count the points of some files, and write data and page anew."""
    points: dict[Any, Point] = {}
    for file in files:
        found = read_points(Path(file), is_any_code=True)
        points |= {point.key: point for point in found if point.key.scenario in SCENARIOS}
    FILE.write_text(dump(counted(list(points.values()))), encoding="utf-8")
    PAGE.write_text(page(read_outcomes()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
