"""A person's manual step in place of a change, and the command lines of such steps.

Values of a plan get into the commands here. Command lines are distinguished from sentences, and written.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

_TOOLS = ("esxcli", "govc", "nvidia-smi", "mlxconfig", "vgpu-cfg", "/", "dmesg", "vmkload_mod", "mst ", "#")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to do within a step, for every way to do it.

    `client` is the way through the vSphere Client. `commands`, `verify` and `undo` are whole command lines;
    one that names no tool is a sentence. `rows` are (what, before, after); `in_force` says what must happen
    until they hold.
    """

    heading: str = ""
    what: str = ""
    why: str = ""
    client: str = ""
    commands: tuple[str, ...] = ()
    expected: str = ""
    verify: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()
    in_force: str = ""

    @property
    def has_before(self) -> bool:
        """Whether any row has an earlier value."""
        return any(before for _, before, _ in self.rows)

    @property
    def govc(self) -> list[str]:
        """The commands that are typed where govc is."""
        return [line for line in self.commands if line.startswith("govc ")]

    @property
    def shell(self) -> list[str]:
        """The commands that are typed on the host's shell."""
        return [line for line in self.commands if not line.startswith("govc ")]


def filled(part: Part, *, host: str, device: str, value: str, before: str | None) -> Part:
    """Put names and values where a setting's texts have {host}, {device}, {value} and {before}."""
    values = {
        "{host}": host,
        "{device}": device,
        "{value}": value,
        "{before}": before or "the previous value",
    }

    def text(words: str) -> str:
        for key, found in values.items():
            words = words.replace(key, found)
        return words.rstrip()

    def line(words: str) -> str:
        if not is_command(words) or words.startswith("#"):
            return text(words)
        for key, found in values.items():
            words = words.replace(key, shlex.quote(found))
        return words

    return replace(
        part,
        why=text(part.why),
        client=text(part.client),
        expected=text(part.expected),
        commands=tuple(map(line, part.commands)),
        verify=tuple(map(line, part.verify)),
        undo=tuple(map(line, part.undo)),
    )


def is_command(line: str) -> bool:
    """Whether a line is to be typed: it begins with a tool; else it is a sentence."""
    return line.startswith(_TOOLS)


def as_typed(line: str) -> str:
    """Leave a command unchanged, and turn a sentence among commands into a comment."""
    return line if is_command(line) else f"# {line}"


def command(*words: str | int) -> str:
    """Write a command line; every word is quoted where the shell needs it."""
    return shlex.join(str(word) for word in words)
