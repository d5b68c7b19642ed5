"""Looks for secrets at every request of a run: in what vCenter keeps, in files, and in processes beside it.

python -m tests.faults.harness.searching guests
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.harness.explorer import Explorer
from tests.faults.harness.ground import Ground
from tests.faults.harness.mishaps import Mishap
from tests.faults.harness.runner import nothing
from tests.faults.harness.scenarios import EXPOSED, SCENARIOS

IN_VCENTER, IN_FILES, IN_WORDS, IN_CHILDREN, IN_OUTPUT = (
    "vCenter", "files", "process arguments", "processes that it starts", "output",
)  # fmt: skip
SEARCHED = {**SCENARIOS, "exposed": EXPOSED}
OWN_FILES = ("keys",)
"""Folders of the state folder that are there to keep secrets, readable by their user alone."""


@dataclass(slots=True)
class Searcher(Explorer):
    """Follows a run; `found` has, by place and secret, the requests before which it was seen there."""

    secrets: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)

    def install(self) -> None:
        """Look at the processes that are started, besides."""
        Explorer.install(self)
        sys.addaudithook(self._hear)

    def at(self, name: str) -> Mishap | None:
        """Look everywhere."""
        self.seen.append((name, 0))
        texts = {
            IN_VCENTER: self.place.ask("whole"),
            IN_FILES: "".join(_files(Path.cwd())),
            IN_WORDS: Path("/proc/self/cmdline").read_text(encoding="utf-8", errors="replace"),
        }
        for place, text in texts.items():
            self._search(place, text)
        return None

    def keep_requests(self) -> None:
        """Write down what was found instead."""
        self.told.write_text(json.dumps([len(self.seen), self.found]), encoding="utf-8")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            _, words, _, environment = arguments
            self._search(IN_CHILDREN, repr(words) + repr(dict(environment or os.environ)))

    def _search(self, place: str, text: str) -> None:
        for name, secret in self.secrets.items():
            if secret in text:
                at = f"{len(self.seen)} {self.seen[-1][0]}" if self.seen else "0"
                self.found.setdefault(f"{place}: {name}", []).append(at)


def _files(folder: Path) -> Iterator[str]:
    """Yield the texts of the files that a run has written."""
    for path in folder.rglob("*"):
        if path.is_file() and not set(OWN_FILES) & set(path.relative_to(folder).parts):
            yield path.read_text(encoding="utf-8", errors="replace")


def search(ground: Ground) -> tuple[int, dict[str, list[str]]]:
    """Run a scenario; return how many requests it had, and which secret was seen where and when."""
    lab, folder = ground.lab.fork(), ground.copy("searched")
    known = ground.scenario.environment
    planted = {name: value for name, value in known.items() if "SECRET" in value}
    searcher = Searcher(lab, {}, nothing, folder.with_suffix(".json"), secrets=planted)
    done = ground.must(ground.scenario.run, folder, lab, searcher)
    requests, found = json.loads(searcher.told.read_text(encoding="utf-8"))
    for name, value in planted.items():
        if value in done.out + done.err:
            found[f"{IN_OUTPUT}: {name}"] = ["the end"]
    lab.end()
    return requests, found


def main(words: Sequence[str] | None = None) -> int:
    """Search; the exit code says whether nothing was found."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("scenario", choices=SEARCHED)
    asked = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="vf-"))
    try:
        with Ground(SEARCHED[asked.scenario], folder) as ground:
            requests, found = search(ground)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = [f"{what}: at {len(at)} requests, from {at[0]} to {at[-1]}" for what, at in found.items()]
    sys.stdout.write("\n".join([*told, f"{asked.scenario}: searched at {requests} requests\n"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
