"""A lab on which a proposal of moves is carried out as somebody would in vCenter, and the plan after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from pyVmomi import vim

from tests.fakes.fake_locks import undisputed
from tests.plans.estate import PLAN_ID
from tests.properties.estates import Wanted, open_estate, together
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.execution import Run, RunOptions
from vgpu_cfg.lab.rules import admission
from vgpu_cfg.lab.state.inventory import Host, Task, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.moves.rebalance import Move, MoveMethod, Rebalance, plan_rebalance
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

CATALOG = load_catalog()


class StandingClock:
    """Tells the time; nothing here waits for it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def pause(self, seconds: float) -> None:
        del seconds


@dataclass
class Desk:
    """A lab, a session to it and the plan file of whoever sits there."""

    lab: Lab
    desired: DesiredPlan
    reader: VCenterReader
    writer: VCenterWriter

    def propose(self) -> Rebalance:
        return plan_rebalance(self.desired, self.read(), CATALOG, PlanOptions())

    def plan(self) -> Plan:
        return make_plan(self.desired, self.read(), CATALOG, PlanOptions())

    def apply(self) -> None:
        """Plan and apply; every VM of the plan must run then, and nothing be left to do."""
        plan = self.plan()
        assert not plan.errors, plan.errors
        report = Run(
            plan,
            self.reader,
            self.writer,
            StandingClock(),
            locks=undisputed(),
            options=RunOptions(parallel=8, per_host=4),
        ).carry_out()
        assert not report.failed, report.failed
        names = {vm.name for vm in self.desired.vms}
        assert names <= {vm.name for vm in self.lab.state.all(VirtualMachine) if vm.is_on}

    def make(self, moves: Sequence[Move]) -> None:
        """Make the moves in their order: cold ones are off first, and powered on last."""
        cold = [move for move in moves if move.how is MoveMethod.COLD]
        for move in cold:
            self._done(move, "PowerOffVM_Task")
        for move in moves:
            target = next(host for host in self.lab.state.all(Host) if host.name == move.target)
            if move.how is MoveMethod.VMOTION:
                self._done(
                    move, "MigrateVM_Task", host=vim.HostSystem(target.moid), priority="defaultPriority"
                )
            else:
                spec = vim.vm.RelocateSpec(host=vim.HostSystem(target.moid))
                self._done(move, "RelocateVM_Task", spec=spec)
                self._done(move, "PowerOnVM_Task")

    def where(self, name: str) -> str:
        vm = next(one for one in self.lab.state.all(VirtualMachine) if one.name == name)
        assert vm.is_on
        return self.lab.state.get(vm.host, Host).name

    def _done(self, move: Move, method: str, **arguments: Any) -> None:
        vm = self.lab.state.get(move.moid, VirtualMachine)
        task = self.lab.call(vm, method, **arguments)
        self.lab.run_until_idle()
        ended = self.lab.state.get(task.moid, Task)
        assert ended.state == "success", (move.vm, method, ended.fault)

    def read(self) -> Any:
        scope = ReadScope(
            plan=self.desired.identity,
            vm_names=frozenset(vm.name for vm in self.desired.vms),
            template_names=frozenset({"ubuntu", "ubuntu-22.04-efi"}),
        )
        return self.reader.read_inventory(scope)


@contextmanager
def desk(lab: Lab, desired: DesiredPlan) -> Iterator[Desk]:
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        desired = desired.model_copy(update={"id": PLAN_ID})
        yield Desk(lab, desired, VCenterReader(session, StandingClock()), VCenterWriter(session))


def fewest_moves(estate: dict[str, Any], wanted: tuple[Wanted, ...], most: int) -> int | None:
    """Search through all sets of VMs that leave their hosts, and all ways to place them and the wanted ones.

    What a GPU takes is asked of the lab's rules, without ESXi's choice; None where no such set is enough.
    """
    movable = estate["vms"]
    for count in range(most + 1):
        for chosen in combinations(movable, count):
            if _makes_room(estate, wanted, chosen):
                return count
    return None


def _makes_room(estate: dict[str, Any], wanted: tuple[Wanted, ...], chosen: Sequence[dict[str, Any]]) -> bool:
    lab = open_estate(estate)
    names = {vm["name"] for vm in chosen}
    for vm in list(lab.state.all(VirtualMachine)):
        if vm.name in names:
            admission.stop(lab.state, vm)
    lines = (*wanted, *(Wanted((vm["gpus"][0]["profile"],), 1, memory_gib=4) for vm in chosen))
    goal = tuple(line.count for line in lines)
    reached = {(0,) * len(lines)}
    for host in lab.state.all(Host):
        own = {
            counts
            for counts in together(lab, host, lines)
            if not any(
                counts[len(wanted) + place] and vm["host"] == host.name for place, vm in enumerate(chosen)
            )
        }
        totals = (tuple(map(sum, zip(before, more, strict=True))) for before in reached for more in own)
        reached = {one for one in totals if all(a <= b for a, b in zip(one, goal, strict=True))}
    return goal in reached
