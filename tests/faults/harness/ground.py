"""Where a scenario is played: a lab of its own, a folder with the files of whoever runs it, settings."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Self

from tests.faults.harness.explorer import Explorer
from tests.faults.harness.lab_process import LabProcess
from tests.faults.harness.program import Command, Ended, run
from tests.faults.harness.scenarios import Scenario, Words
from tests.faults.harness.wires import Place, ask
from vgpu_cfg.lab.soap.server import make_certificate
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

FAILED = 6
"""The exit code of a run of which a change failed."""
_TRIES = 100
_TRY_SECONDS = 0.1


class Ground:
    """The lab of a scenario as it is before the run, in `lab`, and in `home` the folder that it begins in.

    A context: at its end the lab's process ends.
    """

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.folder = folder
        self.home = folder / "begin"
        self._certificate = make_certificate()
        self._environment = {
            "HOME": str(folder),
            "VGPU_CFG_STATE_FOLDER": "state",
            "VGPU_CFG_CONFIG": "config.yaml",
            "VGPU_CFG_USER": LAB_USER,
            "VGPU_CFG_PASSWORD": LAB_PASSWORD,
            "VGPU_CFG_THUMBPRINT": self._certificate.thumbprint,
            "VGPU_CFG_IN_FLIGHT": "1",  # a process can be split only where its first thread sends the request
            "COLUMNS": "110",
            "TERM": "dumb",
            **scenario.environment,
        }

    def __enter__(self) -> Self:
        self.lab = self._start_lab()
        self.home.mkdir()
        for file, text in self.scenario.files.items():
            (self.home / file).write_text(text, encoding="utf-8")
        for words in self.scenario.before:
            self.must(words, self.home, self.lab)
        for fault in self.scenario.faults:
            self.lab.ask("script", **fault)
        if self.scenario.fails:
            self.must(self.scenario.fails, self.home, self.lab, code=FAILED)
        if self.scenario.dead_run:
            self.lab.ask("lock", run=self.scenario.dead_run)
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.end()

    def copy(self, name: str) -> Path:
        """Return a copy of the folder as it was at the beginning."""
        return Path(shutil.copytree(self.home, self.folder / name))

    def command(self, words: Words, folder: Path, place: Place) -> Command:
        """Return how words are run in a folder against a lab."""
        return Command(words, str(folder), place.as_data(), self._environment)

    def must(
        self, words: Words, folder: Path, place: Place, explorer: Explorer | None = None, code: int = 0
    ) -> Ended:
        """Run what must end with an exit code."""
        done = run(self.command(words, folder, place), explorer)
        if done.code != code:
            raise SystemExit(f"{' '.join(words)}, undisturbed: {done.code}\n{done.out}{done.err}")
        return done

    def _estate(self) -> str:
        """Return the name of the estate, or the file with its text."""
        text = self.scenario.estate
        if "\n" not in text:
            return text
        file = self.folder / "estate.yaml"
        file.write_text(text, encoding="utf-8")
        return str(file)

    def _start_lab(self) -> Place:
        if os.fork() == 0:
            try:
                LabProcess(self._estate(), self.folder, self._certificate).begin()
            finally:
                os._exit(1)
        for _ in range(_TRIES):
            try:
                return Place(**ask(str(self.folder / "control"), "place"))
            except OSError:
                threading.Event().wait(_TRY_SECONDS)
        raise SystemExit("the lab's process does not answer")
