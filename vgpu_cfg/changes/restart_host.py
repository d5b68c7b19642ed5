"""A host or a service of it is restarted, so that what was set comes into force."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.model.frozen import Frozen

RESTART_KINDS = ("reboot_host", "cold_boot_host", "shut_down_host")
"""The kinds of change that take a host down and, by themselves or by a hand, up again."""


class RestartService(HostChangeBase):
    """Restart a service of the host; `settles` must hold afterwards."""

    kind: Literal["restart_service"] = "restart_service"
    service: str
    settles: tuple[SettingTarget, ...] = ()


class RebootHost(HostChangeBase):
    """Reboot the host and wait until it is back; `settles` must hold then."""

    kind: Literal["reboot_host"] = "reboot_host"
    settles: tuple[SettingTarget, ...] = ()


class ShutDownHost(HostChangeBase):
    """Shut the host down, for a manual step that follows."""

    kind: Literal["shut_down_host"] = "shut_down_host"


class BmcRef(Frozen):
    """A server's management controller: where it is, and who logs in; `password` is a secret's name."""

    address: str
    user: str
    password: str | None = None
    thumbprint: str | None = None
    system: str = ""


class ColdBootHost(HostChangeBase):
    """Shut the host down, and have its BMC switch it on once it is off; `settles` must hold then."""

    kind: Literal["cold_boot_host"] = "cold_boot_host"
    bmc: BmcRef
    settles: tuple[SettingTarget, ...] = ()
