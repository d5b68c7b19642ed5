"""The guests of one plan: their specs, findings and changes, in the order in which planning asks for them.

Findings follow from three things. A staged guest's report has failures, manual steps, and modules that are
not requested. Of a guest some parts are readable in vCenter, and secrets may have no private way in. A site
may conflict with guests: fetches from outside it, and mirrors that nothing uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface

from vgpu_cfg.changes.change import Change, ManualStep, StageGuest
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact, Placement, Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, DesiredSite
from vgpu_cfg.model.guests.base import Fetched, ModuleBase
from vgpu_cfg.model.guests.guest import REDACTED, USERDATA_KEY, GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, NetworkModule, SiteModule
from vgpu_cfg.model.guests.training_modules import ContainersModule, SshMeshModule
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file.guest_values import DEFAULT_REGISTRY
from vgpu_cfg.model.plan_file.site_values import host_of
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.guests.drivers import guest_drivers, host_branches
from vgpu_cfg.planning.guests.guest_checks import (
    check_expired,
    check_guest,
    check_keys,
    check_pinned,
    check_replaced,
    check_rotation,
    check_secrets,
    check_system,
    check_training,
    check_way_in,
)
from vgpu_cfg.planning.guests.peers import Addresses, make_team
from vgpu_cfg.planning.guests.plan_keys import Held, KeysOfGuests
from vgpu_cfg.planning.guests.specs import guest_specs, is_of_site, site_hosts, takes_mirror
from vgpu_cfg.planning.guests.stage import (
    GuestUpdate,
    Knowledge,
    know,
    known_of,
    launcher_of,
    order_stages,
    present_report,
    restarting,
    roll,
    stage_guest,
)
from vgpu_cfg.planning.guests.wiring import planned_wirings
from vgpu_cfg.planning.rdma.checks import restart_commands, restart_for_ats
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.new_vms import with_needs

FIRMWARE = "nic-firmware"
_WARNED = (
    "fix the problem in the guest or its template, then run `vgpu-cfg-stage` again; `verify` checks "
    "the result"
)


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
        self._observed = observed
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

    def order(self, changes: Sequence[Change], in_sync: list[str]) -> list[Change]:
        """Put guests in line, once it is clear which part of the plan is wanted."""
        ordered = order_stages(restart_steps(self._restarts, changes), self.team)
        launcher = launcher_of(self.team, self.desired, self._observed)
        rolled = roll(ordered, self.team, self.specs, self._observed, launcher)
        known = {one.id for one in ordered}
        asked = {one.subject.name for one in rolled if one.id not in known}
        in_sync[:] = [name for name in in_sync if name not in asked]
        return rolled

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
            other="new keys" if held is Held.FORMER else "secret changed",
            is_rolled=self._is_rolled(resolved.name),
        )
        check_replaced(resolved, update, changes, self.options.rotate, self.findings)
        kinds = {kind for change in changes for kind in change.modules}
        brought = [module for module in update.spec.modules if module.kind in kinds]
        check_expired(resolved.desired, brought, self._expired, self.findings)
        check_pinned(resolved, update, changes, self.desired, self.findings)
        check_way_out(resolved, update.spec, brought, self.desired.site, self.findings)
        if not update.will_run:
            self._report_off(resolved, update)
        elif changes and is_reached:
            self._assess_restart(resolved, update, changes)
        return changes

    def _is_rolled(self, name: str) -> bool:
        """Whether a VM is a worker whose training is paused on a checkpoint for its changes."""
        team = self.team
        if team is None or team.training.update is None or team.training.update.checkpoint is None:
            return False
        return any(one.vm.name == name for one in team.workers)

    def _report_off(self, resolved: ResolvedVm, update: GuestUpdate) -> None:
        why = "will be off" if resolved.desired.power is DesiredPower.OFF else "is off and remains off"
        message = f"the VM {why}; its guest will be staged in the next run after power-on"
        remedy = "power on the VM, then run `apply` again"
        if update.is_new and update.spec.by == "cloud-init" and not update.spec.login.user:
            message += ", but by then the first boot with cloud-init is over"
            remedy = "let the plan power it on first, or set `guest.login` for later access"
        self.findings.add_vm(Code.GUEST_STAYS_OFF, resolved.desired, message, remedy)

    def _assess_restart(
        self, resolved: ResolvedVm, update: GuestUpdate, changes: Sequence[StageGuest]
    ) -> None:
        names_of_all = {name for change in changes for name in change.modules}
        modules = [one for one in update.spec.modules if one.kind in names_of_all]
        names = restarting(update, modules)
        if names and not self.options.allow_power_cycle:
            message = f"staging {listed(names)} may restart the running guest, which counts as a power cycle"
            remedy = "to allow it, add --allow-power-cycle"
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


def check_report(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Show a guest's report on the spec that the plan requests now."""
    report = present_report(update.spec, update.known)
    if report is None:
        return
    failed = report.first_in("failed")
    if report.state == "failed" and failed is not None:
        why = failed.why or "the guest does not report a reason"
        message = f"{failed.name} failed in the guest: {why}"
        remedy = (
            "check /var/log/vgpu-cfg.log in the guest, fix the problem, and run `apply` again; completed "
            "modules are not repeated"
        )
        findings.add_vm(Code.GUEST_FAILED, resolved.desired, message, remedy)
    for module in report.modules:
        if module.state == "hand":
            message = (
                f"{module.name} requires a manual step: {module.why or 'the guest does not provide details'}"
            )
            remedy = (
                "restart the host; `apply` then continues"
                if module.name == FIRMWARE
                else "complete the step, and run `apply` again"
            )
            findings.add_vm(Code.GUEST_MANUAL_STEP, resolved.desired, message, remedy)
        if module.state == "warned":
            message = (
                f"{module.name} is installed with a limitation: "
                f"{module.why or 'its guest does not provide details'}"
            )
            findings.add_vm(Code.GUEST_WARNED, resolved.desired, message, _WARNED)


