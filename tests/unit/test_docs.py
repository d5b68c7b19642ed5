"""The pages about commands, settings and plans say what the program does: no more, no less."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from tests.architecture.sources import ROOT, modules, named, project_files
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.app import app
from vgpu_cfg.documents import build, parse_text
from vgpu_cfg.errors import DocumentError, VgpuCfgError, worst_exit_code
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.faults import FaultScript
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.settings.connection import ConfigFile, Context, Environment
from vgpu_cfg.settings.quotas import read_quotas
from vgpu_cfg.settings.variables import LabSettings

REFERENCE = ROOT / "docs" / "reference"
PAGES = [path for path in project_files() if path.suffix == ".md" and path.parent != ROOT / "profiles"]
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
FIRST_CELL = re.compile(r"^\| ([^|]*) \|", re.MULTILINE)
OPTION = re.compile(r"`(-[\w-]+)`")
INCLUDED = re.compile(r"\]\(#([a-z]+)\)")
VARIABLE = re.compile(r"VGPU_CFG_[A-Z_]*[A-Z]")
CODE = re.compile(r"\bVG\d{3}\b")


class Block(NamedTuple):
    """A fenced block of a page; `info` is what stands behind the fence."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{named(self.page)}:{self.line}"


def blocks(pages: list[Path]) -> list[Block]:
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            indent, info, body = match.groups()
            lines = [line.removeprefix(indent) for line in body.splitlines()]
            found.append(Block(page, text.count("\n", 0, match.start()) + 1, info, "\n".join(lines) + "\n"))
    return found


BLOCKS = blocks(PAGES)


def blocks_with(key: str) -> list[Block]:
    """List the YAML blocks that have a key at the top."""
    top = re.compile(rf"^{key}:", re.MULTILINE)
    return [block for block in BLOCKS if block.info.startswith("yaml") and top.search(block.text)]


SHARES = [block for key in ("owners", "licences", "spare") for block in blocks_with(key)]
PLANS = [block for block in blocks_with("version") if block not in SHARES]


def commands(parent: Any, path: str = "vgpu-cfg") -> Iterator[tuple[str, Any]]:
    """Walk the command line as Typer builds it; groups but the first have no options of their own."""
    for name, command in parent.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def options_of(command: Any) -> set[str]:
    named_there = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return {name for name in named_there if name.startswith("-")} - {"-h", "--help"}


ROOT_COMMAND: Any = get_command(app)
COMMANDS = dict(commands(ROOT_COMMAND))


def sections(page: Path) -> dict[str, str]:
    pieces = SECTION.split(page.read_text(encoding="utf-8"))
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def documented_options() -> dict[str, set[str]]:
    """Read what the page says of each command, the shared tables that it links to included."""
    page = sections(REFERENCE / "commands.md")
    shared = {title.lower(): text for title, text in page.items() if not title.startswith("vgpu-cfg")}
    found = {}
    for title, text in page.items():
        if title.startswith("vgpu-cfg"):
            tables = text + "".join(shared[name] for name in INCLUDED.findall(text))
            found[title] = {name for cell in FIRST_CELL.findall(tables) for name in OPTION.findall(cell)}
    return found


def test_the_page_has_every_command_and_no_other() -> None:
    assert set(documented_options()) - {"vgpu-cfg"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_option_and_no_other(name: str) -> None:
    assert documented_options()[name] == options_of(COMMANDS[name])


def test_the_page_has_the_options_of_the_program_itself() -> None:
    assert documented_options()["vgpu-cfg"] == options_of(ROOT_COMMAND) | {"-h", "--help"}


def test_the_table_of_commands_leads_to_each() -> None:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r"\(#(vgpu-cfg-[a-z-]+)\)", text))
    assert anchors == {name.replace(" ", "-") for name in COMMANDS}


def typed_lines() -> Iterator[tuple[str, list[str]]]:
    """List every `vgpu-cfg …` that a page tells to type."""
    for block in BLOCKS:
        for line in block.text.replace("\\\n", "").splitlines():
            typed = re.match(r"(?:\$ )?(?:VGPU_CFG_\w+=\S+ )*vgpu-cfg ([a-z][^>|#]*)", line)
            if typed and block.info in ("sh", "console"):
                yield str(block), shlex.split(typed.group(1))


def test_what_the_pages_tell_to_type_can_be_typed() -> None:
    wrong = []
    for where, words in typed_lines():
        name = next((f"vgpu-cfg {' '.join(words[:n])}" for n in (2, 1) if known(words, n)), None)
        used = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        if name is None or used - options_of(COMMANDS[name]) - {"-h", "--help"}:
            wrong.append(f"{where}: {' '.join(words)}")
    assert wrong == []


def known(words: list[str], count: int) -> bool:
    return f"vgpu-cfg {' '.join(words[:count])}" in COMMANDS


