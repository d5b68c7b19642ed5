"""Shares of the GPUs of a vCenter, as somebody wrote them down: who may hold how many of which boards."""

from __future__ import annotations

from typing import Final, Literal

from vgpu_cfg.model.frozen import Frozen

ALL_OTHERS: Final = "all others"
"""Who has the share of whoever is named by no other."""


class Share(Frozen):
    """What an owner, a folder, or all the others together may hold of some boards.

    `boards` are keys of the catalogue, none where every board counts; `called` is how the file names them.
    One of `gpus` and `framebuffer_mib` is the limit. `origin` is the place of the share in its file.
    """

    kind: Literal["owner", "folder", "others"]
    name: str = ""
    boards: tuple[str, ...] = ()
    called: str = ""
    gpus: float | None = None
    framebuffer_mib: int | None = None
    origin: str = ""

    @property
    def holder(self) -> str:
        """Who has it, in words."""
        return ALL_OTHERS if self.kind == "others" else f"{self.kind} {self.name}"


class Quotas(Frozen):
    """The shares of one file. `clusters` are globs of those whose GPUs are shared out, none for all."""

    file: str
    clusters: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
