"""Commands in messages, completed so that they can be pasted: with the plan file and vCenter of this command.

Findings and errors are worded without them: `vgpu-cfg uncordon host:esx-01`.
"""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.suggestion import FixPart, Suggestion

PLAN_SUFFIXES = (".yaml", ".yml", ".json")
"""How names of plan files and saved plans end."""
_QUOTED = re.compile(r"`(vgpu-cfg [^`]+)`")
_OF_A_PLAN = ("plan", "apply", "destroy", "import", "forget", "verify", "runbook", "privileges", "hand-over")
_OF_A_SERVER = (
    "cordon", "drain", "uncordon", "unlock", "freeze", "inventory", "fit", "history", "doctor", "status",
    "export", "metrics", "trial", "upgrade",
)  # fmt: skip
OF_RECORDINGS = (
    "plan", "runbook", "status", "inventory", "doctor", "upgrade", "fit", "hand-over", "export", "size",
    "privileges",
)  # fmt: skip
"""Commands that have --from."""
_OF_A_VCENTER = {"--record", "--hours", "--bundle", "--evidence"}
"""Their options that need a vCenter."""
_OPTION = re.compile(r"--[a-z-]+(?:=\S+| \d+)?(?=[ ,;]|$)")
_ADDS = re.compile(rf"(?<!or )\badd:? ((?:{_OPTION.pattern} ?)+)")
"""The options of a remedy that an approval is enough for."""
_NAMES_A_SERVER = ("--server", "--context", "--from")


class _Said(threading.local):
    """The words of the running command that a next one must repeat; each thread has a plan of its own."""

    plan: str = ""
    file: str = ""
    """The plan file; of a reviewed plan the one that it was made from."""
    server: tuple[str, ...] = ()
    """The option that names the plan file's vCenter to a command without the plan file."""


_SAID = _Said()
_WORDS: list[str] = []
"""The command's own connection options."""
_RECORDING: list[str] = []
"""Its --from, if it works on a recording."""


def begin(words: Sequence[str], recording: Path | None) -> None:
    """Begin a command with these connection options, or on a recording."""
    _WORDS[:] = words
    _RECORDING[:] = [f"--from={recording}"] if recording is not None else []
    _SAID.plan, _SAID.file, _SAID.server = "", "", ()


def of_plan(path: Path, file: Path | None = None) -> None:
    """Note the plan file of the command, or its reviewed plan with the plan file."""
    _SAID.plan = str(path)
    _SAID.file = str(file) if file is not None else "PLAN" if path.suffix == ".json" else str(path)


def saved_again() -> str:
    """Return the command that saves the reviewed plan of this command again, empty if it has none."""
    return completed_command("vgpu-cfg plan PLAN") if _SAID.plan.endswith(".json") else ""


def at_server(*words: str) -> None:
    """Note the option that names the plan file's vCenter."""
    _SAID.server = words


def completed(text: str) -> str:
    """Return a message with its quoted commands completed."""
    return _QUOTED.sub(lambda match: f"`{completed_command(match[1])}`", text)


def completed_command(command: str) -> str:
    """Return a command of this program with its missing words; any other command unchanged."""
    try:
        program, verb, *rest = shlex.split(command)
    except ValueError:  # an empty one, or another's with quotes of its own
        return command
    if program != "vgpu-cfg" or any(word.partition("=")[0] in _NAMES_A_SERVER for word in rest):
        return command
    if verb in _OF_A_PLAN:
        names_a_plan = any(word.endswith(PLAN_SUFFIXES) or word == "PLAN" for word in rest)
        # A reviewed plan is for `apply` alone; it is made again from its plan file.
        is_again = _SAID.plan.endswith(".json") and verb != "apply"
        plan = _SAID.file if is_again else _SAID.plan
        if plan:
            if not names_a_plan:
                rest = ["PLAN", *rest]
            if is_again and verb == "plan" and "PLAN" in rest and "-o" not in rest:
                rest += ["-o", _SAID.plan]
            rest = [plan if word == "PLAN" else word for word in rest]
        more = (*_WORDS,)
    else:
        more = (*_SAID.server, *_WORDS) if verb in _OF_A_SERVER else ()
    if _RECORDING and verb in OF_RECORDINGS and not _OF_A_VCENTER.intersection(rest):
        more = (*_RECORDING,)
    words = [program, verb, *rest, *more]
    return command if words == shlex.split(command) else shlex.join(words)


def approved(plan: Plan) -> str:
    """Return this command line with the options that approve every error, empty if one needs more than that.

    Without an error and without a change they are those that approve a change.
    """
    found = [_ADDS.search(one.remedy) for one in plan.errors]
    if not plan.errors and not plan.changes:
        found = [one for one in (_ADDS.search(one.remedy) for one in plan.diagnostics) if one]
    if not found or not all(found):
        return ""
    options = dict.fromkeys(option for one in found if one for option in _OPTION.findall(one[1]))
    return " ".join([shlex.join(["vgpu-cfg", *sys.argv[1:]]), *options])


def in_earnest() -> str:
    """Return this command line without --dry-run, empty if it has none."""
    words = [word for word in sys.argv[1:] if word != "--dry-run"]
    return shlex.join(["vgpu-cfg", *words]) if len(words) < len(sys.argv) - 1 else ""


def with_fixes(found: Suggestion) -> Suggestion:
    """Return fixes with their commands completed."""

    def completed_part(part: FixPart) -> FixPart:
        then = tuple(completed_command(line) for line in part.then)
        return part.model_copy(update={"command": completed_command(part.command), "then": then})

    fixes = (
        fix.model_copy(update={"parts": tuple(completed_part(part) for part in fix.parts)})
        for fix in found.fixes
    )
    return found.model_copy(update={"fixes": tuple(fixes)})


def advised(plan: Plan) -> Plan:
    """Return a plan with the commands in its findings completed."""
    found = tuple(one.model_copy(update={"remedy": completed(one.remedy)}) for one in plan.diagnostics)
    return plan.model_copy(update={"diagnostics": found})
