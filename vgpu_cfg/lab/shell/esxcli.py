"""esxcli as the shell has it: options from a command line, answers as text.

A list of like things is a table whose columns are as wide as their widest cell, two blanks apart; a list
of long ones has a paragraph for each, below its address; one thing is lines of `Name: value`, three
blanks in (recorded runs). Recalled is which stream an error goes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.lab.esxcli import devices, software, system
from vgpu_cfg.lab.esxcli.answers import COMMANDS, Answer, CommandError, PlainValue, Record, Row, Rows, run
from vgpu_cfg.lab.esxcli.system import FLAGS, OPTIONS, long_options
from vgpu_cfg.lab.nvidia.gpus import Reply, complain, say
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

MODULES = (devices, devices, software, system)
"""Importing them fills the table of commands."""

REQUIRED = {
    "system.module.parameters.list": ("module",),
    "system.module.parameters.set": ("module", "parameter-string"),
    "system.settings.kernel.set": ("setting", "value"),
    "software.sources.vib.list": ("depot",),
    "software.vib.install": ("depot",),
    "network.nic.dcb.status.get": ("nic-name",),
}

TABLES = frozenset({"SettingsKernel", "ModuleParameter", "VIBSummary", "VIBSummaryExt"})
UNNAMED = frozenset({"GraphicsDevice"})
"""Structures whose address is the paragraph's heading and no line of it."""

TITLES = {"InstallationResult": "Installation Result"}


def run_esxcli(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Carry one command out."""
    words = [word for word in arguments if not word.startswith("-")]
    first_option = next((at for at, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    name = ".".join(arguments[:first_option])
    if name not in OPTIONS or name not in COMMANDS:
        return complain(f"Error: Unknown command or namespace {' '.join(words)}".rstrip())
    try:
        given = dict(_options(name, arguments[first_option:]))
        for option in REQUIRED.get(name, ()):
            if option not in given:
                raise CommandError(f"Error: Missing required parameter {_shown(name, option)}")
        answer = run(lab, host, name, {option.replace("-", ""): (value,) for option, value in given.items()})
    except CommandError as error:
        return complain(*error.lines)
    return say(*_text(answer))


def _options(name: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield long options with their values: `-m x`, `-m=x`, `--module x`, `--module=x`."""
    short, rest = OPTIONS[name], iter(words)
    known = set(long_options(name))
    for word in rest:
        option, equals, value = word.partition("=")
        long = (
            option[2:] if option.startswith("--") else short.get(option[1:], "") if len(option) == 2 else ""
        )
        if long not in known:
            raise CommandError(f"Error: Invalid option {option}")
        if long in FLAGS:
            yield long, "true"
        elif equals:
            yield long, value
        else:
            following = next(rest, None)
            if following is None:
                raise CommandError(f"Error: Option {option} needs a value")
            yield long, following


def _shown(name: str, option: str) -> str:
    short = next((short for short, longs in OPTIONS[name].items() if short and longs == option), "")
    return f"-{short}|--{option}" if short else f"--{option}"


def _text(answer: Answer) -> Iterator[str]:
    match answer:
        case PlainValue():
            return
        case Record(kind, fields):
            if kind in TITLES:
                yield TITLES[kind]
            yield from _lines(fields)
        case Rows(kind, rows) if kind in TABLES:
            yield from _table([{name: _cell(value) for name, value in row.items()} for row in rows])
        case Rows(kind, rows):
            for number, row in enumerate(rows):
                if number:
                    yield ""
                yield _cell(row["Address"])
                yield from _lines(
                    {name: row[name] for name in row if kind not in UNNAMED or name != "Address"}
                )


def _lines(fields: Row) -> Iterator[str]:
    return (f"   {name}: {_cell(value)}" for name, value in fields.items())


def _cell(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _table(rows: list[dict[str, str]]) -> Iterator[str]:
    if not rows:
        return
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    yield "  ".join(f"{name:<{width}}" for name, width in widths.items()).rstrip()
    yield "  ".join("-" * width for width in widths.values())
    for row in rows:
        yield "  ".join(f"{row[name]:<{width}}" for name, width in widths.items()).rstrip()
