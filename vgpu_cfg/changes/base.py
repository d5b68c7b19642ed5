"""What every change has: what it is about, what it edits, what it needs and what it disturbs."""

from __future__ import annotations

from vgpu_cfg.changes.values import Edit, Impact, Subject
from vgpu_cfg.model.frozen import Frozen


class ChangeBase(Frozen):
    """What every change has.

    `id` is stable between two plannings of the same thing ("create hvd-01"); `needs` names the
    changes that must have come true before; `host_moid` is the host it burdens, for the cap per host.
    """

    id: str
    subject: Subject
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    impact: Impact = Impact.NONE
    host_moid: str | None = None
