"""The outside judges of tests/judges.yaml: their age, and the newest version in their registries."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from vgpu_cfg.documents import read_document

ROOT = Path(__file__).resolve().parents[1]
HALF_A_YEAR = timedelta(days=183)
MOST_OLD = 5
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions"]
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Judge:
    """A row of the file."""

    name: str
    version: str
    released: date
    file: str
    registry: str = ""
    newer: str = ""
    why: str = ""

    def is_old(self, today: date) -> bool:
        return today - self.released > HALF_A_YEAR


def judges() -> tuple[date, list[Judge]]:
    """Read the file: the day of the last comparison, and its rows."""
    data: Any = read_document(ROOT / "tests" / "judges.yaml").data
    day = date.fromisoformat
    rows = [
        Judge(
            str(row["name"]),
            str(row["version"]),
            day(str(row["date"])),
            str(row["in"]),
            *(str(row.get(key, "")) for key in ("registry", "newer", "why")),
        )
        for row in data["judges"]
    ]
    return day(str(data["compared"])), rows


def newest(registry: str) -> str:
    """Ask a registry for a package's newest version; "" if it does not answer."""
    kind, _, name = registry.partition(" ")
    match kind:
        case "go":
            printed = _printed(["go", "list", "-m", "-versions", name])
            return printed.split()[-1] if len(printed.split()) > 1 else ""
        case "pypi":
            found = re.search(r"\(([^)]+)\)", _printed([*_PIP, name]))
        case "debian":
            found = re.search(r"Candidate: ([\d.]+)", _printed(["apt-cache", "policy", name]))
        case _:
            return ""
    return found[1] if found else ""


def _printed(command: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module judges\n", encoding="utf-8")
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return done.stdout if done.returncode == 0 else ""


def is_behind(version: str, other: str) -> bool:
    """Tell whether a registry's version is newer, by its numbers; an unknown one is not."""
    numbers = [tuple(map(int, _NUMBERS.findall(one))) for one in (version, other)]
    return bool(other) and numbers[0] < numbers[1]


def table(
    rows: Iterable[Judge], today: date, ask: Callable[[str], str] = newest
) -> tuple[list[str], list[Judge]]:
    """Return a line for each judge, and those that are older than six months."""
    lines, old = [], []
    for one in rows:
        other = ask(one.registry)
        newer = next((known for known in (other, one.newer) if is_behind(one.version, known)), "")
        listed = "newest" if other == one.version else f"the registry lists {other or 'nothing'}"
        state = f"behind {newer}" if newer else listed
        if one.is_old(today):
            state += f"; older than six months: {one.why or 'no reason'}"
            old.append(one)
        lines.append(f"{one.name:<24}{one.version:<36}{one.released}  {state}")
    return lines, old


def main() -> None:
    _, rows = judges()
    lines, old = table(rows, datetime.now(UTC).date())
    sys.stdout.write("\n".join([*lines, f"{len(old)} of {len(rows)} are older than six months", ""]))
    sys.exit(len(old) > MOST_OLD or not all(one.why for one in old))


if __name__ == "__main__":
    main()
