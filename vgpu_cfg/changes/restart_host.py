"""A host or a service of it is restarted, so that what was set comes into force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, SettingTarget, plain
from vgpu_cfg.model.frozen import Frozen

RESTART_KINDS = ("reboot_host", "cold_boot_host", "shut_down_host")
"""The kinds of change that take a host down and, by themselves or by a hand, up again."""


class RestartService(HostChangeBase):
    """Restart a service of the host; `settles` must hold afterwards."""

    is_task = False

    kind: Literal["restart_service"] = "restart_service"
    service: str
    settles: tuple[SettingTarget, ...] = ()

    @property
    def sign(self) -> str:
        return " "

    def likeness(self, name: str) -> object:
        return self.service

    def head(self, place: Placement | None) -> Row:
        return "restart", plain(f"service {self.service}, then read back")

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_SERVICES, self.host.moid)


class _Restart(HostChangeBase):
    """The host goes down."""

    @property
    def sign(self) -> str:
        return " "

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)


class RebootHost(_Restart):
    """Reboot the host and wait until it is back; `settles` must hold then."""

    kind: Literal["reboot_host"] = "reboot_host"
    settles: tuple[SettingTarget, ...] = ()

    def head(self, place: Placement | None) -> Row:
        return "reboot", plain("then read back")


class ShutDownHost(_Restart):
    """Shut the host down, for a manual step that follows."""

    kind: Literal["shut_down_host"] = "shut_down_host"

    def head(self, place: Placement | None) -> Row:
        return "shut down", plain("the host, for the manual step that follows")

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        yield "what takes a hand is undone by hand"


class BmcRef(Frozen):
    """A server's management controller: where it is, and who logs in; `password` is a secret's name."""

    address: str
    user: str
    password: str | None = None
    thumbprint: str | None = None
    system: str = ""


class ColdBootHost(_Restart):
    """Shut the host down, and have its BMC switch it on once it is off; `settles` must hold then."""

    kind: Literal["cold_boot_host"] = "cold_boot_host"
    bmc: BmcRef
    settles: tuple[SettingTarget, ...] = ()

    def head(self, place: Placement | None) -> Row:
        by = f"its BMC {self.bmc.address} switches it on, then read back"
        return "cold boot", plain(f"shut down; once it is off {by}")
