"""The files of a transfer to or from guests, each once."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Transfer:
    """A file that may be put or got, once."""

    vm: str
    path: str
    user: str
    size: int = 0
    mode: int | None = None
    puts: bool = False


@dataclass(slots=True)
class Transfers:
    """A lab's transfers: number → (token, transfer). A process keeps its own."""

    offers: dict[str, tuple[str, Transfer]] = field(default_factory=dict)
    count: int = 0
