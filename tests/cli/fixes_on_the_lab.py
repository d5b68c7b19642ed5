"""A refused case built in the lab, its fix carried out to the letter, and each VM that ran asked after it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pyVmomi import vim

from tests.cli.case_estate import NotInTheLab, complete, estate_of, host_driver
from tests.cli.command_line import CommandLine
from tests.plans.planned import QUOTAS, inventory_of
from tests.plans.tables import case_of
from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.state.cluster import Cluster
from vgpu_cfg.lab.state.inventory import Host, Task, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.shells.keys import Ed25519Pair, PlanKeyRing

ESTATE = "case.yaml"
GUEST_DRIVER = "580.95.05"
_FLAGS = {"allow_power_cycle": "--allow-power-cycle", "allow_move": "--allow-move"}
_FAILED, _BY_HAND = 6, 7
"""The exit codes of a run of which a VM failed, as where a check was relaxed, and that waits for a hand."""


class NotCarriedOut(Exception):
    """A fix has an act that no command does, or none that the lab is asked for here."""


@dataclass
class Judged:
    """What came of a fix: how many VMs that ran were judged, or why none was; what is not as was said."""

    outcome: str
    vms: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.outcome or f"{self.vms} as was said"


def judge(case: str, run: CommandLine) -> list[Judged]:
    """Judge each fix of a case, each on an estate of its own."""
    try:
        desk = Desk(case, run)
    except NotInTheLab as error:
        return [Judged(f"not in the lab: {error}")]
    refused = run("plan", "plan.yaml", "--output", "json", *desk.flags)
    if refused.code != 4:
        return [Judged(f"not refused in the lab: exit {refused.code}")]
    fixes = json.loads(refused.out)["fixes"]
    return [_judged(Desk(case, run), fix) for fix in fixes] or [Judged("no fix")]


def _judged(desk: Desk, fix: dict[str, Any]) -> Judged:
    try:
        flags = list(desk.carry_out(fix["parts"]))
    except NotCarriedOut as error:
        return Judged(f"not carried out: {error}")
    name = "plan.yaml"
    if fix["text"]:
        name = "fixed.yaml"
        desk.run.write(name, fix["text"])
    applied = desk.run("apply", "--yes", name, *desk.flags, *flags)
    found = Judged("")
    is_risk = applied.code == _FAILED and any("to a warning" in part["says"] for part in fix["parts"])
    if applied.code not in (0, _BY_HAND) and not is_risk:
        return Judged("", wrong=[f"apply ends with {applied.code}: {applied.told[-400:]}"])
    desk.ask(fix["others"], found, is_whole=applied.code == 0)
    return found


@cache
def _login_key() -> Ed25519Pair:
    return PlanKeyRing(b"the key of an admin, as long as seeds are").login_key()


def _secret(name: str, plan: str) -> str:
    """Return a value that a plan can use a secret for."""
    if f'"key": {{"secret": "{name}"}}' in plan:
        return _login_key().private
    return "AAAAA-BBBBB-CCCCC-DDDDD-EEEEE" if f'"licence": {{"secret": "{name}"}}' in plan else "s3cret"


def _guest(plan: str, observed: Inventory) -> dict[str, Any]:
    """Return a guest that has what a plan relies on and cannot see: a driver, files, and an account."""
    versions = [host_driver(host, observed) for host in observed.hosts]
    return {
        "driver": next(filter(None, versions), GUEST_DRIVER),
        "files": dict.fromkeys(re.findall(r'"(/[^"]+\.(?:deb|rpm|run))"', plan), "a package"),
        "account": {"user": "ubuntu", "password": "s3cret", "keys": [_login_key().public]},
    }


class Desk:
    """A lab of the case's estate, the plan file beside it, and whoever does the acts."""

    def __init__(self, case: str, run: CommandLine) -> None:
        self.run, self.case, self.observed = run, case, inventory_of(case)
        row = case_of(case)
        rows = (row.estate.get("vms") or {}).values()
        if "former_keys" in row.options or any("staged" in (vm or {}) for vm in rows):
            raise NotInTheLab("guests that were set up before")
        macs = {nic.mac for vm in self.observed.vms if vm.detail is not None for nic in vm.detail.nics}
        is_handed_through = "'mac'" in str(row.plan) and "'passthrough'" in str(row.plan)
        if is_handed_through or any(mac and mac in str(row.plan) for mac in macs):
            raise NotInTheLab("the MAC addresses of its VMs, or of NICs")
        self.flags = [flag for key, flag in _FLAGS.items() if row.options.get(key)]
        for key in ("only", "delete", "rotate"):
            self.flags += [f"--{key}={one}" for one in row.options.get(key, ())]
        if "allow_destroy" in row.options:
            self.flags.append(f"--allow-destroy={row.options['allow_destroy']}")
        if QUOTAS in row.files:
            self.flags.append(f"--quotas={QUOTAS}")
        for name, text in row.files.items():
            run.write(name, text)
        text = json.dumps(row.plan)
        plan = json.loads(text) | {"vcenter": f"lab:./{ESTATE}"}
        self.environment = {f"CASE_{name}": _secret(name, text) for name in plan.get("secrets", ())}
        if self.environment:
            plan["secrets"] = {name: f"env:CASE_{name}" for name in plan["secrets"]}
        run.write("plan.yaml", dump(plan))
        estate = estate_of(self.observed)
        for vm in (*estate["templates"], *estate["vms"]):
            vm["guest"] = _guest(text, self.observed)
        run.write(ESTATE, json.dumps(estate))
        for folder in (run.state_folder / "lab").glob("case*"):
            shutil.rmtree(folder)
        try:
            self._lab = run.lab(f"./{ESTATE}")
        except DocumentError as error:
            raise NotInTheLab(str(error)) from error
        complete(self._lab, self.observed)

    @property
    def lab(self) -> Lab:
        """The lab, as commands have left it."""
        self._lab.settle()
        return self._lab

    def carry_out(self, parts: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Do the acts outside as their commands say, and yield the flags for the next run."""
        for part in parts:
            if part["kind"] == "flag" and not part["command"]:
                raise NotCarriedOut("an option that is left away")
            if part["kind"] == "flag":
                yield from shlex.split(part["command"])
            elif part["kind"] == "outside":
                if not part["command"]:
                    raise NotCarriedOut("an act without a command")
                for line in (part["command"], *part["then"]):
                    self._type(shlex.split(line))

    def _type(self, words: Sequence[str]) -> None:
        program, command, *rest = words
        name = rest[-1].rpartition("/")[2] if rest else ""
        match program, command:
            case "vgpu-cfg", "uncordon":
                self.run.done(command, *rest, "--yes", "--server", f"lab:./{ESTATE}")
            case "govc", "vm.migrate":
                assert self.move(self.vm(name), rest[1].rpartition("/")[2]) == "", words
            case "govc", "vm.power":
                method = "PowerOnVM_Task" if "-on" in rest else "PowerOffVM_Task"
                assert self.do(self.vm(name), method) == "", words
            case "govc", "host.maintenance.exit":
                assert self.do(self.host(name), "ExitMaintenanceMode_Task", timeout=0) == "", words
            case "govc", "host.reconnect":
                with (lab := self.lab).transaction():
                    host = next(host for host in lab.state.all(Host) if host.name == name)
                    host.connection = "connected"
                    lab.state.touch(host)
            case "govc", "cluster.change":
                with (lab := self.lab).transaction():
                    cluster = next(one for one in lab.state.all(Cluster) if one.name == name)
                    cluster.drs_enabled, cluster.drs_behavior = True, "fullyAutomated"
                    lab.state.touch(cluster)
            case _:
                raise NotCarriedOut(command)

    def ask(self, others: Sequence[dict[str, Any]], found: Judged, *, is_whole: bool) -> None:
        """Hold what was said of each VM that ran to what it does now."""
        told = {one["vm"]: one for one in others}
        ran = [vm for vm in self.observed.vms if vm.is_on]
        found.vms = len(ran)
        for vm in ran:
            one = told.get(vm.name)
            if one is None and not self.is_on(vm.name) and not vm.mark:
                found.wrong.append(f"{vm.name} is off, of which nothing was said")
            if one is not None and one["fate"] == "moved" and self.where(vm.name) != one["host"]:
                found.wrong.append(f"{vm.name} runs on {self.where(vm.name)}, not on {one['host']}")
        for one in sorted(others, key=lambda each: not each["host"]):
            name, host = one["vm"], one["host"]
            if host and one["fate"] in ("moved", "stopped"):
                self.do(self.vm(name), "PowerOffVM_Task") if self.is_on(name) else None
                if why := self.start(name, host):
                    found.wrong.append(f"{name} does not start on {host}: {why}")
            elif one["fate"] == "stopped":
                hosts = self.open_to(name) if is_whole else []
                taken = [each for each in hosts if not self.start(name, each)]
                found.wrong += [
                    f"{name} starts on {each}, where it was said that it cannot" for each in taken
                ]

    def open_to(self, name: str) -> list[str]:
        """Return the hosts that reach a VM's networks and files, and are not closed to it by a cordon."""
        vm = next(one for one in self.observed.vms if one.name == name)
        assert vm.detail is not None
        return [
            host.name
            for host in self.observed.hosts
            if self.observed.networks_of(vm.detail) <= host.network_moids
            and {*vm.detail.datastore_moids} <= host.datastore_moids
            and (host.moid == vm.host_moid or not host.cordons)
        ]

    def start(self, name: str, host: str) -> str:
        """Start a VM that is off on a host; return why it does not."""
        if self.where(name) != host and (why := self.move(self.vm(name), host)):
            return why
        return self.do(self.vm(name), "PowerOnVM_Task")

    def move(self, vm: VirtualMachine, host: str) -> str:
        target = vim.HostSystem(self.host(host).moid)
        if vm.is_on:
            return self.do(vm, "MigrateVM_Task", host=target, priority="defaultPriority")
        return self.do(vm, "RelocateVM_Task", spec=vim.vm.RelocateSpec(host=target))

    def do(self, thing: Any, method: str, **arguments: Any) -> str:
        lab = self.lab
        task = lab.call(thing.moid, method, **arguments)
        lab.run_until_idle()
        ended = lab.state.get(task.moid, Task)
        return "" if ended.state == "success" else str(getattr(ended.fault, "msg", ended.fault))

    def vm(self, name: str) -> VirtualMachine:
        return next(vm for vm in self.lab.state.all(VirtualMachine) if vm.name == name)

    def host(self, name: str) -> Host:
        return next(host for host in self.lab.state.all(Host) if host.name == name)

    def is_on(self, name: str) -> bool:
        return any(vm.name == name and vm.is_on for vm in self.lab.state.all(VirtualMachine))

    def where(self, name: str) -> str:
        return self.lab.state.get(self.vm(name).host, Host).name