def check_mark(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Report staged modules that are no longer requested: they stay, since others may use them by now."""
    requested = {module.kind for module in update.spec.modules}
    left = [name for name in MODULE_ORDER if name in update.known.mark and name not in requested]
    foreign = sorted(update.known.mark.keys() - set(MODULE_ORDER))
    if left:
        message = f"the guest still has components that the plan no longer requests: {listed(left, shown=6)}"
        remedy = "if they cause problems, remove them from the guest"
        findings.add_vm(Code.GUEST_LEFTOVERS, resolved.desired, message, remedy)
    if foreign:
        message = (
            f"another release of vgpu-cfg staged {listed(foreign, shown=6)}, which this release does not "
            f"support"
        )
        findings.add_vm(
            Code.GUEST_LEFTOVERS, resolved.desired, message, "use that release, or keep these components"
        )


@dataclass(frozen=True, slots=True)
class PendingRestart:
    """A guest whose NIC firmware takes effect only when its host restarts."""

    vm: str
    host_name: str
    host_moid: str
    why: str


def pending_restarts(updates: Iterable[tuple[ResolvedVm, GuestUpdate]]) -> list[PendingRestart]:
    """List the guests that wait for their host's restart."""
    found = []
    for resolved, update in updates:
        report = present_report(update.spec, update.known)
        waiting = (
            [one for one in report.modules if (one.name, one.state) == (FIRMWARE, "hand")] if report else []
        )
        if waiting and resolved.host is not None:
            found.append(
                PendingRestart(resolved.name, resolved.host.name, resolved.host.moid, waiting[0].why)
            )
    return found


def restart_steps(restarts: Sequence[PendingRestart], changes: Sequence[Change]) -> list[Change]:
    """Put the manual restart of a host before the staging that sees its effect.

    A host that the plan itself restarts needs no manual step.
    """
    restarted = {change.host_moid for change in changes if change.restarts_host}
    steps: dict[str, ManualStep] = {}
    for hand in restarts:
        if hand.host_moid in restarted or hand.host_moid in steps:
            continue
        names = [one.vm for one in restarts if one.host_moid == hand.host_moid]
        steps[hand.host_moid] = ManualStep(
            id=f"restart {hand.host_name} for NIC firmware",
            subject=Subject(kind="host", name=hand.host_name, moid=hand.host_moid),
            text=(
                f"shut down {listed(names)}, restart {hand.host_name}, then power the VMs on again; "
                "restarting only the VMs does not activate the firmware settings. If Current still shows "
                "the old value, power-cycle the host"
            ),
            proof=(
                "in the guest, mlxconfig -e query shows the same value under Current and Next Boot "
                f"({hand.why})"
            ),
            commands=restart_commands(hand.host_name),
            impact=Impact.HOST_REBOOT,
            host_moid=hand.host_moid,
        )
    waiting = {hand.vm: steps[hand.host_moid].id for hand in restarts if hand.host_moid in steps}
    joined: list[Change] = list(steps.values())
    for change in changes:
        if change.host_moid in steps and change.id == restart_for_ats(steps[change.host_moid].subject.name):
            continue  # the same restart, for which no guest waits
        if FIRMWARE in change.staged and change.subject.name in waiting:
            joined.append(with_needs(change, (waiting[change.subject.name],)))
        else:
            joined.append(change)
    return joined


def check_exposure(
    resolved: ResolvedVm, update: GuestUpdate, specs: Mapping[str, GuestSpec], findings: Findings
) -> None:
    """Check the content of a clone, and the way of the rest into its guest. `specs` are those of all VMs."""
    vm, spec = resolved.desired, update.spec
    private = [one.kind for one in spec.modules if one.is_private]
    if spec.is_exposed and private:
        _check_mesh(resolved, spec, specs, findings)
        _check_left(resolved, listed(private), findings)
    if not (update.is_new and update.will_run and spec.by == "cloud-init"):
        return
    if private and spec.is_exposed:
        message = (
            f"`secrets: exposed`: its clone contains the secrets for {listed(private)}; anyone with read "
            "access to the VM's configuration or events can see them"
        )
        remedy = (
            "if the guest can be accessed over SSH or guest operations, remove this key; otherwise, change "
            "these secrets afterward"
        )
        findings.add_vm(Code.GUEST_SECRETS_EXPOSED, vm, message, remedy)
    elif private and not _has_way_in(resolved, spec):
        message = (
            f"the secrets for {listed(private)} cannot be delivered: the VM has no NIC for SSH, and no login "
            "with a password for guest operations"
        )
        remedy = "add a NIC; or set guest: {login: {user: …, password: {secret: …}}}, or {secrets: exposed}"
        findings.refuse_vm(Code.GUEST_SECRETS_NO_WAY, vm, message, remedy)
    if spec.user_data:
        message = (
            "its `user_data` is readable in the VM's configuration until the guest has read it, and "
            "possibly in events"
        )
        remedy = "do not include secrets in `user_data`"
        findings.add_vm(Code.USER_DATA_READABLE, vm, message, remedy)


def _check_left(resolved: ResolvedVm, private: str, findings: Findings) -> None:
    """Report secrets that a run left in a VM that is off: they stay there until its first boot."""
    existing = resolved.existing
    settings = existing.detail.extra_config if existing is not None and existing.detail is not None else {}
    if existing is None or existing.is_on or settings.get(USERDATA_KEY, "") in ("", REDACTED):
        return
    message = (
        f"the VM is powered off, and its configuration still contains the secrets for {private}, which are "
        "readable in vCenter"
    )
    remedy = (
        "apply the plan (the first boot removes the secrets) or destroy the VM; then change these secrets"
    )
    findings.add_vm(Code.GUEST_SECRETS_EXPOSED, resolved.desired, message, remedy)


def _check_mesh(
    resolved: ResolvedVm, spec: GuestSpec, specs: Mapping[str, GuestSpec], findings: Findings
) -> None:
    """Refuse a mesh in which some guests report their host key later, and one gets all at its first boot."""
    mesh = spec.get(SshMeshModule)
    others = [
        peer.vm for peer in (mesh.peers if mesh else ()) if peer.vm in specs and not specs[peer.vm].is_exposed
    ]
    if others:
        message = (
            f"the VM has `secrets: exposed`, but trains with {listed(others)}; their host keys "
            "are unknown at "
            f"its first boot"
        )
        remedy = "set `secrets: exposed` for all VMs that train together, or for none"
        findings.refuse_vm(Code.GUEST_SECRETS_MIXED, resolved.desired, message, remedy)


def _has_way_in(resolved: ResolvedVm, spec: GuestSpec) -> bool:
    """Whether ssh or guest operations may reach a guest; whether its network is reached is not known here."""
    if spec.login.user and spec.login.password is not None:
        return True
    base = resolved.base
    return bool(spec.addresses or resolved.desired.nics or base.nics or base.passthrough_nics)


def check_site(resolved: ResolvedVm, update: GuestUpdate, desired: DesiredPlan, findings: Findings) -> None:
    """Check one guest's modules to stage against the plan's site."""
    site = desired.site
    module = update.spec.get(SiteModule)
    if site is None or module is None:
        return
    runtime = module.runtime
    fetched = (one for staged in update.spec.modules for one in staged.describe().fetched)
    brought = list({(one.key, one.host): one for one in fetched}.values())
    unasked = sorted(
        {one.registry for one in brought if one.registry in site.registry_mirrors} - _asked(site, runtime)
    )
    if unasked:
        message = (
            f"docker uses mirrors only for images from {DEFAULT_REGISTRY}, not for images from "
            f"{listed(unasked)}"
        )
        remedy = "include the mirror's host in the image name; or set guest: {containers: containerd}"
        findings.add_vm(Code.SITE_MIRROR_UNASKED, resolved.desired, message, remedy)
    if not site.closed:
        return
    hosts = site_hosts(site)
    for one in brought:
        if not _is_within(one, site, hosts, runtime):
            where = one.registry or one.host
            message = f"the site is closed, but `{one.key}` points to {where}, which is outside the site"
            remedy = f"{_remedy(one, runtime)}; or add {one.host} to site.hosts"
            findings.add_vm(Code.SITE_LEFT, resolved.desired, message, remedy)
    if site.apt is None and not site.dnf and update.spec.get(ContainersModule) is not None:
        message = (
            "the site is closed and has no package mirror, so packages missing from the template cannot "
            "be installed"
        )
        remedy = (
            "set site: {apt: …} or {dnf: …}; or make sure that the template includes all staged components"
        )
        findings.add_vm(Code.SITE_WITHOUT_PACKAGES, resolved.desired, message, remedy)


def check_way_out(
    resolved: ResolvedVm,
    spec: GuestSpec,
    brought: Sequence[ModuleBase],
    site: DesiredSite | None,
    findings: Findings,
) -> None:
    """Report a guest whose NICs all have fixed addresses, and no route or name server for its downloads."""
    network = spec.get(NetworkModule)
    nics = network.nics if network is not None else ()
    if len(nics) < max(1, len(resolved.desired.nics)) or any(nic.dhcp or nic.gateway for nic in nics):
        return
    if site is not None and site.closed:
        return
    subnets = [ip_interface(address).network for nic in nics for address in nic.addresses]
    has_names = any(_is_near(server, subnets, has_names=False) for nic in nics for server in nic.dns)
    hosts = {one.host for module in brought for one in module.describe().fetched}
    if hosts and site is not None and site.proxy is not None:
        hosts = {host_of(site.proxy.https or site.proxy.http or "")}
    far = sorted(host for host in hosts if host and not _is_near(host, subnets, has_names=has_names))
    if far:
        where = ", ".join(str(subnet) for subnet in subnets)
        message = (
            "the VM's NICs have fixed addresses without a gateway, so the guest cannot reach "
            f"{listed(far)} from {where}"
        )
        remedy = f"set `gateway` and `dns` under `networks`, or use sources in {where}"
        findings.add_vm(Code.NO_WAY_OUT, resolved.desired, message, remedy)


def _is_near(host: str, subnets: Sequence[IPv4Network | IPv6Network], *, has_names: bool) -> bool:
    """Whether a host may be in the subnets; a name may be if a name server there can resolve it."""
    try:
        return any(ip_address(host) in subnet for subnet in subnets)
    except ValueError:
        return has_names


def _asked(site: DesiredSite, runtime: str) -> set[str]:
    return {registry for registry in site.registry_mirrors if takes_mirror(runtime, registry)}


def _is_within(one: Fetched, site: DesiredSite, hosts: tuple[str, ...], runtime: str) -> bool:
    return is_of_site(one.host, hosts) or (bool(one.registry) and one.registry in _asked(site, runtime))


def _remedy(one: Fetched, runtime: str) -> str:
    if one.registry:
        mirror = f", or set site.registry_mirrors: {{{one.registry}: …}}"
        return (
            "use an image from the site's own "
            f"registry{(mirror if takes_mirror(runtime, one.registry) else '')}"
        )
    if one.key == "guest.toolkit_repository":
        return "set site.toolkit_repository"
    return f"set `{one.key}` to a location inside the site"
