"""Jobs for both versions: examples, files, transcripts, keys and cases of the tests, and random plans."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.cli import test_every_key as keys
from tests.cli.case_estate import NotInTheLab, estate_of
from tests.cli.transcript import commands_of
from tests.plans.planned import QUOTAS, inventory_of
from tests.plans.tables import CASES, case_of
from tests.properties.witness.plans import Case
from tests.properties.witness.stage import PLAN_ID
from tests.properties.witness.test_witness import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
PLAN, ESTATE = "plan.yaml", "estate.yaml"
FAULTS = "state/lab/estate/faults.yaml"
FORMS = (
    ("plan", "-v", PLAN, "--html", "plan.html", "--out", "plan.json"),
    ("plan", "--output", "json", PLAN),
    ("plan", "--output", "markdown", PLAN),
    ("runbook", PLAN),
)
"""A plan in each of its forms."""
FURTHER_FORMS = (
    ("validate", PLAN),
    ("plan", "--output", "junit", PLAN),
    ("privileges", "--for", "apply", PLAN),
    ("fit", "--plan", PLAN),
)
RUN = (
    ("apply", "--yes", PLAN),
    ("plan", "--exit-code", PLAN),
    ("destroy", "--yes", PLAN),
)
FURTHER_RUN = (
    *RUN[:-1],
    ("status", PLAN),
    ("status", "--output", "json", PLAN),
    ("verify", "--parallel", "1", PLAN),
    RUN[-1],
)
READY = (("examples", "examples"), ("tests/cli/plans", "plans"), ("tests/cli/estates", "estates"))
"""Folders of the project that each job of a file or transcript has copies of, as the tests of commands do."""
OPTIONS = {"allow_power_cycle": "--allow-power-cycle", "allow_move": "--allow-move"}
"""Options of a case of planning that are flags."""
NAMED_OPTIONS = {
    "only": "--only",
    "delete": "--delete",
    "rotate": "--rotate",
    "allow_destroy": "--allow-destroy",
}
"""Options of a case of planning that have values."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, the files that are written before it, and its own environment variables."""

    words: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """Files, by their paths in a new folder, and the commands that are run there one after the other.

    Of `folders` it has copies there: each is a path in the project, and its new name.
    """

    name: str
    files: dict[str, str]
    commands: tuple[Command, ...]
    folders: tuple[tuple[str, str], ...] = ()


def jobs(count: int, first: int) -> Iterator[Job]:
    """Yield all jobs of files, and `count` each of the cases of planning and of random plans."""
    yield from file_jobs()
    yield from transcript_jobs()
    yield from key_jobs()
    yield from case_jobs(count, first)
    yield from random_jobs(count, first)


# ------------------------------------------------------------------- files


def file_jobs() -> Iterator[Job]:
    """Yield a job for each plan file of examples and of the tests of commands."""
    for folder, name in READY[:2]:
        lines = (*FORMS, *FURTHER_FORMS, *FURTHER_RUN) if folder == name else (FORMS[0], *RUN)
        for path in sorted((ROOT / folder).glob("*.yaml")):
            typed = f"{name}/{path.name}"
            words = (tuple(typed if word == PLAN else word for word in line) for line in lines)
            yield Job(f"file {typed}", {}, tuple(map(Command, words)), READY)


def transcript_jobs() -> Iterator[Job]:
    """Yield a job for each transcript of the tests of commands."""
    for path in sorted((ROOT / "tests/cli/transcripts").glob("*.txt")):
        typed = commands_of(path.read_text(encoding="utf-8"))
        yield Job(f"transcript {path.stem}", {}, tuple(map(_typed, typed)), READY)


def _typed(line: str) -> Command:
    before, _, words = line.rpartition("vgpu-cfg ")
    environment = dict(word.split("=", 1) for word in shlex.split(before))
    return Command(tuple(shlex.split(words)), environment=environment)


