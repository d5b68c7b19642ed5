"""Runs two machines against one lab: the second begins at some request of the first, and both go on together.

python -m tests.faults.harness.races "one host" --orders 20
python -m tests.faults.harness.races "one plan" --only 3
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.harness.explorer import Explorer
from tests.faults.harness.ground import Ground
from tests.faults.harness.mishaps import Mishap
from tests.faults.harness.program import Ended, ended, outputs, run, serve_commands, start
from tests.faults.harness.results import Key, Point, Results, default_file
from tests.faults.harness.runner import differences, nothing
from tests.faults.harness.scenarios import RACES, Race, Words
from tests.faults.harness.wires import Place, ask, listening

ORDERS = 20
APART_SECONDS = 10.0
"""By vCenter's clock. Reading takes no time there, so orders are counted by the requests of that time."""


@dataclass(slots=True)
class Starter(Explorer):
    """A run that lets the other machine begin at one of its requests."""

    number: int = 0
    commands: str = ""

    def at(self, name: str) -> Mishap | None:
        """Count a request."""
        self.seen.append((name, int(self.place.ask("now"))))
        if len(self.seen) == self.number:
            ask(self.commands, "go")
        return None


class Track:
    """Two machines of one race, each with a folder and a state folder of its own."""

    def __init__(self, name: str, ground: Ground, kept: Results) -> None:
        self.name = name
        self.race: Race = RACES[name]
        self.ground = ground
        self.kept = kept
        self.end: Any = None

    def see_end(self) -> list[str]:
        """Run one machine after the other; return the requests of the first within the time that counts."""
        lab = self.ground.lab.fork()
        folders = self._folders("whole")
        begun = lab.ask("now")
        told = folders[0].with_suffix(".json")
        starter = Starter(lab, {}, nothing, told)
        self.ground.must(self.race.typed[0], folders[0], lab, starter)
        self.ground.must(self.race.typed[1], folders[1], lab)
        self.end = lab.ask("look")
        lab.end()
        return [name for name, moment in starter.told_requests() if moment <= begun + APART_SECONDS]

    def run(self, key: Key) -> None:
        """Let both run, the second from a request of the first on; then again what did not end well."""
        lab = self.ground.lab.fork()
        folders = self._folders(f"order-{key.number}")

        def go() -> int:
            return start(self.ground.command(self.race.typed[1], folders[1], lab))

        path = folders[0].with_suffix(".socket")
        with listening(path) as commands:
            starter = Starter(lab, {}, nothing, folders[0].with_suffix(".json"), number=key.number)
            starter.commands = str(path)
            first = start(self.ground.command(self.race.typed[0], folders[0], lab), starter)
            statuses = serve_commands(commands, [first], go)
        done = [ended(status, folder) for status, folder in zip(statuses, folders, strict=True)]
        self.kept.add(self._judged(key, folders, lab, done))
        lab.end()

    def _judged(self, key: Key, folders: Sequence[Path], lab: Place, done: Sequence[Ended]) -> Point:
        wrong: list[str] = []
        again = 0
        for which, (folder, words) in enumerate(zip(folders, self.race.typed, strict=True)):
            if not done[which].is_sound or done[which].code < 0:
                wrong.append(f"machine {which + 1}: {done[which].code}: {done[which].told[-500:]}")
            if done[which].code:
                lab.ask("rest")  # the other machine may have told the host to restart
                once_more = self._run(words, folder, lab)
                again += 1
                if once_more.code:
                    wrong.append(f"machine {which + 1} again: {once_more.code}: {once_more.told[-700:]}")
        for which, (folder, words) in enumerate(zip(folders, self.race.typed, strict=True)):
            asked = self._run(("plan", words[-1], "--exit-code"), folder, lab)
            if asked.code:
                wrong.append(f"machine {which + 1} plan: {asked.code}: {asked.told[-500:]}")
        wrong += differences(lab, self.end)
        said = " and ".join(str(each.code) for each in done)
        return Point(key, max(each.code for each in done), said, again, "", tuple(wrong))

    def _folders(self, name: str) -> tuple[Path, Path]:
        return self.ground.copy(f"{name}-first"), self.ground.copy(f"{name}-second")

    def _run(self, words: Words, folder: Path, lab: Place) -> Ended:
        for path in outputs(folder):
            path.unlink(missing_ok=True)
        return run(self.ground.command(words, folder, lab))


def main(words: Sequence[str] | None = None) -> int:
    """Run a race's orders; the exit code says whether every one is well."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("race", choices=RACES)
    parser.add_argument("--orders", type=int, default=ORDERS, help="so many, evenly chosen of the requests")
    parser.add_argument("--only", type=int, default=0, help="the number of the request, for one order")
    parser.add_argument("--results", type=Path, default=default_file(), help="what was tried is kept here")
    asked = parser.parse_args(words)
    kept = Results(asked.results)
    folder = Path(tempfile.mkdtemp(prefix="vf-"))
    try:
        with Ground(RACES[asked.race].scenario, folder) as ground:
            track = Track(asked.race, ground, kept)
            names = track.see_end()
            numbers = [asked.only] if asked.only else _spread(len(names), asked.orders)
            keys = [Key(asked.race, number, names[number - 1], "another run") for number in numbers]
            for key in keys:
                if not kept.has(key):
                    track.run(key)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {point.key: point for point in kept.read()}
    wrong = [found[key] for key in keys if found[key].wrong]
    told = [f"{point.key.number} {point.key.request}: {'; '.join(point.wrong)}" for point in wrong]
    told.append(f"{asked.race}: {len(keys)} orders, {len(wrong)} wrong")
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if wrong else 0


def _spread(length: int, count: int) -> list[int]:
    """Return so many numbers from 1 to a length, evenly."""
    return sorted({1 + turn * (length - 1) // max(1, count - 1) for turn in range(count)})


if __name__ == "__main__":
    sys.exit(main())
