"""A fix, `fit --without`, `drain` and sets of moves agree on every VM that runs: how it moves, and where."""

from __future__ import annotations

from typing import Any

from tests.extent import examples
from tests.plans.by_table import TABLES, by_table, cases_of
from tests.plans.planned import desired_of, inventory_of, plan_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import PowerOffVm, RelocateVm
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.moves.movables import Movables
from vgpu_cfg.planning.upkeep.absence import How, think_away
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain
from vgpu_cfg.planning.vms.lookup.baseline import hosts_in_order
from vgpu_cfg.planning.vms.lookup.moving import running_vms
from vgpu_cfg.suggestions.candidate import Cost, Trial
from vgpu_cfg.suggestions.proposals.room import move_away
from vgpu_cfg.suggestions.situation import Situation

CATALOG = load_catalog()
NO_FILE: Any = None
"""No idea that is asked for here edits a plan file."""
Answer = tuple[bool, str]
"""Whether a VM moves as it runs, and the host; off and nowhere where it does not move."""
PART = examples(1, 6)
"""So many of each six cases are tried; all of them are the same law."""
NOWHERE: Answer = (False, "")


def alone(vm: Vm, observed: Inventory) -> Inventory:
    """Return the estate as if no other VM ran on a VM's host, so that nobody competes with it."""
    gone = {one.moid for one in observed.vms if one.is_on and one.host_moid == vm.host_moid} - {vm.moid}
    hosts = tuple(
        host.model_copy(
            update={
                "gpus": tuple(
                    gpu.model_copy(update={"vm_moids": tuple(m for m in gpu.vm_moids if m not in gone)})
                    for gpu in host.gpus
                )
            }
        )
        for host in observed.hosts
    )
    vms = tuple(one for one in observed.vms if one.moid not in gone)
    return observed.model_copy(update={"hosts": hosts, "vms": vms})


def by_fix(case: str, vm: Vm, observed: Inventory) -> Answer:
    trial = Trial("", NO_FILE, observed, plan_of(case))
    for idea in move_away(Situation(trial, CATALOG), [vm]):
        return idea.cost is Cost.MOVE, idea.says.partition(" to ")[2].partition(",")[0]
    return NOWHERE


def by_drain(case: str, vm: Vm, host: Host, observed: Inventory) -> Answer:
    options = DrainOptions("away", others=True)
    plan = make_drain(AwayHost(host), observed, CATALOG, desired_of(case), options).plan
    off = any(isinstance(one, PowerOffVm) for one in plan.changes)
    for change in plan.changes:
        if isinstance(change, RelocateVm) and change.vm.moid == vm.moid:
            return not off, change.destination.host_name
    return NOWHERE


def by_fit(case: str, vm: Vm, host: Host, observed: Inventory) -> Answer:
    (one,) = think_away(AwayHost(host), observed, CATALOG, desired_of(case)).vms
    return one.drained.how is How.VMOTION, one.drained.to


def may_go(case: str, vm: Vm, observed: Inventory) -> set[str]:
    """Return the hosts to which a set of moves would try to move a VM."""
    hosts, protection = hosts_in_order(observed), Protection.of(desired_of(case))
    finder = Movables(observed, hosts, CapacityReader(observed, CATALOG), protection, ())
    index = next(n for n, host in enumerate(hosts) if host.moid == vm.host_moid)
    return {hosts[at].name for one in finder.leaving(index, {vm.moid}) for at, _ in one.shape.hosts}


def running_in(table: str) -> list[str]:
    """Return a table's cases in which some VM runs; but of most tables a part, of each six."""
    cases = [case for case in cases_of(table) if any(vm.is_on for vm in inventory_of(case).vms)]
    return cases if table == "others_moved" else [case for n, case in enumerate(cases) if n % 6 < PART]


@by_table(running_in)
def test_all_commands_move_a_vm_alike(case: str) -> None:
    observed = inventory_of(case)
    for host in observed.hosts:
        if host.connection is not Connection.CONNECTED:
            continue
        for vm in running_vms(host, observed):
            estate = alone(vm, observed)
            here = next(one for one in estate.hosts if one.moid == host.moid)
            fixed = by_fix(case, vm, estate)
            assert fixed == by_drain(case, vm, here, estate) == by_fit(case, vm, here, estate), vm.name
            assert fixed == NOWHERE or fixed[1] in may_go(case, vm, estate), vm.name


def test_many_vms_are_asked_about() -> None:
    assert sum(len(running_in(table)) for table in TABLES) > 60
