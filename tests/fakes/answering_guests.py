"""Guests at the port: each answers commands from a table, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.errors import GuestError
from vgpu_cfg.ports import ShellResult

Answer = str | ShellResult | GuestError | Callable[[tuple[str, ...]], "str | ShellResult"]
"""What a command comes to: text with status 0, a whole result, or an error of the connection."""

NOT_FOUND = ShellResult(status=127, stderr="sh: 1: not found")


def inner_seconds(words: tuple[str, ...]) -> float:
    """Return after how long the guest's own `timeout` ends a command, 0 without one."""
    limits = [float(word) for word in words[1:] if word.isdecimal()] if words[:1] == ("timeout",) else []
    return next(iter(limits), 0.0)


@dataclass
class FakeGuest:
    """One guest. `answers` maps the first words of a command to its answer; the longest match counts."""

    name: str
    answers: dict[tuple[str, ...], Answer] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    closed: int = 0

    def run(
        self, arguments: Sequence[str], *, timeout_seconds: float = 60.0, stdin: bytes = b""
    ) -> ShellResult:
        words = tuple(arguments)
        self.asked.append(words)
        assert timeout_seconds > inner_seconds(words), f"{words} may run for {timeout_seconds} s"
        found = max((key for key in self.answers if words[: len(key)] == key), key=len, default=None)
        answer: Answer = NOT_FOUND if found is None else self.answers[found]
        if isinstance(answer, GuestError):
            raise answer
        if callable(answer):
            answer = answer(words)
        return ShellResult(status=0, stdout=answer) if isinstance(answer, str) else answer

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        self.files[path] = content.decode()

    def read_file(self, path: str) -> bytes | None:
        text = self.files.get(path)
        return text.encode() if text is not None else None

    def read_facts(self, *_: object) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1

    def was_asked(self, *words: str) -> bool:
        """Whether a command began with these words."""
        return any(asked[: len(words)] == words for asked in self.asked)


@dataclass
class FakeGuests:
    """All guests of a test, by name; one that is not there cannot be reached."""

    guests: Mapping[str, FakeGuest]
    connected: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, name: str) -> FakeGuest:
        with self.lock:
            self.connected.append(name)
        if name not in self.guests:
            raise GuestError(
                "no address answers on port 22", subject=name, remedy="see whether it is on, and its network"
            )
        return self.guests[name]
