"""Runs a share of a scenario's points, and keeps what became of each.

python -m tests.faults.harness.runner made --shard 1/4
python -m tests.faults.harness.runner hosts --sample 1
python -m tests.faults.harness.runner made --only "19:killed after"
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.cli.host_watch import is_reading
from tests.faults.harness.commands import COMMANDS
from tests.faults.harness.explorer import WENT_ON, Explorer, Request
from tests.faults.harness.ground import Ground
from tests.faults.harness.mishaps import AGAIN, ALL, BREAKS, KILLS, SHELL_BREAKS, Mishap
from tests.faults.harness.phases import phase_of
from tests.faults.harness.program import Ended, ended, outputs, serve_commands, start
from tests.faults.harness.results import Key, Point, Results, default_file
from tests.faults.harness.scenarios import Words
from tests.faults.harness.wires import Place, ask, listening

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d:\d\d)?")


KINDS: dict[str, tuple[Mishap, ...]] = {"kills": KILLS, "breaks": BREAKS, "all": ALL, "again": AGAIN}


class Share:
    """One scenario's points, tried in a folder of its own."""

    def __init__(self, name: str, ground: Ground, kept: Results) -> None:
        self.name = name
        self.scenario = ground.scenario
        self.ground = ground
        self.kept = kept
        self.commands = ground.folder / "commands"

    def explore(self, choose: Callable[[list[str]], Sequence[Key]]) -> list[str]:
        """Try what is chosen of the requests of the run; return their names."""
        course, end = see_whole(self.ground)
        names = [name for name, _ in course]
        self._try((course, end), choose(names))
        return names

    def _try(self, whole: tuple[Sequence[Request], Any], points: Sequence[Key]) -> None:
        course, end = whole
        lab, folder = self.ground.lab.fork(), self.ground.copy("run")

        def judge(where: Path, place: Place, key: Key, status: int) -> None:
            found = self._judge(where, place, end, key, ended(status, where))
            self.kept.add(found)

        wanted: dict[int, list[Key]] = {}
        for point in points:
            wanted.setdefault(point.number, []).append(point)
        commands = listening(self.commands)
        explorer = Explorer(lab, wanted, judge, folder.with_suffix(".json"), course)
        pid = start(self.ground.command(self.scenario.run, folder, lab), explorer)
        done = ended(serve_commands(commands, [pid])[0], folder)
        if done.code != self.scenario.code:
            raise SystemExit(f"{self.name}: what was followed ended with {done.code}\n{done.out}{done.err}")
        lab.end()

    def _judge(self, folder: Path, place: Place, end: Any, key: Key, done: Ended) -> Point:
        """Mend what a mishap left, by the same command; return what happened and what is still wrong."""
        wrong: list[str] = []
        if key.mishap in KILLS:
            if done.code != -signal.SIGKILL:
                wrong.append(f"it was not killed: {done.code}")
        elif done.code == WENT_ON:
            return Point(key, 0, "", 0, "")
        elif not done.is_sound or done.code < 0:
            wrong.append(f"ended with {done.code}: {done.told[-500:]}")
        situation = _situation(folder, place)
        known = self.kept.mended(self.name, situation)
        if known is not None and done.code != self.scenario.code:
            return Point(key, done.code, _said(done), known.again, situation, (*wrong, *known.wrong))
        # A run that ends well may have told that something of it is left, which the next one takes away.
        is_left = done.code != self.scenario.code or self._differences(place, end) != []
        again = self._mend(folder, place, wrong) if is_left else 0
        if self.scenario.asks is not None:
            asked = self._ask(self.scenario.asks, folder, place)
            if asked.code:
                wrong.append(f"{' '.join(self.scenario.asks)}: {asked.code}: {asked.told[-500:]}")
        wrong += self._differences(place, end)
        return Point(key, done.code, _said(done), again, situation, tuple(wrong))

    def _differences(self, place: Place, end: Any) -> list[str]:
        left_out = () if self.scenario.are_places_told else ("places",)
        return differences(place, {part: end[part] for part in end if part not in left_out})

    def _mend(self, folder: Path, place: Place, wrong: list[str]) -> int:
        """Run the same command again; return that it took one more run."""
        again = self._ask(self.scenario.run, folder, place)
        if again.code != self.scenario.code:
            wrong.append(f"again: {again.code}: {again.told[-700:]}")
        return 1

    def _ask(self, words: Words, folder: Path, place: Place) -> Ended:
        """Run a command from within the process that is followed: another one forks for it."""
        for path in outputs(folder):
            path.unlink()
        answer = ask(str(self.commands), "run", **self.ground.command(words, folder, place).as_data())
        return Ended(**answer)


def see_whole(ground: Ground) -> tuple[list[Request], Any]:
    """Run without disturbance; return all requests, and what the lab shows at the end."""
    lab, folder = ground.lab.fork(), ground.copy("whole")
    explorer = Explorer(lab, {}, nothing, folder.with_suffix(".json"))
    ground.must(ground.scenario.run, folder, lab, explorer, ground.scenario.code)
    if ground.scenario.asks is not None:
        ground.must(ground.scenario.asks, folder, lab)
    end = lab.ask("look")
    lab.end()
    return explorer.told_requests(), end


def differences(place: Place, end: Any) -> list[str]:
    """Say what a lab shows otherwise than at an undisturbed end."""
    found = place.ask("look")
    return [f"{part}: {_difference(found[part], end[part])}" for part in end if found[part] != end[part]]


