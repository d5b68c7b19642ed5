"""Restart a host or one of its services to activate settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import Face, HostChangeBase, Restart, setting_rows
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, SettingTarget, plain
from vgpu_cfg.model.frozen import Frozen

_SERVICE_NAMES = {"xorg": "X.Org Server"}


class RestartService(HostChangeBase):
    """Restart a service of the host; `settles` must hold afterwards."""

    face = Face("restart", "service restarts", done="service* restarted", sign=" ", is_task=False)

    kind: Literal["restart_service"] = "restart_service"
    service: str
    settles: tuple[SettingTarget, ...] = ()

    @property
    def restarted_service(self) -> str:
        return self.service

    @property
    def in_force(self) -> tuple[SettingTarget, ...]:
        return self.settles

    def likeness(self, name: str) -> object:
        return self.service

    def head(self, place: Placement | None) -> Row:
        return "restart", plain(f"service {self.service}, then verify")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name, service = self.host.name, self.service
        label = _SERVICE_NAMES.get(service, service)
        return (
            Part(
                what=(
                    f"Restart the service {service} on {name}. No VM with a GPU may run on it during the "
                    "restart."
                ),
                why="these settings are configured, but take effect only after the service restarts",
                client=f"{name} > Configure > System > Services > {label} > Restart",
                commands=(command("govc", "host.service", "-host", name, "restart", service),),
                expected="the service is running, and the values of this step are active",
                verify=(command("govc", "host.service", "-host", name, "status", service),),
                rows=setting_rows(self.settles, tables),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_SERVICES, self.host.moid)


class _Restart(HostChangeBase):
    """The host goes down."""

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)


def _back(name: str) -> str:
    return f"{name} is reconnected, still in maintenance mode, and the values of this step are active"


class RebootHost(_Restart):
    """Reboot the host and wait until it is back; `settles` must hold then."""

    face = Face("restart", "reboots", sign=" ", restart=Restart.REBOOT)

    kind: Literal["reboot_host"] = "reboot_host"
    settles: tuple[SettingTarget, ...] = ()

    @property
    def in_force(self) -> tuple[SettingTarget, ...]:
        return self.settles

    def head(self, place: Placement | None) -> Row:
        return "reboot", plain("then verify")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        return (
            Part(
                what=f"Reboot {name} in maintenance mode, and wait until vCenter shows it as connected.",
                why="these settings are configured, but take effect only after a reboot",
                client=f"{name} > Actions > Power > Reboot",
                commands=(command("govc", "host.shutdown", "-r", name),),
                expected=_back(name),
                verify=(command("govc", "host.info", "-host", name),),
                rows=setting_rows(self.settles, tables),
            ),
        )


class ShutDownHost(_Restart):
    """Shut the host down, for a manual step that follows."""

    face = Face("restart", "shut down for a cold boot", sign=" ", restart=Restart.COLD_BOOT, leaves_off=True)

    kind: Literal["shut_down_host"] = "shut_down_host"

    def head(self, place: Placement | None) -> Row:
        return "shut down", plain("the host, before the next manual step")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        return (
            Part(
                what=f"With {name} in maintenance mode, shut it down.",
                why="a reboot is not sufficient: the settings are loaded only at power-on",
                client=f"{name} > Actions > Power > Shut Down",
                commands=(command("govc", "host.shutdown", name),),
                expected=f"{name} is not responding in vCenter, and its power is off",
                verify=(command("govc", "host.info", "-host", name),),
                undo=("power the host on at the server or through its management controller",),
            ),
        )

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        yield "manual steps must be undone manually"


class BmcRef(Frozen):
    """A server's management controller: where it is, and who logs in; `password` is a secret's name."""

    address: str
    user: str
    password: str | None = None
    thumbprint: str | None = None
    system: str = ""


class ColdBootHost(_Restart):
    """Shut the host down, and have its BMC switch it on once it is off; `settles` must hold then."""

    face = Face("restart", "cold boots", sign=" ", restart=Restart.COLD_BOOT)

    kind: Literal["cold_boot_host"] = "cold_boot_host"
    bmc: BmcRef
    settles: tuple[SettingTarget, ...] = ()

    @property
    def in_force(self) -> tuple[SettingTarget, ...]:
        return self.settles

    def head(self, place: Placement | None) -> Row:
        by = f"its BMC {self.bmc.address} powers it on; then verify"
        return "cold boot", plain(f"shut down; once it is off, {by}")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name, bmc = self.host.name, self.bmc
        action = f"the action ComputerSystem.Reset of https://{bmc.address}"
        return (
            Part(
                what=f"With {name} in maintenance mode, shut it down; once it is off, power it on "
                f"through its BMC {bmc.address} as {bmc.user}.",
                why="a reboot is not sufficient: the settings are loaded only at power-on",
                client=f"{name} > Actions > Power > Shut Down; then Power On in the BMC's web interface",
                commands=(
                    command("govc", "host.shutdown", name),
                    f"# once it is off: POST ResetType On to {action}",
                ),
                expected=_back(name),
                verify=(command("govc", "host.info", "-host", name),),
                rows=setting_rows(self.settles, tables),
            ),
        )