def variables_of_the_program() -> set[str]:
    declared = {f"VGPU_CFG_{name.upper()}" for name in Environment.model_fields}
    declared |= {f"VGPU_CFG_LAB_{name.upper()}" for name in LabSettings.model_fields}
    spelt = {name for path in modules() for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    return declared | (spelt - {"VGPU_CFG_LAB"})  # a prefix


def variables_in_guests() -> set[str]:
    """List what the scripts in a guest read, which are no settings of the program."""
    templates = (ROOT / "vgpu_cfg" / "staging" / "templates").rglob("*.j2")
    return {name for path in templates for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}


def test_the_page_has_every_variable_and_no_other() -> None:
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    listed = {name for cell in FIRST_CELL.findall(page) for name in VARIABLE.findall(cell)}
    assert listed == variables_of_the_program()


def test_no_page_makes_up_a_variable() -> None:
    used = {name for page in PAGES for name in VARIABLE.findall(page.read_text(encoding="utf-8"))}
    assert used <= variables_of_the_program() | variables_in_guests()


def test_the_page_has_every_key_of_a_context() -> None:
    text = sections(REFERENCE / "settings.md")["The config file"]
    listed = {cell.strip("`") for cell in FIRST_CELL.findall(text) if cell.startswith("`")}
    assert listed == set(Context.model_fields)


def test_the_page_has_every_exit_code() -> None:
    listed = {
        int(cell) for cell in FIRST_CELL.findall((REFERENCE / "exit-codes.md").read_text()) if cell.isdigit()
    }
    waiting, failed, unproven, differences = 7, 8, 9, 10
    assert listed == {0, 1, 2, waiting, failed, unproven, differences} | {
        kind.exit_code for kind in kinds_of(VgpuCfgError)
    }


def test_the_page_tells_which_of_several_exit_codes_comes_back() -> None:
    told = re.search(
        r"the first one in this list is returned:\s+([\d,\s]+)\.",
        (REFERENCE / "exit-codes.md").read_text(encoding="utf-8"),
    )
    assert told is not None
    order = [int(code) for code in told[1].split(", ")]
    assert all(worst_exit_code([code, *order[place:]]) == code for place, code in enumerate(order))
    assert worst_exit_code([]) == 0


def kinds_of(kind: type[VgpuCfgError]) -> Iterator[type[VgpuCfgError]]:
    for below in kind.__subclasses__():
        yield below
        yield from kinds_of(below)


def test_no_page_makes_up_a_check() -> None:
    known_codes = {code.value for code in (*Code, *VerifyCode)}
    used = {
        f"{named(page)}: {code}"
        for page in PAGES
        for code in CODE.findall(page.read_text(encoding="utf-8"))
        if code not in known_codes
    }
    assert sorted(used) == []


@pytest.mark.parametrize("block", blocks_with("about"), ids=str)
def test_an_estate_in_a_page_opens(block: Block, tmp_path: Path) -> None:
    estate = tmp_path / "estate.yaml"
    estate.write_text(block.text, encoding="utf-8")
    assert open_lab(estate, clock=VirtualClock()).state.objects


@pytest.mark.parametrize("block", blocks_with("contexts"), ids=str)
def test_a_config_file_in_a_page_is_one(block: Block) -> None:
    config = build(parse_text(block.text, "config.yaml"), ConfigFile)
    assert config.current in config.contexts


@pytest.mark.parametrize("block", blocks_with("faults"), ids=str)
def test_a_script_of_faults_in_a_page_is_one(block: Block) -> None:
    assert build(parse_text(block.text, "faults.yaml"), FaultScript).faults


@pytest.mark.parametrize("block", SHARES, ids=str)
def test_a_file_of_shares_in_a_page_is_one(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "quotas.yaml"
    path.write_text(block.text, encoding="utf-8")
    found = read_quotas(path, load_catalog())
    assert found.shares or found.licences or found.spare


@pytest.mark.parametrize("block", PLANS, ids=str)
def test_a_plan_in_a_page_is_a_plan(block: Block, tmp_path: Path) -> None:
    """A fence that says `yaml refused` holds a plan that must not load."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(block.text, encoding="utf-8")
    if block.info == "yaml refused":
        with pytest.raises(DocumentError):
            load_plan(plan)
    else:
        desired = load_plan(plan).desired
        assert desired.vms or desired.hosts


README = ROOT / "README.md"


@pytest.mark.parametrize(("place", "framework"), [(0, "torchrun"), (1, "horovod")])
def test_the_readme_shows_the_example_that_it_names(place: int, framework: str, tmp_path: Path) -> None:
    shown = [block for block in PLANS if block.page == README][place]
    plan = tmp_path / "plan.yaml"
    plan.write_text(shown.text, encoding="utf-8")
    assert asked_by(plan) == asked_by(ROOT / "examples" / f"multi-node-{framework}.yaml")


def test_the_readme_counts_checks_boards_and_profiles() -> None:
    counts = re.search(
        r"Over (\d+) \[checks.*\[(\d+) boards and (\d+) profiles",
        README.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert counts is not None
    checks, boards, profiles = map(int, counts.groups())
    assert checks < len(Code) + len(VerifyCode) <= checks + 100
    known = load_catalog().boards
    assert (boards, profiles) == (len(known), sum(len(board.profiles) for board in known.values()))


def asked_by(plan: Path) -> Any:
    # The id is of whoever has run the plan.
    return without_places(load_plan(plan).desired.model_dump(exclude={"id_file", "id"}))


def without_places(value: Any) -> Any:
    """Leave out where something was written."""
    match value:
        case dict():
            return {key: without_places(inner) for key, inner in value.items() if key != "origin"}
        case list() | tuple():
            return [without_places(inner) for inner in value]
        case _:
            return value


def test_there_are_plans_and_commands_to_look_at() -> None:
    assert len(PLANS) >= 3
    assert len(list(typed_lines())) > 30
