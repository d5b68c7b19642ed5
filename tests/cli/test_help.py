"""Help is one line of purpose, then examples that can be pasted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import typer.main
from typer.core import TyperGroup

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli.app import LISTED, app
from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.options.old_words import renewed

OF_RECORDINGS = {
    "plan",
    "runbook",
    "status",
    "inventory",
    "doctor",
    "upgrade",
    "fit",
    "hand-over",
    "export",
    "size",
    "privileges",
}
CONNECTED = {
    "size",
    "cordon",
    "drain",
    "uncordon",
    "unlock",
    "freeze",
    "trial",
    "hand-over",
    "privileges",
    "plan",
    "apply",
    "verify",
    "runbook",
    "status",
    "destroy",
    "inventory",
    "doctor",
    "upgrade",
    "fit",
    "import",
    "forget",
    "explain",
    "export",
    "history",
    "metrics",
}


def top() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def commands() -> dict[str, TyperGroup]:
    """Return every command by what is typed for it."""
    found = {}

    def collect(group: TyperGroup, words: tuple[str, ...]) -> None:
        for name, command in group.commands.items():
            if isinstance(command, TyperGroup):
                collect(command, (*words, name))
            else:
                found[" ".join((*words, name))] = command

    collect(top(), ())
    return found  # type: ignore[return-value]  # groups and commands share what is asked of them here


COMMANDS = commands()


def options_of(command: str) -> set[str]:
    return {spelled for parameter in COMMANDS[command].params for spelled in parameter.opts}


def shown_options(command: str) -> set[str]:
    """Return the options of a command itself; those of the connection are in the help of all commands."""
    options = [one for one in COMMANDS[command].params if one.param_type_name == "option"]
    return {max(one.opts, key=len) for one in options if not getattr(one, "hidden", False)}


def test_there_are_few_commands_and_few_options(vgpu_cfg: CommandLine) -> None:
    """At most 28 commands and 18 options of `plan`; the connection's are printed once."""
    assert len(LISTED) <= 28
    assert len(shown_options("plan")) <= 18
    connection = {one.opts[0] for one in COMMANDS["plan"].params if getattr(one, "hidden", False)}
    assert len(connection) == 12
    told = vgpu_cfg.done("--help", COLUMNS="120").out
    assert all(f"│ {option} " in told for option in connection)


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("usage", "inventory --hours=30d"),
        ("usage --by vm --since 90d --csv", "inventory --by vm --hours 90d --csv"),
        ("schema", "validate --schema=plan-file"),
        ("schema --of=plan-json", "validate --schema=plan-json"),
        ("record vc.json --server x", "inventory --record=vc.json --server x"),
        ("record --force --server x vc.json", "inventory --force --server x --record=vc.json"),
        ("support-bundle -o a.tgz gpu:x/* --scrub", "doctor -o a.tgz --bundle=gpu:x/* --scrub"),
        ("rebalance plan.yaml --dry-run --only a", "plan plan.yaml --only a"),
        ("plan --strict plan.yaml --prune", "plan --exit-code plan.yaml"),
        ("apply plan.yaml --reason=--prune", "apply plan.yaml --reason=--prune"),
        ("plan usage", "plan usage"),
    ],
)
def test_words_of_the_previous_release_still_work(words: str, now: str) -> None:
    assert shlex.join(renewed(words.split())).replace("'", "") == now


