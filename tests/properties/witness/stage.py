"""A lab full of strangers, commands that a user types on it, and what was shown and experienced meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.host_watch import state_file
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.cli.flows.running import run_flow
from vgpu_cfg.execution import Run
from vgpu_cfg.lab.operations.vms.drafts import device_name
from vgpu_cfg.lab.state.devices import network_of, nics_of
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine
from vgpu_cfg.lab.state.managed import Entry
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY

PLAN_ID = "6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e07"
ESTATE, PLAN = "estate.yaml", "plan.yaml"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan as it was run, what it was made of, standard output by then, and the changes that were done."""

    plan: Plan
    observed: Inventory
    text: str
    done: frozenset[str]


@dataclass(frozen=True, slots=True)
class Witnessed:
    """One command: what it showed before its first change, and what the diaries say afterwards.

    `strangers` maps the moids of VMs that are not the plan's to their names, `own` those that are.
    `busy` pairs names of VMs with the words in which a plan says that something in their guests ends.
    `changed` are the moids of VMs and hosts that are not as they were, whatever their diaries say.
    `foreign_devices` are NICs and GPUs of others in own VMs: the VM's name and the device's label.
    """

    ran: Ran
    shown: tuple[Shown, ...]
    diary: tuple[Entry, ...]
    strangers: Mapping[str, str]
    own: Mapping[str, str]
    foreign_disks: frozenset[str] = frozenset()
    foreign_devices: frozenset[tuple[str, str]] = frozenset()
    busy: frozenset[tuple[str, str]] = frozenset()
    changed: frozenset[str] = frozenset()


@dataclass(slots=True)
class Stage:
    """One folder with one estate and one plan file, on which commands are run again and again.

    `known` are states of the lab after an estate's first plan. `carried_out` counts commands that
    changed something.
    """

    vgpu_cfg: CommandLine
    patch: pytest.MonkeyPatch
    known: dict[str, bytes] = field(default_factory=dict)
    foreign_disks: set[str] = field(default_factory=set)
    foreign_devices: set[tuple[str, str]] = field(default_factory=set)
    carried_out: int = 0

    def build(self, estate: Row) -> None:
        """Let the lab be as an estate makes it."""
        self.vgpu_cfg.write(ESTATE, json.dumps(estate))
        self.vgpu_cfg.script(ESTATE)
        self._state.unlink(missing_ok=True)
        self.foreign_disks.clear()
        self.foreign_devices.clear()

    def build_with(self, estate: Row, plan: Row) -> None:
        """Let the lab be as an estate and a plan that was applied to it make it; both are done only once."""
        self.build(estate)
        key = json.dumps([estate, plan])
        if key not in self.known:
            self.write(plan)
            self.vgpu_cfg.done("apply", "--yes", "--allow=network", PLAN)
            self.known[key] = self._state.read_bytes()
        self._state.write_bytes(self.known[key])

    def write(self, plan: Row) -> None:
        """Write the plan file."""
        self.vgpu_cfg.write(PLAN, json.dumps({"version": 1, "name": "own", "id": PLAN_ID} | plan))

    @property
    def _state(self) -> Path:
        return self.vgpu_cfg.folder / state_file(self.vgpu_cfg, ESTATE)

    def run(self, *words: str) -> Witnessed:
        """Run a command, and tell what was shown and what was experienced."""
        before = self._look()
        were = _facts(before)
        vms = before.all(VirtualMachine)
        names = {vm.moid: vm.name for vm in vms}
        own = {vm.moid for vm in vms if _is_own(vm)}
        shown: list[Shown] = []
        with self.patch.context() as patch:
            patch.setattr(Run, "carry_out", noting(Run.carry_out, shown))
            patch.setattr(run_flow, "_read_back", lambda *_: None)  # a quarter of the time
            ran = self.vgpu_cfg(*words)
        after = self._look()
        are = _facts(after)
        self.carried_out += bool(shown)
        return Witnessed(
            ran=ran,
            shown=tuple(shown),
            diary=tuple(after.diary[len(before.diary) :]),
            strangers={moid: name for moid, name in names.items() if moid not in own},
            own={moid: names[moid] for moid in own},
            foreign_disks=frozenset(self.foreign_disks),
            foreign_devices=frozenset(self.foreign_devices),
            changed=frozenset(moid for moid, facts in were.items() if are.get(moid) != facts),
            busy=frozenset((vm.name, text) for vm in vms for text in _endings(vm)),
        )

    def _look(self) -> LabState:
        lab = self.vgpu_cfg.lab(ESTATE)
        lab.settle()
        return lab.state


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """Yield a stage in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESXI_PASSWORD", "lab")
        patch.setenv("COLUMNS", "200")
        yield Stage(CommandLine(folder, patch), patch)


def _is_own(vm: VirtualMachine) -> bool:
    return PLAN_ID in vm.extra_config.get(MARK_PLAN_KEY, "")


def _facts(state: LabState) -> dict[str, tuple[object, ...]]:
    """Return what of each VM and host a change would show, but for what this tool keeps in its settings."""
    found: dict[str, tuple[object, ...]] = {}
    for vm in state.all(VirtualMachine):
        extra = {key: text for key, text in vm.extra_config.items() if "vgpu_cfg" not in key}
        devices = {
            key: (device_name(one), getattr(one, "capacityInKB", 0)) for key, one in vm.devices.items()
        }
        networks = [network_of(nic) for nic in nics_of(vm.devices)]
        settings = vm.cpus, vm.memory_mib, vm.hardware_version, vm.parent
        found[vm.moid] = (vm.name, vm.power_state, vm.host, vm.datastore, *settings, extra, devices, networks)
    for host in state.all(Host):
        modes = [
            (gpu.pci_id, gpu.mig_enabled, gpu.ecc_enabled, gpu.vgpu_mode, gpu.graphics_type)
            for gpu in host.gpus
        ]
        mtus = {name: switch.mtu for name, switch in host.switches.items()}
        found[host.moid] = (host.in_maintenance, host.boot_time, modes, mtus)
    return found


def _endings(vm: VirtualMachine) -> Iterator[str]:
    """Yield in which words a plan says that it ends something that runs in a VM's guest."""
    for one in vm.made_guest.workloads if vm.made_guest is not None else ():
        yield from ["containers"] * bool(one.runtime)
        yield from ["the worker container"] * (one.container == "vgpu-cfg-worker")
        yield from ["processes on the GPU"] * one.uses_gpu


def noting(carry_out: Callable[[Run], Report], shown: list[Shown]) -> Callable[[Run], Report]:
    """Return `carry_out`, noting what standard output held when it began."""

    def noted(run: Run) -> Report:
        out = sys.stdout
        text = out.getvalue() if hasattr(out, "getvalue") else ""
        report = None
        try:
            report = carry_out(run)
        finally:
            outcomes = report.outcomes if report is not None else ()
            done = frozenset(one.change_id for one in outcomes if one.status.value == "done")
            assert run.observed is not None
            shown.append(Shown(run.plan, run.observed, text, done))
        return report

    return noted
