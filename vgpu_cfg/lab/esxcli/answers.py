"""The answer of an esxcli command before it is XML or text: rows of named fields, one thing, or a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

Row = Mapping[str, str | tuple[str, ...]]
"""Field → value, by the names that esxcli's text shows ("VMkernel Name"); a tuple is a list."""

Arguments = Mapping[str, tuple[str, ...]]
"""Long options without dashes → values."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of structures. `kind` is the structure's name in the command's own name space."""

    kind: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One structure."""

    kind: str
    fields: Row


@dataclass(frozen=True, slots=True)
class PlainValue:
    """A plain result. `kind` is the name of its XML Schema type: `boolean`, `string`, `long`."""

    kind: str
    text: str


Answer = Rows | Record | PlainValue


class CommandError(Exception):
    """A command that fails, with the lines that it says."""

    def __init__(self, *lines: str) -> None:
        super().__init__(" ".join(lines))
        self.lines = lines


class UnknownCommandError(Exception):
    """The host has no such command."""


Command = Callable[["Simulation", Host, Arguments], Answer]

COMMANDS: dict[str, Command] = {}
"""`system.settings.kernel.list` → what carries it out."""


def command(name: str) -> Callable[[Command], Command]:
    """Register a command."""

    def register(function: Command) -> Command:
        COMMANDS[name] = function
        return function

    return register


def run(lab: Simulation, host: Host, name: str, arguments: Arguments) -> Answer:
    """Carry a command out; case does not matter in its name. Raises UnknownCommandError, CommandError."""
    found = COMMANDS.get(name.lower())
    if found is None:
        raise UnknownCommandError(name)
    return found(lab, host, arguments)


def needed(arguments: Arguments, name: str) -> str:
    """Return the value of an option that must be there."""
    values = arguments.get(name, ())
    if not values:
        raise CommandError(f"Missing required parameter {name}")
    return values[0]


def is_set(arguments: Arguments, name: str) -> bool:
    """Whether a flag is given."""
    return arguments.get(name, ("false",))[0].lower() in ("true", "1")
