"""A small settings table, and short ways to write changes to hosts, for the tests of their execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.makers import PLAN, plan_of
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    RebootHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ModuleWrite, OptionWrite, ShellWrite
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.changes.report import Event, Outcome, Report
from vgpu_cfg.changes.values import HostRef, Impact, SettingTarget, Subject
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.execution import HostTools, Run, RunOptions
from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.planning.host_settings.entry import HostSetting, HostView, Instructions, Reading

OPEN = AccessEntry(ssh="open-and-close")
ATS = SettingTarget(setting="ats", value="TRUE", before="FALSE")
ATS_IN_SHELL = SettingTarget(setting="ats_in_shell", value="TRUE", before="FALSE")
NVIDIA = SettingTarget(setting="nvidia", value="NVreg=1", before="")
LIVE = SettingTarget(setting="live", value="on", before="off")
GRAPHICS = SettingTarget(setting="graphics", value="sharedDirect", before="shared")
MIG = SettingTarget(setting="mig", value="on")
FIRMWARE = SettingTarget(setting="firmware", value="True")
BIOS = SettingTarget(setting="bios", value="enabled")


def _kernel(key: str) -> Callable[[HostView, str], Reading]:
    def read(view: HostView, device: str) -> Reading:
        found = view.facts.kernel.get(key)
        if found is None:
            return Reading(unread="nobody tells")
        return Reading(configured=found.configured, runtime=found.runtime)

    return read


def _shell(key: str) -> Callable[[HostView, str], Reading]:
    def read(view: HostView, device: str) -> Reading:
        if view.facts.shell is None:
            return Reading(unread="the shell is closed")
        told = view.facts.shell.unread
        if told[f"{key} configured"] == "handed out":
            return Reading(unread="the host cannot ask it", is_absent=True)
        return Reading(configured=told[f"{key} configured"], runtime=told[f"{key} runtime"])

    return read


def _entry(key: str, impact: Impact, read: Callable[[HostView, str], Reading], **fields: Any) -> HostSetting:
    return HostSetting(
        key=key,
        title=key,
        source="made up",
        desired_settings=lambda entry, view: (),
        read=read,
        write=lambda view, desired_settings: (),
        impact=lambda view, desired: impact,
        how=lambda view, desired: Instructions(why=""),
        group=key,
        remembered=None,
        **fields,
    )


GPUS, NICS = frozenset({FactGroup.SHELL_GPUS}), frozenset({FactGroup.SHELL_NICS})
TABLE = {
    entry.key: entry
    for entry in (
        _entry("live", Impact.NONE, _kernel("live")),
        _entry("ats", Impact.HOST_REBOOT, _kernel("ats")),
        _entry(
            "nvidia",
            Impact.HOST_REBOOT,
            lambda view, device: Reading(configured=view.facts.modules["nvidia"]),
        ),
        _entry("graphics", Impact.SERVICE_RESTART, _kernel("graphics"), service="xorg"),
        _entry("mig", Impact.HOST_REBOOT, _shell("mig"), facts=GPUS),
        _entry("ats_in_shell", Impact.HOST_REBOOT, _kernel("ats"), facts=GPUS),
        _entry("firmware", Impact.HOST_COLD_BOOT, _shell("firmware"), facts=NICS),
        _entry("bios", Impact.HOST_COLD_BOOT, lambda view, device: Reading(unread="nothing shows it")),
    )
}


def write_of(target: SettingTarget) -> HostWrite:
    """Return the write that sets a setting of the table."""
    match target.setting:
        case "ats":
            arguments = (("setting", "ats"), ("value", target.value))
            return EsxcliWrite(command="system.settings.kernel.set", arguments=arguments)
        case "nvidia":
            return ModuleWrite(module="nvidia", options=target.value)
        case "mig" | "firmware":
            return ShellWrite(commands=(("set", target.setting, target.value),))
        case _:
            return OptionWrite(options={target.setting: target.value})


def ref(name: str = "esx-01") -> HostRef:
    return HostRef(name=name, moid=f"host-{int(name[-2:])}")


def _common(kind: str, name: str, needs: tuple[str, ...], fields: dict[str, Any]) -> dict[str, Any]:
    host = ref(name)
    return {
        "id": f"{kind} {name}",
        "subject": Subject(kind="host", name=name, moid=host.moid),
        "host": host,
        "host_moid": host.moid,
        "wave": "hosts 1",
        "needs": needs,
        **fields,
    }


def enter(name: str = "esx-01", *needs: str, **fields: Any) -> EnterMaintenance:
    return EnterMaintenance(**_common("enter", name, needs, {"reason": "sets ats", **fields}))


def change(target: SettingTarget, name: str = "esx-01", *needs: str, **fields: Any) -> ChangeHost:
    fields = {"write": write_of(target), "settings": (target,), **fields}
    return ChangeHost(**_common(f"set {target.setting} on", name, needs, fields))


def reboot(name: str = "esx-01", *needs: str, settles: tuple[SettingTarget, ...] = (ATS,)) -> RebootHost:
    return RebootHost(**_common("reboot", name, needs, {"settles": settles}))


def restart(name: str = "esx-01", *needs: str) -> RestartService:
    return RestartService(**_common("restart", name, needs, {"service": "xorg", "settles": (GRAPHICS,)}))


def shut_down(name: str = "esx-01", *needs: str) -> ShutDownHost:
    return ShutDownHost(**_common("shut down", name, needs, {}))


def cold_boot(name: str = "esx-01", *needs: str) -> ColdBootHost:
    bmc = BmcRef(address=f"bmc-{name}", user="root", password="bmc")
    return ColdBootHost(**_common("cold boot", name, needs, {"bmc": bmc, "settles": (FIRMWARE,)}))


class FakePower:
    """The BMC of the one host of a fake estate: it is off once the host has gone, and can be switched on."""

    def __init__(self, server: FakeHosts, error: VgpuCfgError | None = None) -> None:
        self.host = server.host("esx-01")
        self.server = server
        self.error = error
        self.pressed = 0

    def connect(self, bmc: BmcRef) -> FakePower:
        assert bmc.address == "bmc-esx-01"
        if self.error is not None:
            raise self.error
        return self

    def is_off(self) -> bool:
        self.server.read_hosts([self.host.moid])  # what is due comes about
        return not self.host.connected

    def switch_on(self) -> None:
        assert self.is_off()
        self.pressed += 1
        self.server.switch_on(self.host.name)


def leave(
    name: str = "esx-01", *needs: str, settles: tuple[SettingTarget, ...] = (), **fields: Any
) -> ExitMaintenance:
    return ExitMaintenance(**_common("leave", name, needs, {"settles": settles, **fields}))


def by_hand(name: str = "esx-01", *needs: str, **fields: Any) -> ManualStep:
    fields = {"text": "switch it on", **_common("by hand", name, needs, fields)}
    del fields["host"], fields["wave"]
    return ManualStep(**fields)


def in_order(*changes: Change) -> list[Change]:
    """Let each change need the one before it."""
    found: list[Change] = []
    for one in changes:
        needs = (found[-1].id,) if found else ()
        found.append(one.model_copy(update={"needs": (*one.needs, *needs)}))
    return found


def estate(hosts: int = 1, **fields: Any) -> FakeHosts:
    server = FakeHosts(**fields)
    for number in range(1, hosts + 1):
        server.add_host(f"esx-{number:02}")
    return server


def tools_for(server: Any, *, access: AccessEntry | None = OPEN, **fields: Any) -> HostTools:
    allowed = {f"host-{number}": access for number in range(1, 10)} if access is not None else {}
    fields = {"logins": server, "secrets": {"esxi": "hidden"}, "settings": TABLE.__getitem__, **fields}
    return HostTools(PLAN, server, server, undisputed(), view, access=allowed, **fields)


def view(host: Host, facts: EstateFacts) -> HostView:
    """Show a host as it was read; the settings of the table need no catalogue."""
    return HostView(host, facts.hosts.get(host.moid, HostFacts()))


def run(
    server: Any,
    *changes: Change,
    access: AccessEntry | None = OPEN,
    tools: HostTools | None = None,
    **fields: Any,
) -> tuple[Report, list[Event]]:
    """Run changes as plan `demo` and return the report and every event."""
    events: list[Event] = []
    report = Run(
        plan_of(*changes),
        server,
        server,
        server,
        locks=undisputed(),
        hosts=tools or tools_for(server, access=access),
        options=RunOptions(**fields.pop("options", {})),
        on_event=events.append,
        **fields,
    ).carry_out()
    return report, events


def only(report: Report) -> Outcome:
    (outcome,) = report.outcomes
    return outcome