def _untried(key: Key) -> Point:
    return Point(key, 0, "", 0, "", ("it was not tried: the run took another way",))


def nothing(_folder: Path, _place: Place, _key: Key, _status: int) -> None:
    raise AssertionError("nothing was to be tried")


def _situation(folder: Path, place: Place) -> str:
    """Return a digest of what vCenter is like and of the run's files: what another run would begin with.

    Moments do not count, nor does the journal, which no run reads.
    """
    parts = [json.dumps(place.ask("begin"), sort_keys=True)]
    kept = (path for path in folder.rglob("*") if path.is_file())
    parts += [
        f"{path.relative_to(folder)} {path.read_text(encoding='utf-8', errors='replace')}"
        for path in sorted(kept)
        if path.parent.name not in ("journals", "locks")
    ]
    text = _MOMENT.sub("then", "\n".join(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _difference(found: Any, wanted: Any) -> str:
    """Say what is found and not wanted, and what is wanted and not found."""
    if isinstance(found, list) and isinstance(wanted, list):
        more = [each for each in found if each not in wanted]
        less = [each for each in wanted if each not in found]
        return f"{more}, not {less}"[:600]
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
        return "; ".join(f"{key}: {found.get(key)}, not {wanted.get(key)}" for key in keys)[:600]
    return f"{found}, not {wanted}"


def _said(done: Ended) -> str:
    """Return the first line of what a run says of its end."""
    lines = [line for line in done.err.splitlines() if line.startswith("ERROR")]
    return lines[-1][:200] if lines else ""


# ---------------------------------------------------------------- which points


def points_of(scenario: str, names: Sequence[str]) -> Iterator[Key]:
    """Yield all points of a run by its requests."""
    for number, name in enumerate(names, start=1):
        for mishap in ALL:
            if "$" not in name.partition(" ")[0] or mishap in (*KILLS, *SHELL_BREAKS):
                yield Key(scenario, number, name, mishap)


def cells_of(command: str, names: Sequence[str]) -> Iterator[Key]:
    """Yield all cells of a command: each mishap after which the same is typed again, at each request."""
    for number, name in enumerate(names, start=1):
        for mishap in AGAIN:
            if mishap != "task fault" or name.endswith("_Task"):
                yield Key(command, number, name, mishap)


def sampled(points: Sequence[Key], count: int) -> list[Key]:
    """Choose at most so many points of each mishap in each phase, evenly."""
    groups: dict[tuple[str, Mishap], list[Key]] = {}
    for point in points:
        groups.setdefault((phase_of(point.request), point.mishap), []).append(point)
    chosen = {
        group[(2 * turn + 1) * len(group) // (2 * count)]
        for group in groups.values()
        for turn in range(count)
    }
    return sorted(chosen, key=lambda point: point.number)


def some(points: Sequence[Key], count: int) -> list[Key]:
    """Choose so many points, evenly of the requests that write, with each mishap in its turn."""
    writes = [point for point in points if not is_reading(point.request)] or list(points)
    chosen = []
    for turn in range(count):
        among = [point for point in writes if point.mishap == ALL[turn % len(ALL)]]
        chosen.append(among[(turn * 2 + 1) * len(among) // (2 * count)])
    return sorted(chosen, key=lambda point: point.number)


def main(words: Sequence[str] | None = None) -> int:
    """Run a share; the exit code says whether every point of it is well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=COMMANDS)
    parser.add_argument("--shard", default="1/1", help="i/n: every n-th request, from the i-th on")
    parser.add_argument("--some", type=int, default=0, help="so many points")
    parser.add_argument("--sample", type=int, default=0, help="so many of each mishap in each phase")
    parser.add_argument("--mishaps", choices=KINDS, default="all")
    parser.add_argument("--only", default="", help="NUMBER:MISHAP, one point")
    parser.add_argument("--results", type=Path, default=default_file(), help="what was tried is kept here")
    asked = parser.parse_args(words)
    index, count = map(int, asked.shard.split("/"))
    kept = Results(asked.results)
    share: list[Key] = []

    def choose(names: list[str]) -> list[Key]:
        kinds = KINDS[asked.mishaps]
        points = cells_of if asked.mishaps == "again" else points_of
        every = [point for point in points(asked.scenario, names) if point.mishap in kinds]
        if asked.only:
            share.extend(point for point in every if f"{point.number}:{point.mishap}" == asked.only)
            return share
        if asked.some or asked.sample:
            every = some(every, asked.some) if asked.some else sampled(every, asked.sample)
        share.extend(point for point in every if asked.some or (point.number - index) % count == 0)
        return [point for point in share if not kept.has(point)]

    folder = Path(tempfile.mkdtemp(prefix="vf-"))
    try:
        with Ground(COMMANDS[asked.scenario], folder) as ground:
            names = Share(asked.scenario, ground, kept).explore(choose)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {point.key: point for point in kept.read()}
    wrong = [found.get(key, _untried(key)) for key in share if key not in found or found[key].wrong]
    told = [
        f"{point.key.number} {point.key.request}, {point.key.mishap}: {'; '.join(point.wrong)}"
        for point in wrong
    ]
    told.append(f"{asked.scenario}: {len(names)} requests, {len(share)} points here, {len(wrong)} wrong")
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
