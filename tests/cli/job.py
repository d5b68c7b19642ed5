"""An admin's job as data: what is typed and edited, one line after the other, and how each ends.

    about: what the admin wants
    files: {estate.yaml: {…}, plan.yaml: {…}}     # mappings, or text
    steps:
    - run: plan plan.yaml                         # a command line after `vgpu-cfg`
      from: screen                                # `screen`: the command before printed it
      exit: 4
      says: [words of standard output and error, line breaks folded]
      never: [words that must not be there]
      json: {vms.0.host: esx-01.lab}              # standard output, read as JSON
      writes: [page.html]
    - run: drain esx-01.lab --reason DIMM
      from: drain HOST --reason                   # printed so, with words to fill in
      answer: y                                   # typed at the question, on a terminal
    - edit: {plan.yaml: {before: after}}
      from: screen                                # the command before printed what comes in
    - by_hand: a function of tests/cli/job_hands.py, with its arguments

A step without `from` is the admin's own idea.
`python -m tests.cli.job FILE` plays a job and prints each screen.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML

from tests.cli.command_line import CommandLine, Ran
from tests.cli.job_hands import HANDS
from vgpu_cfg.documents import dump

FOLDER = Path(__file__).with_name("jobs")
SCREEN = "screen"


class Step(BaseModel):
    """A command, an edit, or a change by other people, with its expected result."""

    model_config = ConfigDict(extra="forbid")
    run: str = ""
    edit: dict[str, dict[str, str]] = {}
    write: dict[str, Any] = {}
    by_hand: list[str] = []
    source: str = Field("", alias="from")
    answer: str = ""
    exit: int = 0
    says: list[str] = []
    never: list[str] = []
    json_values: dict[str, Any] = Field({}, alias="json")
    writes: list[str] = []


class Job(BaseModel):
    """A job from the first look to the last."""

    model_config = ConfigDict(extra="forbid")
    about: str
    files: dict[str, Any] = {}
    steps: list[Step]


class _Terminal(io.TextIOWrapper):
    """Standard input of a person who has typed ahead."""

    def __init__(self, typed: str) -> None:
        reads, writes = os.pipe()
        os.write(writes, typed.encode())
        os.close(writes)
        super().__init__(os.fdopen(reads, "rb"))

    def isatty(self) -> bool:
        return True


@dataclass
class Played:
    """A job while it is played: the last screen, and what is not as its file says."""

    run: CommandLine
    screen: str = ""
    wrong: list[str] = field(default_factory=list)
    screens: list[str] = field(default_factory=list)

    def job(self, job: Job) -> Played:
        for name, content in job.files.items():
            self._write(name, content)
        for step in job.steps:
            self._step(step)
        return self

    def _write(self, name: str, content: Any) -> None:
        text = content if isinstance(content, str) else dump(content)
        self.run.write(name, text)

    def _step(self, step: Step) -> None:
        for name, content in step.write.items():
            self._write(name, content)
        for name, replaced in step.edit.items():
            self._edit(name, replaced, from_screen=step.source == SCREEN)
        if step.by_hand:
            HANDS[step.by_hand[0]](self.run, *step.by_hand[1:])
        if step.run:
            self._typed(step)

    def _edit(self, name: str, replaced: dict[str, str], *, from_screen: bool) -> None:
        text = (self.run.folder / name).read_text(encoding="utf-8")
        for before, after in replaced.items():
            if text.count(before) != 1:
                self.wrong.append(f"{name} has {before!r} {text.count(before)} times:\n{text}")
            if from_screen and _folded(after) not in self.screen:
                self.wrong.append(f"the screen before does not print {after!r}:\n{self.screens[-1]}")
            text = text.replace(before, after)
        self._write(name, text)

    def _typed(self, step: Step) -> None:
        if step.source:
            printed = step.run if step.source == SCREEN else step.source
            whole = (
                rf"vgpu-cfg {re.escape(_folded(printed))}(?![^\s`]| -)"
                if step.source == SCREEN
                else re.escape(printed)
            )
            if not re.search(whole, self.screen):
                self.wrong.append(
                    f"the screen before does not print `vgpu-cfg {printed}`:\n{self.screens[-1]}"
                )
        with _Terminal(f"{step.answer}\n") if step.answer else io.StringIO() as stdin:
            ran = self.run(*shlex.split(step.run), stdin=stdin)
        screen = f"$ vgpu-cfg {step.run}\n{ran.out}{ran.err}exit {ran.code}\n"
        self.screens.append(screen)
        self.screen = _folded(ran.out + ran.err)
        self.wrong += [f"{one}\n{screen}" for one in self._differences(step, ran)]

    def _differences(self, step: Step, ran: Ran) -> list[str]:
        found = [f"says: {text}" for text in step.says if _folded(text) not in self.screen]
        found += [f"never: {text}" for text in step.never if _folded(text) in self.screen]
        found += [f"writes: {name}" for name in step.writes if not (self.run.folder / name).exists()]
        if ran.code != step.exit:
            found.append(f"exit {step.exit} is expected")
        for path, value in step.json_values.items():
            if (is_now := _at(json.loads(ran.out), path)) != value:
                found.append(f"json {path}: {is_now!r}")
        return found


def _folded(text: str) -> str:
    return " ".join(text.split())


def _at(document: Any, path: str) -> Any:
    """Return the value at a path such as `vms.0.host`, None if there is none."""
    for part in path.split("."):
        try:
            document = document[int(part) if isinstance(document, list) else part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return document


@cache
def jobs() -> dict[str, Job]:
    """Return every job by the name of its file."""
    return {path.stem: job_of(path) for path in sorted(FOLDER.glob("*.yaml"))}


def job_of(path: Path) -> Job:
    """Read a job's file."""
    return Job.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))


def main() -> None:
    """Play the jobs in the files that the command line names, and print every screen."""
    for job in [job_of(Path(name)) for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
            patched.setenv("COLUMNS", "110")
            played = Played(CommandLine(Path(folder), patched)).job(job)
            sys.stdout.write("\n".join(played.screens))
            sys.stdout.write("".join(f"\n=== WRONG {one.splitlines()[0]}\n" for one in played.wrong))
            os.chdir("/")


if __name__ == "__main__":
    main()
