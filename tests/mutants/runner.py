"""How mutants are tried: tests are loaded once, and each mutant gets a process split off from there."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.mutants.mutants import Living, Mutant, living_functions, put_in
from tests.mutants.reach import Watch

SLOWER = 10
"""So many times what a test takes it may take with a mutant, and two seconds: then the mutant is killed."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant: how many tests reach it, and which one failed, and how, where one did."""

    mutant: Mutant
    reached_by: int
    killer: str | None = None
    message: str = ""


@dataclass
class Runner:
    """A plugin of pytest that runs the tests on one mutant after the other, until `tell` has heard enough."""

    folder: Path
    mutants: Sequence[Mutant]
    tell: Callable[[Result], bool]
    living: Living = field(default_factory=dict)
    left_out: list[Mutant] = field(default_factory=list)
    failed: list[pytest.TestReport] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.living = living_functions(self.folder.resolve())
        if not self.living:
            pytest.exit(f"no function of {self.folder} is loaded", returncode=3)
        first = apart(partial(self.watch, session.items))
        if "killer" in first:
            pytest.exit(f"without any mutant {first['killer']} fails: {first['message']}", returncode=3)
        for mutant in self.mutants:
            lines = first["reach"].get(str(mutant.path.resolve()), {})
            reaching = sorted({index for line in mutant.lines for index in lines.get(str(line), ())})
            items = [session.items[index] for index in reaching]
            seconds = [first["seconds"][index] for index in reaching]
            answer = apart(partial(self.try_mutant, mutant, items, seconds)) if items else {}
            if answer is None:
                self.left_out.append(mutant)
            elif not self.tell(Result(mutant, len(items), **answer)):
                break
        return True

    def watch(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """Run all tests once, and note the lines that each one reaches, and its seconds."""
        with TemporaryDirectory() as folder:
            watch = Watch(self.folder, Path(folder, "data"))
            with watch.running():
                for index in range(len(items)):
                    with watch.part(str(index)):
                        run(items, index)
            return {**watch.found(len(items)), **self.failure()}

    def try_mutant(
        self, mutant: Mutant, items: Sequence[pytest.Item], seconds: Sequence[float]
    ) -> dict[str, Any] | None:
        """Put the mutant in and run tests until one fails; None where no living function can have it."""
        try:
            if not put_in(mutant, self.living):
                return None
        except ValueError:  # other variables of the function around it
            return None
        for index, usual in enumerate(seconds):
            signal.setitimer(signal.ITIMER_VIRTUAL, SLOWER * usual + 2)
            run(items, index)
            if self.failed:
                break
        return self.failure()

    def failure(self) -> dict[str, Any]:
        return (
            {"killer": self.failed[0].nodeid, "message": self.failed[0].longreprtext} if self.failed else {}
        )


def run(items: Sequence[pytest.Item], index: int) -> None:
    following = items[index + 1] if index + 1 < len(items) else None
    items[index].ihook.pytest_runtest_protocol(item=items[index], nextitem=following)


def apart(work: Callable[[], dict[str, Any] | None]) -> Any:
    """Do some work in a process of its own, and return what it found; a process that dies is a failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            with os.fdopen(writing, "w", encoding="utf-8") as out:
                try:
                    found = work()
                except BaseException:  # noqa: BLE001 - a mutant may end pytest itself
                    found = {"killer": "an exception", "message": traceback.format_exc()}
                out.write(json.dumps(found))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        answer = told.read()
    _, status = os.waitpid(child, 0)
    return json.loads(answer) if answer else {"killer": "its process ended", "message": f"status {status}"}