@pytest.mark.parametrize(
    "words",
    [
        "usage --server lab:two-a100",
        "schema",
        "record vc.json --server lab:bare",
        "rebalance plans/pair.yaml --dry-run",
    ],
)
def test_an_old_word_answers_with_the_new_one(words: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done(*words.split())
    command, *_ = words.split()
    assert ran.err.startswith(f"NOTE  `vgpu-cfg {command}` is now `vgpu-cfg ")
    (now,) = re.findall(r"is now `vgpu-cfg ([^`]+)`", ran.err)
    named, *options = now.split()
    assert {word.partition("=")[0] for word in options} <= options_of(named)
    assert "NOTE" not in vgpu_cfg(*words.split(), "--output=json").err


def test_these_are_the_commands() -> None:
    assert set(COMMANDS) == {
        "validate", "plan", "apply", "status", "destroy", "import", "forget", "runbook", "inventory",
        "profiles", "doctor", "explain", "fit", "hand-over", "verify",
        "history", "cordon", "drain", "uncordon", "unlock", "freeze", "export", "privileges", "size",
        "metrics", "trial", "upgrade",
        "lab list", "lab serve", "lab hand", "lab restart", "lab reset",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_purpose_in_one_line_and_every_option(command: str, vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done(*command.split(), "--help", COLUMNS="200")
    purpose = (COMMANDS[command].help or "").strip()
    assert re.fullmatch(r"[A-Z][^\n]+[.]", purpose)
    assert purpose in done.told
    shown = set(re.findall(r"^│ \*? *(--[\w-]+) ", done.out, re.MULTILINE))
    assert shown - {"--help"} == shown_options(command)
    assert not re.search(r"<bool>|list\[|range>|<str>", done.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_its_examples_can_be_pasted(command: str, vgpu_cfg: CommandLine) -> None:
    examples = (COMMANDS[command].epilog or "").split("\n\n")
    if command != "lab list":
        assert examples
    for example in examples:
        typed, hash_, purpose = example.partition("  # ")
        assert hash_, f"{example}: say what it is for"
        assert purpose
        program, *words = shlex.split(typed.partition(" > ")[0])
        assert program == "vgpu-cfg"
        told = " ".join(words)
        named = max((name for name in COMMANDS if told.startswith(name)), key=len)
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert used <= options_of(named), example
        for word in words:
            if word.startswith("examples/"):
                assert (vgpu_cfg.folder / word).exists(), example


def test_reading_commands_take_recordings_and_the_others_do_not() -> None:
    assert {name for name in COMMANDS if "--from" in options_of(name)} == OF_RECORDINGS
    assert set(typed.OF_RECORDINGS) == OF_RECORDINGS
    assert {name for name in COMMANDS if "--server" in options_of(name)} == CONNECTED


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_without_a_command_there_is_help(words: list[str], vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg(*words)
    assert "Usage: vgpu-cfg" in ran.told
    assert ran.code in (0, 2)


@pytest.mark.parametrize(
    "words",
    [
        ["plna"],
        ["plan"],
        ["plan", "a", "b"],
        ["plan", "--exit-cod", "a"],
        ["apply", "--parallel", "0", "a"],
        ["lab", "start"],
    ],
)
def test_a_mistyped_command_line_is_2_and_never_10(words: list[str], vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg(*words)
    assert ran.code == 2
    assert "Usage" in ran.err


def test_there_is_no_flag_for_a_password() -> None:
    assert not any("--password" in options_of(name) for name in COMMANDS)


def test_help_groups_the_commands(vgpu_cfg: CommandLine) -> None:
    printed = vgpu_cfg.done("--help", COLUMNS="120").out
    headings = ["Plan and run", "Look", "Check and explain", "Hand over", "Lab"]
    places = [printed.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert "─ Commands ─" not in printed, "a command without a heading"
    plan = printed[places[0] : places[1]]
    assert all(f"│ {name} " in plan for name in ("validate", "plan", "apply", "destroy"))


def test_help_says_the_usual_order_and_an_example_that_needs_no_file(vgpu_cfg: CommandLine) -> None:
    told = vgpu_cfg.done("--help", COLUMNS="120").told
    assert "doctor -> plan -> apply -> verify" in told
    (example,) = re.findall(r"Try it without a vCenter: vgpu-cfg (doctor --server [\w:-]+)", told)
    vgpu_cfg.done(*example.split())


def test_the_list_says_what_each_command_says_of_itself() -> None:
    told = {name: (command.help or "").strip() for name, command in top().commands.items()}
    assert {row.name: row.purpose for row in LISTED} == told


def test_help_loads_no_planning() -> None:
    """It is quick where commands load what they work with when they are run."""
    assert loaded_by("--help", *HEAVY, "vgpu_cfg.cli.commands", "pydantic", "rich.markdown") == []


def test_validate_loads_nothing_that_plans() -> None:
    """It reads a plan file with its own models and the catalog; nothing of a vCenter, a lab or a run."""
    heavy = [one for one in HEAVY if one != "vgpu_cfg.catalog"]
    assert loaded_by("validate examples/four-10c.yaml", *heavy) == []


def test_explain_loads_no_documents_and_nothing_of_an_estate() -> None:
    assert loaded_by("explain VG107", *HEAVY, "ruamel.yaml", "vgpu_cfg.model.observed", "urllib3") == []


def test_a_plan_on_a_recording_loads_no_way_to_a_vcenter_no_lab_and_no_json() -> None:
    recording = "tests/recorded/recordings/lab-old-api.json.gz"
    words = f"plan examples/four-10c.yaml --from {recording}"
    others = (
        "vgpu_cfg.lab",
        "vgpu_cfg.execution",
        "vgpu_cfg.render.data",
        "vgpu_cfg.cli.several",
        "urllib3",
        "paramiko",
        "asyncio",
        "jinja2",
    )
    assert loaded_by(words, *others) == []


def test_a_plan_that_fits_loads_no_solver_no_reasons_and_no_reading_that_it_does_not_ask_for() -> None:
    others = (
        "vgpu_cfg.planning.placement.solver",
        "vgpu_cfg.planning.placement.kinds",
        "vgpu_cfg.planning.hosts.choose",
        "vgpu_cfg.planning.remedies.refusals",
        "vgpu_cfg.planning.pool.gpus",
        "vgpu_cfg.planning.drift",
        "vgpu_cfg.vsphere.history.events",
        "vgpu_cfg.vsphere.host_facts.reader",
        "vgpu_cfg.vsphere.reading.gpu_use",
    )
    assert loaded_by("plan examples/four-10c.yaml", *others) == []


def test_a_plan_that_does_not_fit_loads_the_solver_and_the_reasons(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        Path("examples/four-10c.yaml").read_text(encoding="utf-8").replace("01..04", "01..05"), "utf-8"
    )
    others = ("vgpu_cfg.planning.placement.solver", "vgpu_cfg.planning.remedies.refusals")
    assert loaded_by(f"plan {plan}", *others, exit_code=4) == list(others)


def test_a_plan_on_the_lab_loads_nothing_of_what_its_guests_run() -> None:
    others = (
        "vgpu_cfg.lab.guest.shell",
        "vgpu_cfg.lab.guest.staging",
        "vgpu_cfg.lab.guest.tools",
        "vgpu_cfg.lab.nvidia.smi",
    )
    assert loaded_by("plan examples/four-10c.yaml", *others) == []


def test_a_command_ends_without_a_last_search_for_garbage() -> None:
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > len(gc.get_objects())))\n"
        "from vgpu_cfg.__main__ import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.endswith("True\n")


HEAVY = (
    "vgpu_cfg.planning.vms",
    "vgpu_cfg.changes.change",
    "vgpu_cfg.catalog",
    "vgpu_cfg.lab",
    "vgpu_cfg.execution",
    "vgpu_cfg.vsphere",
    "pyVmomi",
)


def loaded_by(words: str, *names: str, exit_code: int = 0) -> list[str]:
    """Run a command in a process of its own and return which of the modules it loaded."""
    code = (
        "import sys, atexit, vgpu_cfg.cli.app as app\n"
        f"names = {names}\n"
        "loaded = lambda: print(*(name for name in names if name in sys.modules), file=sys.stderr)\n"
        "atexit.register(loaded)\n"
        f"sys.argv = ['vgpu-cfg', *{words.split()}]\n"
        "app.main()"
    )
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "VGPU_CFG_STATE_FOLDER": folder},
        )
    assert done.returncode == exit_code, done.stderr
    return done.stderr.splitlines()[-1].split()
