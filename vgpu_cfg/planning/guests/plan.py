"""The guests of one plan: their specs, findings and changes, in the order in which planning asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.desired import DesiredPlan, DesiredPower
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Change, Placement, StageGuest
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.findings.wording import listed
from vgpu_cfg.planning.guests.drivers import guest_branches, host_branches
from vgpu_cfg.planning.guests.guest_checks import check_guest, check_secrets, check_system, check_way_in
from vgpu_cfg.planning.guests.nics import Addresses
from vgpu_cfg.planning.guests.peers import make_team
from vgpu_cfg.planning.guests.report_checks import (
    HandOnHost,
    check_keys,
    check_mark,
    check_report,
    hands_on_hosts,
    restart_steps,
)
from vgpu_cfg.planning.guests.specs import guest_specs
from vgpu_cfg.planning.guests.stage import GuestTurn, known_of, order_stages, restarting, stage_guest
from vgpu_cfg.planning.guests.training_checks import check_training
from vgpu_cfg.planning.vms.lookup.case import Case


class GuestPlanner:
    """Plans the guests, once VMs have their places and their other changes."""

    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        addresses: Addresses,
        placements: Sequence[Placement],
        options: PlanOptions,
        findings: Findings,
    ) -> None:
        self.desired, self.options, self.findings = desired, options, findings
        self.team = make_team(desired, addresses)
        branches = host_branches(desired, observed)
        self.host_branch = {one.vm: branches.get(one.host_moid, "") for one in placements}
        takes = {vm: guest_branches(branch) for vm, branch in self.host_branch.items()}
        self.specs = guest_specs(desired, addresses, takes, self.team)
        if self.team is not None:
            check_training(desired, self.team, addresses, findings)
        self._hands: list[HandOnHost] = []

    def stage(self, cases: Sequence[Case], changes: Sequence[Change], in_sync: list[str]) -> list[Change]:
        """Return the changes of VMs with those of their guests; a VM whose guest differs is not in sync."""
        own: dict[str, list[Change]] = {}
        for change in changes:
            own.setdefault(change.subject.name, []).append(change)
        stages: dict[str, StageGuest] = {}
        turns = []
        for case in cases:
            turn = self._turn(case, own.get(case.name, []))
            if turn is None:
                continue
            turns.append((case, turn))
            staged = self._plan_guest(case, turn)
            if staged is not None:
                stages[case.name] = staged
                if case.name in in_sync:
                    in_sync.remove(case.name)
        self._hands = hands_on_hosts(turns)
        return _beside_their_vms(changes, stages)

    def order(self, changes: Sequence[Change]) -> list[Change]:
        """Put guests in line, once it is clear which part of the plan is wanted."""
        return order_stages(restart_steps(self._hands, changes), self.team)

    def _turn(self, case: Case, changes: Sequence[Change]) -> GuestTurn | None:
        """Return a VM whose guest is to be looked at; None where there is nothing to stage or nowhere."""
        spec = self.specs.get(case.name)
        is_left = "guest" in case.desired.ignore or (case.existing is None and not changes)
        if spec is None or is_left or not check_system(case, self.findings):
            return None
        existing = case.existing
        return GuestTurn(
            spec=spec,
            known=known_of(existing.detail if existing is not None else None),
            moid=existing.moid if existing is not None else None,
            host_moid=case.host.moid if case.host is not None else None,
            is_on=existing is not None and existing.is_on,
            changes=changes,
        )

    def _plan_guest(self, case: Case, turn: GuestTurn) -> StageGuest | None:
        fingerprints: Mapping[str, str] = self.options.fingerprints
        is_reached = check_way_in(case, turn, self.findings)
        check_guest(case, turn, self.host_branch.get(case.name, ""), self.findings)
        check_secrets(case, turn, fingerprints, self.findings)
        check_report(case, turn, self.findings)
        check_mark(case, turn, self.findings)
        check_keys(case, turn, fingerprints, self.findings)
        change = stage_guest(turn, fingerprints)
        if not turn.will_run:
            self._tell_off(case, turn)
        elif change is not None and is_reached:
            self._judge_restart(case, turn, change)
        return change

    def _tell_off(self, case: Case, turn: GuestTurn) -> None:
        why = "is to be off" if case.desired.power is DesiredPower.OFF else "is off, and stays so"
        message = f"it {why}: its guest is staged by the first run that finds it on"
        remedy = "apply again once it runs"
        if turn.is_new and turn.spec.by == "cloud-init" and not turn.spec.login.user:
            message += ", and by then cloud-init has had its first boot"
            remedy = "let the plan power it on first, or write `guest.login` for a way in later"
        self.findings.add_vm(Code.GUEST_STAYS_OFF, case.desired, message, remedy)

    def _judge_restart(self, case: Case, turn: GuestTurn, change: StageGuest) -> None:
        modules = [one for one in turn.spec.modules if one.kind in change.modules]
        names = restarting(turn, modules)
        if names and not self.options.allow_power_cycle:
            message = f"{listed(names)} may restart its guest, which runs: a power cycle is needed"
            remedy = "allow it with --allow-power-cycle"
            self.findings.add_vm(Code.POWER_CYCLE_NOT_ALLOWED, case.desired, message, remedy)


def _beside_their_vms(changes: Sequence[Change], stages: Mapping[str, StageGuest]) -> list[Change]:
    """Put each guest's change after the last one of its VM, those of VMs that are left alone at the end."""
    last = {change.subject.name: index for index, change in enumerate(changes)}
    joined: list[Change] = []
    for index, change in enumerate(changes):
        joined.append(change)
        name = change.subject.name
        if last[name] == index and name in stages:
            joined.append(stages[name])
    joined += [change for name, change in stages.items() if name not in last]
    return joined
