"""What commands do where a belief is false, judged against the same commands on an honest lab.

A cell of the table is one word. `right`: as on the honest lab, and what the lab holds is what the plan says.
`stops N`: it ends with exit code N and an error. `later`: it ends so, and the same command again brings what
the plan says. `less`: its answer lacks something, which it says or which its page names. Anything else is
harm, and fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.lies.stage import ESTATE, PLAN, SERVER, Facts, Stage, facts_of, is_left
from vgpu_cfg.lab import esxcli
from vgpu_cfg.lab.state.inventory import LabState

EDITED = (("memory: 4GiB", "memory: 6GiB"), ("ml-2026", "ml-2027"), ("power: false", "power: true"))
JUDGEMENTS = (0, 8, 10)
"""Exit codes of `status` and `verify` that say how things are."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command with what the lab held after it."""

    ran: Ran
    facts: Facts
    left: tuple[str, ...]


Played = Mapping[str, Step]


def play(stage: Stage) -> Played:
    """Type the commands of a plan's life, and note after each what the lab holds."""
    played: dict[str, Step] = {}

    def step(name: str, *words: str) -> None:
        ran = stage.type(name, *words)
        state = stage.look()
        played[name] = Step(ran, facts_of(state), tuple(is_left(state)))

    step("doctor", "doctor", "--server", SERVER, "--output", "json")
    assert not any(stage.look().tasks), "doctor writes"
    stage.vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 2, "kind": "task"})
    step("rollback", "apply", "--yes", "--rollback-on-failure", PLAN)
    stage.vgpu_cfg.script(ESTATE)
    step("plan", "plan", PLAN)
    step("apply", "apply", "--yes", PLAN)
    step("again", "apply", "--yes", PLAN)
    step("status", "status", "--exit-code", PLAN)
    step("verify", "verify", PLAN)
    if "train-01" in played["again"].left:
        stage.attach_foreign_disk()
    stage.edit(*EDITED)
    step("edit", "apply", "--yes", PLAN)
    step("edit again", "apply", "--yes", PLAN)
    step("destroy", "destroy", "--yes", PLAN)
    return played


def cells(played: Played, honest: Played, stage: Stage, belief: str) -> dict[str, str]:
    """Return the row of a lie: a word for each command. Raises AssertionError where it does harm."""
    stage.see_no_harm()
    for name, step in played.items():
        see_clean(name, step.ran)
    found = {"doctor": "finds it" if stage.verdict(belief) == "does not hold" else stage.verdict(belief)}
    assert found["doctor"] != "holds", "doctor says that a false belief holds"
    found["plan"] = same(played["plan"], honest["plan"])
    found["apply"] = made(played, honest, "apply", "again")
    found["status"] = truthful("status", played, honest)
    found["verify"] = truthful("verify", played, honest)
    found["edit"] = made(played, honest, "edit", "edit again")
    found["rollback"] = undone(played["rollback"])
    found["destroy"] = gone(played["destroy"], honest["destroy"])
    return found


def see_clean(name: str, ran: Ran) -> None:
    """See that a command ended as commands do: with its answer, or with an error of three lines."""
    assert ran.code != 1, f"{name}: {ran.err}"
    assert "Traceback" not in ran.err, f"{name}: {ran.err}"
    is_told = re.search(r'ERROR|"kind": "error"|FAILED (step|\s*\d+ steps:)| failed: ', ran.told) is not None
    assert ran.code in (0, 7, 8, 10) or is_told, f"{name}: {ran.told}"


def same(step: Step, honest: Step) -> str:
    return "right" if step.ran.code == honest.ran.code else f"stops {step.ran.code}"


def made(played: Played, honest: Played, first: str, again: str) -> str:
    """Judge a command that changes something, and its repetition."""
    bound = [_is_same(name, played, honest) for name in (first, again)]
    if played[again].ran.code:
        return f"stops {played[again].ran.code}"
    if played[first].ran.code:
        return "later"
    assert "in sync" in played[again].ran.told, f"{again}: {played[again].ran.told}"
    return "right" if all(bound) else "unbound"


def _is_same(name: str, played: Played, honest: Played) -> bool:
    """See that a command that ends well brings what the plan asks for; False if NUMA affinity is missing."""
    step = played[name]
    if step.ran.code or step.facts == honest[name].facts:
        return True
    unbound = {vm for vm, its in step.facts["vms"].items() if its.get("is_bound") is False}
    for vm in unbound:
        step.facts["vms"][vm]["is_bound"] = True
    assert step.facts == honest[name].facts, f"{name}: exit 0, but {step.facts}"
    assert "status" not in played or "-, GPU" in played["status"].ran.told, "status does not show it"
    return False


def truthful(name: str, played: Played, honest: Played) -> str:
    """Judge a command that says how things are: it is satisfied only if they are as the plan says."""
    step = played[name]
    _is_same(name, played, honest)
    return "right" if step.ran.code in JUDGEMENTS else f"stops {step.ran.code}"


def undone(step: Step) -> str:
    """Judge a run that failed and took itself back: what is left is named."""
    assert step.ran.code, "a failed run ends well"
    for name in step.left:
        assert f"{name}:" in step.ran.told.partition("ROLLBACK")[2], f"{name} is left, and not named"
    return "right" if step.ran.code == 6 and not step.left else f"stops {step.ran.code}"


def gone(step: Step, honest: Step) -> str:
    if step.ran.code:
        return f"stops {step.ran.code}"
    assert not step.left, f"destroy: exit 0, but {step.left}"
    assert step.facts["rules"] == honest.facts["rules"]
    return "right"


def _ask(_state: LabState | None, belief: str) -> bool:
    ASKED.add(belief)
    return False


@cache
def honest_run() -> Played:
    """Return the commands as an honest lab answers them, once for a process."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        patch.setattr(LabState, "denies", _ask)
        patch.setattr(esxcli, "refusal_of", lambda _state, _way, command, _of: _ask(None, command) or None)
        return play(Stage.build(CommandLine(Path(folder), patch)))


ASKED: set[str] = set()
"""The beliefs that the lab asked about in the honest run, and the esxcli commands that hosts carried out."""
