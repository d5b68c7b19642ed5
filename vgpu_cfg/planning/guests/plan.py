"""The guests of one plan: their specs, findings and changes, in the order in which planning asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.changes.change import Change, StageGuest
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.guests.drivers import guest_drivers, host_branches
from vgpu_cfg.planning.guests.exposure_checks import check_exposure
from vgpu_cfg.planning.guests.guest_checks import (
    check_expired,
    check_guest,
    check_pinned,
    check_secrets,
    check_system,
    check_way_in,
)
from vgpu_cfg.planning.guests.key_checks import check_keys, check_replaced, check_rotation
from vgpu_cfg.planning.guests.nics import Addresses
from vgpu_cfg.planning.guests.peers import make_team
from vgpu_cfg.planning.guests.plan_keys import Held, KeysOfGuests
from vgpu_cfg.planning.guests.report_checks import (
    PendingRestart,
    check_mark,
    check_report,
    pending_restarts,
    restart_steps,
)
from vgpu_cfg.planning.guests.site_checks import check_site
from vgpu_cfg.planning.guests.specs import guest_specs
from vgpu_cfg.planning.guests.stage import (
    GuestUpdate,
    Knowledge,
    know,
    known_of,
    order_stages,
    restarting,
    stage_guest,
)
from vgpu_cfg.planning.guests.training_checks import check_training
from vgpu_cfg.planning.guests.wiring import planned_wirings
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


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
        is_strict = findings.severity_of(Code.GUEST_DRIVER_BRANCH) is Severity.ERROR
        takes = {vm: guest_drivers(one, is_strict=is_strict) for vm, one in self.host_branch.items()}
        wirings = planned_wirings(desired, observed, placements)
        self.specs = guest_specs(desired, addresses, takes, self.team, wirings)
        if self.team is not None:
            check_training(desired, self.team, addresses, findings)
        self.keys = KeysOfGuests.of(options, desired.identity, observed)
        check_rotation(desired, observed, self.keys, options.rotate, findings)
        now = observed.read_at
        self._expired = {name: end for name, end in options.expiries.items() if end <= now}
        self._restarts: list[PendingRestart] = []

    def stage(
        self, resolved_vms: Sequence[ResolvedVm], changes: Sequence[Change], in_sync: list[str]
    ) -> list[Change]:
        """Return the changes of VMs with those of their guests; a VM whose guest differs is not in sync."""
        own: dict[str, list[Change]] = {}
        for change in changes:
            own.setdefault(change.subject.name, []).append(change)
        found = [(one, self._update(one, own.get(one.name, []))) for one in resolved_vms]
        updates = [(resolved, update) for resolved, update in found if update is not None]
        knowledge = know([update for _, update in updates], self.options.fingerprints)
        stages: dict[str, tuple[StageGuest, ...]] = {}
        for resolved, update in updates:
            staged = self._plan_guest(resolved, update, knowledge)
            if staged:
                stages[resolved.name] = staged
        in_sync[:] = [name for name in in_sync if name not in stages]
        self._restarts = pending_restarts(updates)
        return _beside_their_vms(changes, stages)

    def order(self, changes: Sequence[Change]) -> list[Change]:
        """Put guests in line, once it is clear which part of the plan is wanted."""
        return order_stages(restart_steps(self._restarts, changes), self.team)

    def _update(self, resolved: ResolvedVm, changes: Sequence[Change]) -> GuestUpdate | None:
        """Return a VM whose guest is to be looked at; None where there is nothing to stage or nowhere."""
        spec = self.specs.get(resolved.name)
        is_left = "guest" in resolved.desired.ignore or (resolved.existing is None and not changes)
        if spec is None or is_left or not check_system(resolved, self.findings):
            return None
        existing = resolved.existing
        return GuestUpdate(
            spec=spec,
            known=known_of(existing.detail if existing is not None else None, is_exposed=spec.is_exposed),
            moid=existing.moid if existing is not None else None,
            host_moid=resolved.host.moid if resolved.host is not None else None,
            is_on=existing is not None and existing.is_on,
            changes=changes,
        )

    def _plan_guest(
        self, resolved: ResolvedVm, update: GuestUpdate, knowledge: Knowledge
    ) -> tuple[StageGuest, ...]:
        held = self.keys.held_by(update.known.mark_text, is_on=update.will_run)
        if held in (Held.UNSEEN, Held.FOREIGN):
            # Fingerprints are told by the keys, too: with others they say nothing of any secret.
            knowledge = replace(knowledge, fingerprints={})
        is_reached = check_way_in(resolved, update, self.findings)
        check_exposure(resolved, update, self.specs, self.findings)
        check_guest(resolved, update, self.host_branch.get(resolved.name, ""), self.findings)
        check_site(resolved, update, self.desired, self.findings)
        check_keys(resolved, update, held, self.keys, self.desired, self.findings)
        if held not in (Held.UNSEEN, Held.FOREIGN):
            check_secrets(resolved, update, knowledge.fingerprints, self.findings)
        check_report(resolved, update, self.findings)
        check_mark(resolved, update, self.findings)
        changes = stage_guest(
            update,
            knowledge,
            again=self.options.rotate,
            other="new keys" if held is Held.FORMER else "other secret",
        )
        check_replaced(resolved, update, changes, self.options.rotate, self.findings)
        kinds = {kind for change in changes for kind in change.modules}
        brought = [module for module in update.spec.modules if module.kind in kinds]
        check_expired(resolved.desired, brought, self._expired, self.findings)
        check_pinned(resolved, update, changes, self.desired, self.findings)
        if not update.will_run:
            self._report_off(resolved, update)
        elif changes and is_reached:
            self._assess_restart(resolved, update, changes)
        return changes

    def _report_off(self, resolved: ResolvedVm, update: GuestUpdate) -> None:
        why = "is to be off" if resolved.desired.power is DesiredPower.OFF else "is off, and stays so"
        message = f"it {why}: its guest is staged by the first run that finds it on"
        remedy = "apply again once it runs"
        if update.is_new and update.spec.by == "cloud-init" and not update.spec.login.user:
            message += ", and by then cloud-init has had its first boot"
            remedy = "let the plan power it on first, or write `guest.login` for a way in later"
        self.findings.add_vm(Code.GUEST_STAYS_OFF, resolved.desired, message, remedy)

    def _assess_restart(
        self, resolved: ResolvedVm, update: GuestUpdate, changes: Sequence[StageGuest]
    ) -> None:
        names_of_all = {name for change in changes for name in change.modules}
        modules = [one for one in update.spec.modules if one.kind in names_of_all]
        names = restarting(update, modules)
        if names and not self.options.allow_power_cycle:
            message = f"{listed(names)} may restart its guest, which runs: a power cycle is needed"
            remedy = "allow it with --allow-power-cycle"
            self.findings.add_vm(Code.POWER_CYCLE_NOT_ALLOWED, resolved.desired, message, remedy)


def _beside_their_vms(
    changes: Sequence[Change], stages: Mapping[str, tuple[StageGuest, ...]]
) -> list[Change]:
    """Put each guest's changes after the last one of its VM, those of VMs that are left alone at the end."""
    last = {change.subject.name: index for index, change in enumerate(changes)}
    joined: list[Change] = []
    for index, change in enumerate(changes):
        joined.append(change)
        name = change.subject.name
        if last[name] == index and name in stages:
            joined += stages[name]
    joined += [change for name, staged in stages.items() if name not in last for change in staged]
    return joined
