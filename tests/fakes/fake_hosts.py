"""Hosts at the ports: what prepares them, beside everything that `FakeVCenter` does.

A reboot takes `down_after` and `back_after` seconds from its task on. `calls` tells what was asked,
in order; any call can be refused by its name and number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from tests.fakes.fake_host import BOOT, COLD, GRAPHICS, FakeHost, texts_of
from tests.fakes.fake_vcenter import FakeVCenter
from vgpu_cfg.changes.change import ChangeNetwork, SetClusterOption, SetImage, SetVCenterOption
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    HostWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.errors import HostShellError, VCenterError, VgpuCfgError
from vgpu_cfg.model.observed.host_facts import (
    SHELL_GROUPS,
    ClusterFacts,
    DistributedSwitch,
    EstateFacts,
    FactGroup,
    HostAttribute,
    HostFacts,
    KernelSetting,
    ServiceFact,
    ShellFacts,
    parse_remembered,
)
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory, Network, VCenter
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.ports import HostShell, ImageAction, ReadScope, ShellResult, TaskUpdate


@dataclass
class FakeHosts(FakeVCenter):
    """A vCenter with hosts, by moid; also their writer, their shells and what opens them."""

    hosts: dict[str, FakeHost] = field(default_factory=dict)
    down_after: float = 20.0
    back_after: float = 300.0
    never_back: bool = False
    blocked: bool = False
    networks: dict[str, Network] = field(default_factory=dict)
    switches: dict[str, DistributedSwitch] = field(default_factory=dict)
    drs_options: dict[str, str] = field(default_factory=dict)
    vcenter_options: dict[str, str] = field(default_factory=dict)
    written: list[tuple[str, HostWrite]] = field(default_factory=list)
    refused: dict[tuple[str, int], VgpuCfgError] = field(default_factory=dict)
    exit_statuses: dict[str, int] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    secrets_seen: list[Mapping[str, str]] = field(default_factory=list)
    login_refusals: int = 0
    most_down: int = 0

    # ------------------------------------------------------------- for tests

    def add_host(self, name: str, **fields: object) -> FakeHost:
        host = FakeHost(name, f"host-{len(self.hosts) + 1}", **fields)  # type: ignore[arg-type]  # any field of it
        self.hosts[host.moid] = host
        return host

    def host(self, name: str) -> FakeHost:
        return next(host for host in self.hosts.values() if host.name == name)

    def switch_on(self, name: str) -> None:
        """Do what a hand at the power button does: the host has been without power."""
        host = self.host(name)
        host.goes_down_at = host.comes_back_at = None
        self._boot(host, (*BOOT, *COLD, *GRAPHICS))

    def asked(self, *methods: str) -> list[tuple[str, str]]:
        """List the calls of some methods, all that write hosts where none are named."""
        return [call for call in self.calls if call[0] in (methods or _WRITES)]

    # ------------------------------------------------------------- reader

    def read_inventory(self, scope: ReadScope) -> Inventory:
        self._tick()
        self._note("read_inventory", "")
        return Inventory(
            vcenter=VCenter(address="fake"),
            read_at=self.time,
            hosts=tuple(self._seen_host(host) for host in self.hosts.values()),
            vms=tuple(self._seen(vm).model_copy(update={"detail": None}) for vm in self.vms.values()),
            networks=tuple(self.networks.values()),
        )

    def read_kinds(self) -> tuple[Host, ...]:
        return self.read_hosts(self.hosts)

    def read_hosts(self, moids: Iterable[str]) -> tuple[Host, ...]:
        self._tick()
        self._note("read_hosts", "")
        return tuple(self._seen_host(self.hosts[moid]) for moid in moids if moid in self.hosts)

    def read_portgroups(self, switch_moid: str) -> Mapping[str, str]:
        own = self.switches[switch_moid].portgroup_vlans if switch_moid in self.switches else {}
        return {self.networks[moid].name: moid for moid in own if moid in self.networks}

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        self._tick()
        self._note("read_facts", "")
        assert not groups & SHELL_GROUPS
        return EstateFacts(
            hosts={moid: self._facts(self.hosts[moid]) for moid in host_moids if moid in self.hosts},
            clusters={"domain-c1": ClusterFacts(drs_options=self.drs_options)} if host_moids else {},
            vcenter_options=self.vcenter_options,
            switches=tuple(self.switches.values()),
        )

    # ------------------------------------------------------------- writer

    def set_host_attribute(self, host_moid: str, attribute: HostAttribute, text: str | None) -> None:
        self._note("set_host_attribute", f"{self.hosts[host_moid].name} {attribute}")
        if text is None:
            self.hosts[host_moid].attributes.pop(attribute, None)
        else:
            self.hosts[host_moid].attributes[attribute] = text

    def remember(self, host_moid: str, texts: Mapping[str, str]) -> None:
        self._note("remember", f"{self.hosts[host_moid].name} {', '.join(texts)}")
        self.hosts[host_moid].remembered |= texts

    def raise_alarm(self, host_moid: str, plan: str, reason: str) -> None:
        self._note("raise_alarm", self.hosts[host_moid].name)
        self.hosts[host_moid].alarms[plan] = reason

    def clear_alarm(self, host_moid: str, plan: str) -> None:
        self._note("clear_alarm", self.hosts[host_moid].name)
        self.hosts[host_moid].alarms.pop(plan, None)

    def enter_maintenance(self, host_moid: str, vsan: str | None, timeout_seconds: int) -> str:
        host = self._idle(host_moid, "enter_maintenance")

        def finish() -> None:
            host.maintenance = host.maintenance or not self.blocked
            self.most_down = max(self.most_down, sum(one.maintenance for one in self.hosts.values()))

        return self._begin("enter_maintenance task", host, finish)

    def exit_maintenance(self, host_moid: str, timeout_seconds: int) -> str:
        host = self._idle(host_moid, "exit_maintenance")

        def finish() -> None:
            host.maintenance = host.maintenance and self.blocked

        return self._begin("exit_maintenance task", host, finish)

    def reboot_host(self, host_moid: str) -> str:
        host = self._idle(host_moid, "reboot_host")
        assert host.maintenance

        def finish() -> None:
            host.goes_down_at = self.time + timedelta(seconds=self.down_after)
            if not self.never_back:
                host.comes_back_at = self.time + timedelta(seconds=self.back_after)

        return self._begin("reboot_host task", host, finish)

    def shut_down_host(self, host_moid: str) -> str:
        host = self._idle(host_moid, "shut_down_host")
        assert host.maintenance

        def finish() -> None:
            host.goes_down_at = self.time + timedelta(seconds=self.down_after)

        return self._start(
            "shut_down_host task", host.name, host_moid, _nothing if self.never_back else finish
        )

    def write_host(self, host_moid: str, write: HostWrite, secrets: Mapping[str, str]) -> str | None:
        host = self._reached(host_moid, "write_host", write.kind)
        self.written.append((host.name, write))
        self.secrets_seen.append(secrets)
        match write:
            case OptionWrite():
                for key, value in write.options.items():
                    host.configure(key, str(value))
            case EsxcliWrite():
                told = dict(write.arguments)
                host.configure(told["setting"], told["value"])
            case ModuleWrite():
                return self._start(
                    "module task", host.name, host_moid, lambda: host.configure(write.module, write.options)
                )
            case PassthroughWrite():
                host.configure("live", "on" if write.devices[0].is_passthrough else "off")
            case VmknicWrite():
                host.configure("live", write.network_moid)
            case _:
                raise ValueError(write)
        return None

    def control_service(
        self, host_moid: str, service: str, action: Literal["start", "stop", "restart"]
    ) -> None:
        host = self._reached(host_moid, f"{action}_service", service)
        host.services[service] = action != "stop"
        if service == "xorg":
            host.bring_into_force(GRAPHICS)

    def set_cluster_option(self, change: SetClusterOption) -> str:
        def finish() -> None:
            if change.value is None:
                self.drs_options.pop(change.option, None)
            else:
                self.drs_options[change.option] = change.value

        self._note("set_cluster_option", change.option)
        return self._start("cluster task", change.option, None, _nothing if self.blocked else finish)

    def draft_image(self, change: SetImage) -> str:
        raise AssertionError("no image manages these hosts")

    def drop_draft(self, cluster_moid: str, draft: str) -> None:
        raise AssertionError("no image manages these hosts")

    def begin_image_task(self, cluster_moid: str, action: ImageAction, body: Mapping[str, object]) -> str:
        raise AssertionError("no image manages these hosts")

    def read_image_task(self, task: str) -> TaskUpdate:
        raise AssertionError("no image manages these hosts")

    def running_image_tasks(self, cluster_moid: str) -> tuple[str, ...]:
        raise AssertionError("no image manages these hosts")

    def set_vcenter_option(self, change: SetVCenterOption) -> None:
        self._note("set_vcenter_option", change.option)
        if not self.blocked:
            self.vcenter_options[change.option] = str(change.value).lower()

    def change_network(self, change: ChangeNetwork) -> str:
        network = change.network

        def finish() -> str | None:
            if self.blocked:
                return None
            match network:
                case MakeSwitch():
                    moid = f"dvs-{len(self.switches) + 1}"
                    self.switches[moid] = DistributedSwitch(moid=moid, name=network.name, mtu=network.mtu)
                    return moid
                case EditSwitch():
                    assert network.switch_moid is not None
                    before = self.switches[network.switch_moid]
                    update = {
                        "mtu": network.mtu or before.mtu,
                        "members": {**before.members, **network.members},
                    }
                    self.switches[before.moid] = before.model_copy(update=update)
                    return None
                case SetPortgroup():
                    assert network.switch_moid is not None
                    moid = network.portgroup_moid or f"dvportgroup-{len(self.networks) + 1}"
                    self.networks[moid] = Network(moid=moid, name=network.name)
                    before = self.switches[network.switch_moid]
                    vlans = {**before.portgroup_vlans, moid: network.vlan}
                    self.switches[before.moid] = before.model_copy(update={"portgroup_vlans": vlans})
                    return moid

        self._note("change_network", network.kind)
        return self._start("network task", network.kind, None, finish)

    def connect(self, host_name: str, access: AccessEntry) -> HostShell:
        self._note("connect", host_name)
        host = self.host(host_name)
        if self.login_refusals > 0:
            self.login_refusals -= 1
            raise HostShellError("connection refused", subject=host_name)
        if not host.services["TSM-SSH"] or not host.connected:
            raise HostShellError("no answer on port 22", subject=host_name)
        host.logins += 1
        return FakeShell(self, host)

    # ------------------------------------------------------------- inside

    def _note(self, method: str, subject: str) -> None:
        self.calls.append((method, subject))
        self._counts[method] += 1
        if (method, self._counts[method]) in self.refused:
            raise self.refused[method, self._counts[method]]

    def _reached(self, moid: str, method: str, what: str = "") -> FakeHost:
        self._tick()
        host = self.hosts[moid]
        self._note(method, f"{host.name} {what}".rstrip())
        return host

    def _idle(self, moid: str, method: str) -> FakeHost:
        """Reach a host that is not busy with maintenance or power already: as vCenter, refuse it else."""
        host = self._reached(moid, method)
        is_busy = host.task and self._tasks[host.task].update is None
        if is_busy or host.goes_down_at is not None or not host.connected:
            raise VCenterError("The operation is not allowed in the current state.", subject=host.name)
        return host

    def _begin(self, method: str, host: FakeHost, finish: Callable[[], None]) -> str:
        host.task = self._start(method, host.name, host.moid, finish)
        return host.task

    def _tick(self) -> None:
        """End tasks that nobody waits for, and bring hosts down and back whose time has come."""
        for task in self._tasks.values():
            if task.due <= self.time:
                self._end(task)
        for host in self.hosts.values():
            if host.goes_down_at is not None and host.goes_down_at <= self.time:
                host.goes_down_at = None
                host.connected = False
                host.services["TSM-SSH"] = False
            if host.comes_back_at is not None and host.comes_back_at <= self.time:
                host.comes_back_at = None
                self._boot(host, (*BOOT, *GRAPHICS))

    def _boot(self, host: FakeHost, keys: Iterable[str]) -> None:
        host.connected = True
        host.boots += 1
        host.boot_time = self.time if host.boot_time is not None else None
        host.services["TSM-SSH"] = False
        host.silent.clear()
        host.bring_into_force(keys)

    def _seen_host(self, host: FakeHost) -> Host:
        return Host(
            moid=host.moid,
            name=host.name,
            cluster_moid="domain-c1",
            connection=Connection.CONNECTED if host.connected else Connection.NOT_RESPONDING,
            is_in_maintenance_mode=host.maintenance,
            nics=host.nics,
        )

    def _facts(self, host: FakeHost) -> HostFacts:
        return HostFacts(
            unread={FactGroup.BASE: host.unread} if host.unread else {},
            boot_time=host.boot_time,
            lockdown=host.lockdown,
            services={key: ServiceFact(running=running) for key, running in host.services.items()},
            kernel={
                key: KernelSetting(configured=value, runtime=host.runtime[key])
                for key, value in host.configured.items()
                if key not in ("nvidia", "mig", "firmware") and key not in host.silent
            },
            modules={"nvidia": host.configured["nvidia"]},
            mark=host.mark,
            done=texts_of(host.attributes.get(HostAttribute.DONE, "{}")),
            vmnics=texts_of(host.attributes.get(HostAttribute.VMNICS, "{}")),
            remembered=parse_remembered(host.moid, host.remembered),
        )


@dataclass
class FakeShell:
    """A login on a host: `set KEY VALUE` configures, anything else prints its words."""

    estate: FakeHosts
    on: FakeHost
    is_closed: bool = False

    def run(self, arguments: Sequence[str], *, timeout_seconds: float = 60.0) -> ShellResult:
        self._reach("run", " ".join(arguments))
        self.estate.commands.append(tuple(arguments))
        status = self.estate.exit_statuses.get(arguments[0], 0)
        if status:
            return ShellResult(status=status, stderr=f"{arguments[0]}: it does not work\n")
        if arguments[0] == "set":
            self.on.configure(arguments[1], arguments[2])
        elif arguments[0] == "esxcli":
            told = dict(word.removeprefix("--").split("=", 1) for word in arguments if "=" in word)
            self.on.configure(told["setting"], told["value"])
        return ShellResult(status=0, stdout=" ".join(arguments))

    def read_facts(self, groups: frozenset[FactGroup], nic_pci_ids: Sequence[str]) -> ShellFacts:
        self._reach("read_shell", "")
        unread = {
            f"{key} {kind}": host[key] for kind, host in self._both().items() for key in ("mig", "firmware")
        }
        return ShellFacts(driver_version="580.95", unread=unread)

    def close(self) -> None:
        self.estate._note("log_out", self.on.name)
        self.is_closed = True

    def _both(self) -> dict[str, dict[str, str]]:
        return {"configured": self.on.configured, "runtime": self.on.runtime}

    def _reach(self, method: str, what: str) -> None:
        self.estate._tick()
        self.estate._note(method, f"{self.on.name} {what}".rstrip())
        if self.is_closed or not self.on.services["TSM-SSH"] or not self.on.connected:
            raise HostShellError("the connection is gone", subject=self.on.name)


def _nothing() -> None: ...


_WRITES = (
    "enter_maintenance",
    "exit_maintenance",
    "reboot_host",
    "shut_down_host",
    "write_host",
    "start_service",
    "stop_service",
    "restart_service",
    "set_host_attribute",
    "remember",
    "raise_alarm",
    "clear_alarm",
    "set_cluster_option",
    "set_vcenter_option",
    "change_network",
    "run",
)
