"""The base of every change to one host."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, HostRef, SettingTarget


class HostChangeBase(ChangeBase):
    """A change to one host. `wave` names the group of hosts that share a limit on how many are down."""

    host: HostRef
    wave: str = ""

    @property
    def works_on_host(self) -> str:
        return self.host.moid

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return nothing for intermediate steps."""
        return ()


def setting_rows(
    targets: Iterable[SettingTarget], tables: Tables, *, is_shown_before: bool = True
) -> tuple[tuple[str, str, str], ...]:
    """Return settings as the rows of a table: what, before, after."""
    return tuple(
        (tables.setting_label(target), (target.before or "") if is_shown_before else "", target.value)
        for target in targets
    )