def key_jobs() -> Iterator[Job]:
    """Yield a job for each case of the plan file's keys, but for what no estate file says of it."""
    for name, case in keys.cases().items():
        head = f"version: 1\nname: keys\nvcenter: {case.get('vcenter', f'lab:{ESTATE}')}\n"
        later = case.get("later", {})
        files = {
            **case.get("files", {}),
            ESTATE: case["estate"].replace("PUBLIC-KEY", " ".join(keys.OWN.public.split()[:2])),
            PLAN: head + case["plan"],
        }
        after = {PLAN: head + later.get("plan", "")}
        commands = [
            *(Command(words, environment=keys.SECRETS) for words in FORMS),
            *(Command(_words(line), {}, keys.SECRETS) for line in case.get("run", ["apply plan.yaml --yes"])),
            *(Command(_words(line), after, keys.SECRETS) for line in later.get("run", ())),
        ]
        yield Job(f"keys {name}", files, tuple(commands))


def _words(line: str) -> tuple[str, ...]:
    """Return the words of a line; verify asks one guest after the other."""
    words = tuple(line.split())
    return ("verify", "--parallel", "1", *words[1:]) if words[0] == "verify" else words


# ------------------------------------------------------- cases of planning


def case_jobs(count: int, first: int) -> Iterator[Job]:
    """Yield jobs of the cases of planning, drawn by a seed, each as an estate file and a plan file.

    A case that no estate file can describe is passed over. An estate file has no rules of DRS and no cordons,
    and a command no fingerprints: such a case becomes another one, the same for both versions.
    """
    drawn = random.Random(first).sample(list(CASES), len(CASES))
    for name in drawn:
        if count <= 0:
            return
        try:
            yield case_job(name)
        except NotInTheLab:
            continue
        count -= 1


def case_job(name: str) -> Job:
    """Return the job of a case of planning. Raises NotInTheLab."""
    case = case_of(name)
    words = [flag for key, flag in OPTIONS.items() if case.options.get(key)]
    for key, option in NAMED_OPTIONS.items():
        given = case.options.get(key, ())
        words += [f"{option}={one}" for one in (given if isinstance(given, list | tuple) else [given])]
    quotas = ["--quotas", QUOTAS] if QUOTAS in case.files else []
    files = {
        **case.files,
        ESTATE: json.dumps(estate_of(inventory_of(name))),
        PLAN: json.dumps({**json.loads(json.dumps(case.plan)), "vcenter": f"lab:{ESTATE}"}, indent=1),
    }
    forms = ((*form, *words, *(quotas if form[0] == "plan" else [])) for form in FORMS)
    return Job(f"case {name}", files, tuple(map(Command, forms)))


# ------------------------------------------------------------ random plans


def random_jobs(count: int, first: int) -> Iterator[Job]:
    """Yield jobs of random plans among other people's VMs, in turn of each family of the witness."""
    drawn = {name: _drawn(name, count // len(FAMILIES) + 1, first) for name in FAMILIES}
    in_turn = (
        (name, cases[number])
        for number in range(count)
        for name, cases in drawn.items()
        if number < len(cases)
    )
    for number, (name, case) in zip(range(count), in_turn, strict=False):
        yield _random_job(f"random {number} of seed {first}, {name}", case)


def _drawn(family: str, count: int, first: int) -> Sequence[Case]:
    found: list[Case] = []

    @seed(first)
    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(FAMILIES[family][0])
    def take(case: Case) -> None:
        found.append(case)

    take()
    return found[:count]


def _random_job(name: str, case: Case) -> Job:
    commands = []
    if case.before is not None:
        commands.append(Command(("apply", "--yes", "--allow=network", PLAN), {PLAN: _plan(case.before)}))
    faults = {FAULTS: json.dumps({"faults": [case.fault], "lacking": []})} if case.fault else {}
    for plan, words in case.commands:
        commands += [Command(form, {PLAN: _plan(plan)}) for form in FORMS]
        commands.append(Command(words, faults))
    commands.append(Command(("status", "--output", "json", PLAN)))
    return Job(name, {ESTATE: json.dumps(case.estate)}, tuple(commands))


def _plan(plan: dict[str, Any]) -> str:
    return json.dumps({"version": 1, "name": "own", "id": PLAN_ID} | plan, indent=1)
