"""Guests at the port: they stage what they are given over time, and can fail, restart or fall silent.

`GuestVCenter` is a vCenter whose VMs have such guests; `FakeGuests` logs in to them and stages. A guest works
by the vCenter's clock: a module takes `module_seconds`, and `outcomes` says what becomes of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fakes.fake_vcenter import FakeVCenter
from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.model.guests.guest import (
    REPORT_KEY,
    GuestBundle,
    GuestFile,
    GuestReport,
    GuestSpec,
    ModuleState,
    StagedModule,
    parse_mark,
    print_mark,
)
from vgpu_cfg.model.observed.vm import GuestSeen, PowerState, Vm, VmDetail
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.ports import GuestShell, GuestTarget, ShellResult

REPORT_FILE = "/var/lib/vgpu-cfg/report.json"
SECRET = "correct-horse-battery"
SEED_KEY = "guestinfo.userdata"


@dataclass
class FakeGuest:
    """One guest. `outcomes` maps a module to (state, why) where it is not brought as usual."""

    spec: GuestSpec
    has_cloud_init: bool = True
    has_tools: bool = True
    answers_from: float = 0.0
    module_seconds: float = 5.0
    restart_seconds: float = 20.0
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    booted_at: float | None = None
    begun_at: float | None = None
    run: str = ""
    modules: tuple[str, ...] = ()
    starts: bool = True
    host_key: str = f"ssh-ed25519 {'A' * 68}"

    def begin(self, run: str, modules: Sequence[str], now: float) -> None:
        if self.starts:
            before = self.report(now)
            told = before.modules if before is not None else ()
            self.present |= {one.name for one in told if one.state in ("present", "done")}
            self.run, self.modules, self.begun_at = run, tuple(modules), now

    def report(self, now: float) -> GuestReport | None:
        if self.begun_at is None:
            return None
        left = now - self.begun_at
        states: list[ModuleState] = []
        state = "done"
        for name in self.modules:
            kind, why = self.outcomes.get(name, ("present" if name in self.present else "done", ""))
            cost = 0.0 if kind == "present" else self.module_seconds
            cost += self.restart_seconds if kind == "reboot" else 0.0
            module = self.spec.module(name)
            assert module is not None
            if state != "done" or left < cost:
                if state == "done":
                    state = "reboot" if kind == "reboot" and left >= self.module_seconds else "running"
                states.append(ModuleState(name=name, state="waiting"))
                continue
            left -= cost
            kind = "done" if kind == "reboot" else kind
            states.append(
                ModuleState.model_validate({"name": name, "state": kind, "why": why, "digest": module.digest})
            )
            if kind in ("failed", "hand"):
                state = kind
        return GuestReport.model_validate(
            {
                "spec": self.spec.digest,
                "run": self.run,
                "state": state,
                "modules": states,
                "host_key": self.host_key,
            }
        )

    def is_restarting(self, now: float) -> bool:
        report = self.report(now)
        return report is not None and report.state == "reboot"


@dataclass
class GuestVCenter(FakeVCenter):
    """A vCenter whose VMs have guests, by the VM's name."""

    guests: dict[str, FakeGuest] = field(default_factory=dict)

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        found = super().read_vms(moids, extra_config_keys)
        return tuple(self._with_guest(vm) for vm in found)

    def _with_guest(self, vm: Vm) -> Vm:
        guest = self.guests.get(vm.name)
        if guest is None or vm.power_state is not PowerState.ON:
            return vm
        now = self.time.timestamp()
        if guest.booted_at is None:
            guest.booted_at = now
        detail = vm.detail or VmDetail()
        options = dict(detail.extra_config)
        is_seeded = options.get(SEED_KEY, "") not in ("", "---")
        if is_seeded and guest.has_cloud_init and guest.begun_at is None:
            guest.begin("first", guest.spec.carried, guest.booted_at + 30)
        report = guest.report(now) if guest.begun_at is not None and now >= guest.begun_at else None
        if report is not None and guest.has_tools:
            options[REPORT_KEY] = report.model_dump_json()
        seen = GuestSeen(tools_running=guest.has_tools, address="10.0.0.7" if guest.has_tools else "")
        return vm.model_copy(
            update={
                "detail": detail.model_copy(
                    update={
                        "extra_config": options,
                        "guest": seen,
                        "uptime_seconds": int(now - guest.booted_at),
                    }
                )
            }
        )


@dataclass
class FakeGuests:
    """The ways into the guests of a vCenter, and what stages them. `host_keys` are those of each bundle."""

    server: GuestVCenter
    refuses: dict[str, GuestError] = field(default_factory=dict)
    connections: list[GuestTarget] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    too_large: bool = False
    host_keys: list[dict[str, str]] = field(default_factory=list)

    # ------------------------------------------------------------- GuestShells

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        self.connections.append(target)
        if target.name in self.refuses:
            raise self.refuses[target.name]
        shell = FakeGuestShell(self, target.name)
        shell.check()
        return shell

    # ------------------------------------------------------------- GuestStager

    def seed(self, spec: GuestSpec) -> Mapping[str, str]:
        if self.too_large:
            raise GuestError("guestinfo.userdata would be 70000 bytes", subject=spec.vm, remedy="less of it")
        return {SEED_KEY: SECRET, f"{SEED_KEY}.encoding": "gzip+base64", "guestinfo.metadata": "meta"}

    def bundle(
        self, spec: GuestSpec, modules: Sequence[str], run: str, host_keys: Mapping[str, str]
    ) -> GuestBundle:
        self.host_keys.append(dict(host_keys))
        files = tuple(
            GuestFile(path=f"/var/lib/vgpu-cfg/secrets/{name}", content=SECRET, mode=0o600)
            for name in modules
        )
        return GuestBundle(spec=spec.digest, files=files, command=("stage", "--run", run, *modules))

    def mark(self, spec: GuestSpec, modules: Sequence[str], before: str, host_keys: Mapping[str, str]) -> str:
        staged = parse_mark(before)
        for name in modules:
            module = spec.module(name)
            assert module is not None
            staged[name] = StagedModule(digest=module.digest)
        return print_mark(staged)

    def former_host_key(self, vm: str, mark: str) -> str:
        del vm, mark
        return ""


@dataclass
class FakeGuestShell:
    """A login in one guest; while it restarts nothing answers."""

    guests: FakeGuests
    name: str

    @property
    def guest(self) -> FakeGuest:
        return self.guests.server.guests[self.name]

    def now(self) -> float:
        return self.guests.server.time.timestamp()

    def check(self) -> None:
        booted = self.guest.booted_at if self.guest.booted_at is not None else self.now()
        if self.now() < booted + self.guest.answers_from or self.guest.is_restarting(self.now()):
            raise GuestNotReady("no SSH service is listening", subject=self.name, remedy="wait")

    def run(
        self, arguments: Sequence[str], *, timeout_seconds: float = 60.0, stdin: bytes = b""
    ) -> ShellResult:
        self.check()
        return ShellResult(status=0, stdout="status: done\n/usr/bin/find\n")

    def start(self, arguments: Sequence[str]) -> None:
        self.check()
        _, _, run, *modules = arguments
        self.guest.begin(run, modules, self.now())

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        self.check()
        self.guest.files[path] = (content, mode)

    def read_file(self, path: str) -> bytes | None:
        self.check()
        report = self.guest.report(self.now()) if path == REPORT_FILE else None
        if report is not None:
            return json.dumps(report.model_dump(mode="json")).encode()
        return self.guest.files[path][0] if path in self.guest.files else None

    def close(self) -> None:
        self.guests.closed.append(self.name)
