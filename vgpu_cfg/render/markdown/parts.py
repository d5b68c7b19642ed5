"""What a runbook is made of: its steps, and how the lab that it is for is reached."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.changes.by_hand import Part


@dataclass(frozen=True, slots=True)
class LabAccess:
    """How a person reaches a lab, which answers at no address until it is served; ready for a shell."""

    serve: str
    url: str
    user: str
    password: str
    certificate: str
    ssh_config: str


@dataclass(frozen=True, slots=True)
class RunbookStep:
    """A numbered step of a runbook. `after` are the steps it needs; `done` is how it is acknowledged.

    `canary` says who must be as planned before it is begun.
    """

    number: int
    title: str
    subject: str
    parts: tuple[Part, ...]
    after: tuple[int, ...] = ()
    is_by_hand: bool = False
    done: str = ""
    canary: str = ""
