"""How mutants are tried: tests are loaded once, and each mutant gets a process split off from there."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.mutants.living import Living, apart, living_functions, put_in, run
from tests.mutants.mutants import Mutant
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


@dataclass(eq=False)  # pytest keeps plugins in sets
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
            if not put_in(mutant.path, mutant.source, self.living):
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
