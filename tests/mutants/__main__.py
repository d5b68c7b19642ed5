"""What is typed for `script/mutants`, and what it prints."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.mutants.mutants import Mutant, mutants_of, sample
from tests.mutants.runner import Result, Runner

EXAMPLE = "script/mutants vgpu_cfg/planning --sample 200 --seed 1 -- tests/plans"
FOR_PYTEST = ["-q", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist"]


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line: words of our own, and after `--` those for pytest."""
    parser = argparse.ArgumentParser("script/mutants", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("folder", type=Path, help="whose functions are changed, one at a time")
    parser.add_argument("--sample", type=int, default=200, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="another number tries others")
    parser.add_argument("--per-function", type=int, default=3, help="how many of one function at most")
    parser.add_argument("--killed", type=int, help="end when so many are killed")
    parser.add_argument("--write", type=Path, help="a file that gets the results too, as JSON lines")
    parser.add_argument("--only", type=Path, help="try those that such a file has as killed")
    words = sys.argv[1:]
    middle = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:middle]), words[middle + 1 :]


def killed_before(results: Path, files: list[Path]) -> list[Mutant]:
    """Find the mutants that an earlier run has killed, wherever their functions stand by now."""
    lines = results.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["killer"]]
    names = {row["place"][0].rpartition(".")[2] for row in rows}
    there = [path for path in files if any(name in path.read_text(encoding="utf-8") for name in names)]
    mutants: defaultdict[str, list[Mutant]] = defaultdict(list)
    for path in there:
        for mutant in mutants_of(path):
            mutants[f"{mutant.function}:{mutant.number}"].append(mutant)
    found = []
    for row in rows:
        function, number = row["place"]
        same = [mutant for mutant in mutants[f"{function}:{number}"] if mutant.edit == row["edit"]]
        found += same[:1]
        if not same:
            print(f"not there any more: {row['name']}")
    return found


@dataclass
class Teller:
    """Prints and counts results."""

    enough: int | None
    file: Path | None
    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, result: Result) -> bool:
        """Tell of a result; whether more are wanted."""
        mutant = result.mutant
        self.counts["killed" if result.killer else "survived"] += 1
        if result.killer:
            print(f"killed   {mutant.name} by {result.killer}", flush=True)
        else:
            print(f"SURVIVED {mutant.name}, {result.reached_by} tests reach it\n{mutant.diff}", flush=True)
        if self.file:
            row = {
                "name": mutant.name,
                "place": [mutant.function, mutant.number],
                "edit": mutant.edit,
                "diff": mutant.diff,
                "reached_by": result.reached_by,
                "killer": result.killer,
                "message": result.message,
            }
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        return self.counts["killed"] != self.enough


def main() -> int:
    asked, for_pytest = arguments()
    files = sorted(asked.folder.rglob("*.py"))
    for path in files:
        importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    if asked.only:
        chosen = killed_before(asked.only, files)
    else:
        mutants = [mutant for path in files for mutant in mutants_of(path)]
        chosen = sample(mutants, asked.seed, asked.per_function)[: asked.sample]
    print(f"{len(chosen)} mutants in {len(files)} files", flush=True)
    tell = Teller(asked.killed, asked.write)
    runner = Runner(asked.folder, chosen, tell)
    status = pytest.main([*FOR_PYTEST, *for_pytest], plugins=[runner])
    if runner.left_out:
        print(f"{len(runner.left_out)} left out: they change no function that is loaded")
    print(f"{tell.counts.total()} tried: {tell.counts['killed']} killed, {tell.counts['survived']} survived")
    return int(status) or min(tell.counts["survived"], 1)


if __name__ == "__main__":
    sys.exit(main())
