"""The table command x mishap: every command that writes, at every request, and then the same command again.

python -m tests.faults.harness.again --draw 2/2 --seed 17    cells of one command, chosen by the seed
python -m tests.faults.harness.again --table                 how many cells there are, were tried, are wrong
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.harness.commands import COMMANDS
from tests.faults.harness.ground import Ground
from tests.faults.harness.mishaps import AGAIN
from tests.faults.harness.results import Key, Point, Results, default_file
from tests.faults.harness.runner import Share, cells_of, see_whole

CELLS = 12
"""So many are drawn at a time: `script/test` draws twice."""


LONG = frozenset({"hosts", "saved hosts", "image", "guests", "renamed", "taken back"})
"""Commands of so many requests that their cells take minutes: `--faults` and `--all` have them."""


def draw(part: int, parts: int, seed: int, results: Path, *, is_long: bool) -> tuple[str, list[Point]]:
    """Try cells of a command that the seed chooses among every n-th one; return them as they ended."""
    chance = random.Random(seed)  # noqa: S311 - what is tried is no secret
    command = chance.choice([name for name in COMMANDS if (name in LONG) is is_long][part - 1 :: parts])
    kept, chosen = Results(results), list[Key]()

    def choose(names: list[str]) -> list[Key]:
        cells = list(cells_of(command, names))
        chosen.extend(chance.sample(cells, min(CELLS, len(cells))))
        return [cell for cell in chosen if not kept.has(cell)]

    with _Place(command) as ground:
        Share(command, ground, kept).explore(choose)
    found = {point.key: point for point in kept.read()}
    return command, [found.get(key, Point(key, 0, "", 0, "", ("it was not tried",))) for key in chosen]


class _Place(Ground):
    """A ground in a folder that goes with it."""

    def __init__(self, command: str) -> None:
        super().__init__(COMMANDS[command], Path(tempfile.mkdtemp(prefix="vf-")))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        shutil.rmtree(self.folder, ignore_errors=True)


def table(results: Path) -> str:
    """Return the table as text, a line for each command; what is not tried with this code is seen in it."""
    points = {point.key: point for point in Results(results).read()}
    lines = [" | ".join(["command", "requests", *AGAIN])]
    total = Counter[str]()
    for command, scenario in COMMANDS.items():
        with _Place(command) as ground:
            names = [name for name, _ in see_whole(ground)[0]]
        cells = list(cells_of(command, names))
        total["cells"] += len(cells)
        row = []
        for mishap in AGAIN:
            mine = [cell for cell in cells if cell.mishap == mishap]
            tried = [points[cell] for cell in mine if cell in points]
            wrong = sum(bool(point.wrong) for point in tried)
            total["tried"] += len(tried)
            total["wrong"] += wrong
            row.append(f"{len(tried)}/{len(mine)}" + (f" ({wrong} wrong)" if wrong else ""))
        lines.append(" | ".join([f"{command}: {scenario.about}", str(len(names)), *row]))
    return "\n".join([*lines, ", ".join(f"{count} {what}" for what, count in total.items())])


def main(words: Sequence[str] | None = None) -> int:
    """Draw cells, or print the table; the exit code says whether all of it is well."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--draw", default="1/1", help="i/n: of every n-th command, from the i-th on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--long", action="store_true", help="of those that take minutes")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--results", type=Path, default=default_file(), help="what was tried is kept here")
    asked = parser.parse_args(words)
    if asked.table:
        sys.stdout.write(table(asked.results) + "\n")
        return 0
    part, parts = map(int, asked.draw.split("/"))
    command, points = draw(part, parts, asked.seed, asked.results, is_long=asked.long)
    wrong = [point for point in points if point.wrong]
    for point in wrong:
        key = point.key
        sys.stdout.write(f"{key.number} {key.request}, {key.mishap}: {'; '.join(point.wrong)}\n")
    told = f"{command}: {len(points)} cells, {len(wrong)} wrong (--draw {asked.draw} --seed {asked.seed})"
    sys.stdout.write(f"{told}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
