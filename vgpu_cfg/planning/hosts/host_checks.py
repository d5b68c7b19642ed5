"""Findings on hosts: drivers that differ, owners, maintenance by others, NUMA nodes, and single drifts.

These are findings only for checks of hosts. Notes on single drifts are a BIOS to check, a restart in vain,
and a match for nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.observed.host_facts import FactGroup, is_same_boot
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.plan_file import GpuMatch, NicMatch
from vgpu_cfg.model.plan_values import Disruption, NicUse
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.down_hosts import report_left, way_back
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings, Objection
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts
from vgpu_cfg.planning.host_settings.match import (
    makes_infiniband,
    matches_gpu,
    matches_nic,
    nic_rules,
    passed_through_nics,
    sets_link_type,
)
from vgpu_cfg.planning.host_settings.nics.vmknics import network_name, vmknic_on
from vgpu_cfg.planning.host_settings.resolved_host import Drift, DriftKind, ResolvedHost, clusters_of
from vgpu_cfg.planning.hosts.sequence import Phases
from vgpu_cfg.planning.hosts.window import Window, parse_window
from vgpu_cfg.planning.vms.checks.nic_checks import TO_ETHERNET, explain_infiniband


def report_absence(
    resolved: ResolvedHost,
    absence: Objection,
    needed_by: Sequence[str],
    waiting: Sequence[str],
    findings: Findings,
) -> None:
    """Report that nothing is done on a host: an error only if VMs of the plan need it.

    `waiting` are VMs of the plan on it that wait for it to respond: they are reported separately. A host
    without requests is left out; that only informs.
    """
    if needed_by:
        message = f"{absence.message}; required by {listed(needed_by, shown=6)}"
        findings.add(absence.code, resolved.subject, message, absence.remedy, Severity.ERROR)
        return
    severity = Severity.WARNING if resolved.desired_settings else Severity.INFO
    waits = "waits" if len(waiting) == 1 else "wait"
    why = f"{listed(waiting, shown=6)} {waits} for it" if waiting else "no VM in the plan requires it"
    message = f"{absence.message}; {why}, so it is skipped"
    findings.add(absence.code, resolved.subject, message, absence.remedy, severity)


def absence_of(resolved: ResolvedHost, plan: PlanIdentity) -> Objection | None:
    """Say why nothing is known of the host; None where it answers, or was taken down for this plan."""
    host, mark = resolved.view.host, resolved.view.facts.mark
    if host.connection is Connection.CONNECTED:
        return None
    if mark is None or not mark.maintenance:
        message = f"the host {host.connection.words}, so its state is unknown"
        return Objection(Code.HOST_SILENT, message, "reconnect the host, then run `plan` again")
    if mark.is_of(plan):
        return None
    message = f"the host {host.connection.words}; plan {mark.plan} took it down"
    return Objection(Code.HOST_SILENT, message, f"wait for {mark.plan} to finish")


def check_reachable(resolved: ResolvedHost, plan: PlanIdentity, findings: Findings) -> bool:
    """Whether the host answers; one that this plan took down comes back, or waits for a manual step."""
    host, mark = resolved.view.host, resolved.view.facts.mark
    if host.connection is Connection.CONNECTED:
        return True
    resolved.is_blocked = True
    if mark is not None and mark.maintenance and mark.is_of(plan) and mark.restart == "reboot":
        message = "the host is rebooting for this plan and will reconnect"
        findings.add(Code.HOST_SILENT, resolved.subject, message, "`apply` waits for it")
    return False


def check_owners(resolved: ResolvedHost, findings: Findings) -> None:
    """Refuse to write settings that a host profile or a configuration profile would revert."""
    owners = list(resolved.view.facts.owners)
    if resolved.view.cluster_facts.config_managed and resolved.view.cluster is not None:
        owners.append(f"the configuration profile of cluster {resolved.view.cluster.name}")
    if not owners or not resolved.drifts or resolved.is_checked_only:
        return
    message = (
        f"the host's settings are managed by {listed(owners)}, so any changes by this plan would be reverted"
    )
    remedy = "change the settings there, or set `mode: check` in this entry"
    findings.add(Code.SETTING_OWNED, resolved.subject, message, remedy)
    resolved.is_blocked = True


def check_package_owner(resolved: ResolvedHost, drifts: Iterable[Drift], findings: Findings) -> None:
    """Refuse to install packages by esxcli on hosts whose cluster is managed by an image."""
    cluster = resolved.view.cluster
    if not resolved.view.cluster_facts.image_managed or cluster is None:
        return
    changing = {drift.setting.key for drift in drifts}
    entry = resolved.entry
    for key, packages in (("driver", entry.driver), ("firmware_tools", entry.firmware_tools)):
        if packages is None or packages.by != "esxcli" or key not in changing:
            continue
        message = f"its software is managed by cluster {cluster.name}'s image, so esxcli must not be used"
        what = "the driver's component" if key == "driver" else "the MFT and NMST components"
        remedy = f"add {what} to the image and remediate; in the plan file, set `{key}: {{by: lifecycle}}`"
        findings.add(Code.SETTING_OWNED, resolved.subject, message, remedy)
        resolved.is_blocked = True


def check_other_plan(resolved: ResolvedHost, plan: PlanIdentity) -> Objection | None:
    """Leave a host alone that another plan's mark is on: it works there, or broke off there."""
    mark = resolved.view.facts.mark
    if mark is None or mark.is_of(plan) or not resolved.drifts:
        return None
    message = f"plan {mark.plan} has been changing the host since {mark.since:%Y-%m-%d %H:%M}"
    message = f"{message}: {mark.reason}" if mark.reason else message
    resolved.is_blocked = True
    return Objection(Code.OTHERS_MAINTENANCE, message, mark.way_on(plan))


def check_maintenance(resolved: ResolvedHost, findings: Findings) -> bool:
    """Whether the host is in maintenance mode by another user; it is prepared there and left there."""
    mark = resolved.view.facts.mark
    if not resolved.view.host.is_in_maintenance_mode or (mark is not None and mark.maintenance):
        return False
    who = _entered(resolved.view.facts.entered)
    if resolved.drifts:
        message = (
            f"the host is in maintenance mode{who}, but not because of vgpu-cfg; the plan prepares it and "
            "leaves it in maintenance mode"
        )
        findings.add(
            Code.OTHERS_MAINTENANCE,
            resolved.subject,
            message,
            "exit maintenance mode when the plan is complete",
        )
    else:
        message = f"the host is in maintenance mode{who}, but not because of a plan; no VM can start on it"
        where = shlex.quote(resolved.view.host.inventory_path or resolved.name)
        remedy = f"find out why, then run `govc host.maintenance.exit {where}`"
        findings.add(Code.UNEXPLAINED_MAINTENANCE, resolved.subject, message, remedy)
    return True


def _entered(entry: MaintenanceEntry | None) -> str:
    """Say who took a host into maintenance mode and when, as far as that is known."""
    if entry is None:
        return ""
    return f" (since {entry.at:%Y-%m-%d %H:%M}{f', by {entry.by}' if entry.by else ''})"


def check_disruption(resolved: ResolvedHost, phases: Phases, findings: Findings) -> bool:
    """Whether the plan file allows what preparing the host takes."""
    allowed = resolved.entry.disruption.allow
    needed = []
    if phases.needs_empty_host:
        needed.append(Disruption.MAINTENANCE)
    if phases.restarts > sum(phases.cold):
        needed.append(Disruption.REBOOT)
    if any(phases.cold):
        needed.append(Disruption.COLD_BOOT)
    lacking = [one for one in needed if one not in allowed]
    if not lacking:
        return True
    reasons = listed(
        dict.fromkeys(
            drift.setting.title for drift in phases.everything if drift.impact.value.startswith("host")
        ),
        shown=6,
    )
    words = " and ".join(one.value.replace("_", " ") for one in lacking)
    message = f"the host needs a disruption that `disruption.allow` does not include: {words} ({reasons})"
    findings.add(
        Code.DISRUPTION_NOT_ALLOWED,
        resolved.subject,
        message,
        "allow the disruption, or remove these settings",
    )
    return False


def check_taken_back(resolved: ResolvedHost, findings: Findings) -> None:
    """Warn where a device is taken back from VMs, and what some VM of the host holds was not read."""
    unread = resolved.view.holders.get("", ())
    for drift in resolved.drifts if unread else ():
        now = resolved.view.device(drift.desired.device)
        then = drift.setting.show(resolved.view.host, drift.desired).device(drift.desired.device)
        if now is None or then is None or then.passthrough_enabled:
            continue
        if now.passthrough_enabled or now.passthrough_active:
            names = listed(unread, shown=6)
            message = (
                f"{drift.desired.id} would return the device to the host, but VMs that may use it could not "
                f"be read: {names}"
            )
            findings.add(
                Code.HOLDER_UNKNOWN, resolved.subject, message, "grant the account read access to the VM"
            )


def check_window(works: Sequence[tuple[ResolvedHost, int]], observed: Inventory, findings: Findings) -> None:
    """Report hosts that will not be taken down now: the window is closed, or too short for their work.

    Each comes with its expected seconds of downtime.
    """
    for text in dict.fromkeys(resolved.entry.disruption.window for resolved, _ in works):
        if not text:
            continue
        window = parse_window(text)
        concerned = [(one, seconds) for one, seconds in works if one.entry.disruption.window == text]
        left = window.seconds_left(observed.read_at)
        _check_length(concerned, window, text, findings)
        if left is None:
            when = window.when(observed.read_at)
            message = f"hosts are not taken down now because the maintenance window ({text}) {when}"
            subject = Subject(kind="host", name=listed(resolved.name for resolved, _ in concerned))
            findings.add(Code.OUTSIDE_WINDOW, subject, message, "run `apply` during the window")
            continue
        for resolved, seconds in concerned:
            if left < seconds <= window.longest_seconds:
                message = (
                    f"the work takes about {seconds // 60} min, but the window {text} closes in "
                    f"{left // 60:.0f} min, so the work is not started"
                )
                remedy = "run `apply` at the beginning of the window, or lower `disruption.estimate`"
                findings.add(Code.WINDOW_TOO_SHORT_NOW, resolved.subject, message, remedy)


def _check_length(
    works: Sequence[tuple[ResolvedHost, int]], window: Window, text: str, findings: Findings
) -> None:
    """Warn of hosts that take longer than their window is ever open: no run begins them."""
    for resolved, seconds in works:
        if seconds > window.longest_seconds:
            message = (
                f"the work takes about {seconds // 60} min, but the window {text} lasts only "
                f"{window.longest_seconds // 60:.0f} min, so the work can never start"
            )
            remedy = "extend the window, or lower `disruption.estimate`"
            findings.add(Code.WINDOW_TOO_SHORT, resolved.subject, message, remedy)


def check_drivers(resolved_hosts: Sequence[ResolvedHost], findings: Findings) -> None:
    """Compare the host drivers within each cluster, and see that the GPU management daemon is there."""
    for group in clusters_of(resolved_hosts).values():
        versions: dict[str, list[str]] = {}
        for resolved in group:
            if FactGroup.SOFTWARE not in resolved.view.facts.groups or not resolved.view.host.gpus:
                continue
            facts = driver_facts(resolved.view.facts.software)
            if facts.kind is None:
                continue
            # What follows the first dash says for which ESXi the VIB was built.
            version = (facts.version or "").partition("-")[0]
            versions.setdefault(f"{facts.kind} {version}", []).append(resolved.name)
            if not facts.daemon:
                message = "the GPU management daemon is not installed, so there are no device groups"
                remedy = "install the component nvd-gpu-mgmt-daemon from the same release"
                findings.add(Code.GPU_DAEMON_ABSENT, resolved.subject, message, remedy)
        if len(versions) > 1 and group[0].view.cluster is not None:
            reported = "; ".join(
                f"{version} on {listed(names)}" for version, names in sorted(versions.items())
            )
            subject = Subject(kind="cluster", name=group[0].view.cluster.name)
            remedy = "use the same version on all hosts, because vGPU VMs cannot migrate between versions"
            findings.add(Code.DRIVERS_DIFFER, subject, reported, remedy)


def check_nodes(resolved: ResolvedHost, findings: Findings) -> None:
    """Warn of a NIC to be handed to VMs that shares no NUMA node with any GPU."""
    nodes = {gpu.numa_node for gpu in resolved.view.host.gpus if gpu.numa_node is not None}
    if not nodes:
        return
    for nic, rule in nic_rules(resolved.entry, resolved.view):
        if rule.use not in (NicUse.PASSTHROUGH, NicUse.SRIOV) or nic.numa_node is None:
            continue
        if nic.numa_node not in nodes:
            where = ", ".join(str(node) for node in sorted(nodes))
            name = nic.device or nic.pci_id
            message = f"{name} is on NUMA node {nic.numa_node}, but the GPUs are on node {where}"
            remedy = "use a NIC on a GPU's node, or move the card to another slot"
            findings.add(Code.GPU_NIC_APART, resolved.subject, message, remedy)


def check_standing(resolved: ResolvedHost, plan: PlanIdentity, findings: Findings) -> None:
    """Report a host that is in maintenance mode for this plan, and why."""
    host, mark = resolved.view.host, resolved.view.facts.mark
    if mark is None or not mark.is_of(plan):
        return
    if mark.opened_ssh and resolved.view.facts.is_ssh_running:
        message = (
            f"the host's SSH service was started for this plan at {mark.since:%Y-%m-%d %H:%M} and "
            "is still running"
        )
        remedy = "`apply` stops it"
        findings.add(Code.SHELL_LEFT_OPEN, resolved.subject, message, remedy)
    if not mark.maintenance:
        return
    if host.connection is Connection.CONNECTED and not host.is_in_maintenance_mode:
        return  # somebody has taken it out; only the mark is left
    report_left(
        host,
        mark,
        findings,
        f"`apply` continues from this point; to return the host to service, run {way_back(host.name)}",
    )


def check_bios(resolved: ResolvedHost, findings: Findings) -> None:
    """Say what can only be set manually while the host is off: nothing on the host has a way to it."""
    for drift in resolved.drifts:
        if not (drift.impact is Impact.HOST_COLD_BOOT or drift.is_to_be_seen) or drift.setting.write(
            resolved.view, [drift.desired]
        ):
            continue
        found = f"is {drift.reading.configured}, but the plan requires {drift.desired.value}"
        if drift.reading.unread:
            found = f"cannot be confirmed to be {drift.desired.value}: {drift.reading.unread}"
        remedy = "set it during the plan's cold boot; if it is not detected, confirm it with `apply --done`"
        if drift.is_to_be_seen:
            remedy = "check the BIOS before work on the host begins, and confirm with `apply --done`"
        findings.add(Code.BIOS_DIFFERS, resolved.subject, f"{drift.setting.title} {found}", remedy)


def check_restarts(resolved: ResolvedHost, findings: Findings) -> None:
    """Report settings that a restart did not activate, and the consequence."""
    mark = resolved.view.facts.mark
    if mark is None:
        return
    for drift in resolved.drifts:
        if drift.kind is not DriftKind.PENDING or drift.desired.id not in mark.waiting:
            continue
        if is_same_boot(mark.waiting[drift.desired.id], resolved.view.facts.boot_time):
            continue
        message = (
            f"{drift.desired.id} is set to {drift.desired.value}, but {drift.reading.in_force} is still "
            "active after a host restart"
        )
        is_cold = drift.impact is Impact.HOST_COLD_BOOT
        remedy = "the plan power-cycles the host" if is_cold else "the plan restarts it again"
        findings.add(Code.EXTRA_RESTART, resolved.subject, message, remedy)


def check_matches(resolved_hosts: Sequence[ResolvedHost], findings: Findings) -> None:
    """Complain of a `match` that fits no device of any host that its entry means."""
    entries = {id(resolved.entry): resolved.entry for resolved in resolved_hosts}
    for key, entry in entries.items():
        hosts = [resolved for resolved in resolved_hosts if id(resolved.entry) == key]
        matches: tuple[GpuMatch | NicMatch, ...] = (
            *(rule.match for rule in entry.gpus),
            *(rule.match for rule in entry.nics),
        )
        for match in matches:
            if not _match_text(match) or any(_fits(match, resolved) for resolved in hosts):
                continue
            what = "NIC" if isinstance(match, NicMatch) else "GPU"
            names = listed(resolved.name for resolved in hosts)
            in_use = sorted({name for resolved in hosts for name in _in_use(match, resolved)})
            message = f"no {what} on {names} matches {{{_match_text(match)}}}"
            remedy = "run `vgpu-cfg inventory --host NAME` to list the host's devices and their names"
            if in_use:
                message = f"{message} except {listed(in_use)}, which the host itself uses"
                remedy = f"to use it anyway, specify `match: {{vmnic: {in_use[0]}}}`"
            subject = Subject(kind="host", name=names)
            findings.add(Code.DEVICE_NOT_MATCHED, subject, message, remedy)


def check_link_types(
    resolved_hosts: Sequence[ResolvedHost], desired: DesiredPlan, findings: Findings
) -> None:
    """Refuse rules that use an InfiniBand port as Ethernet, unless they change its link type too.

    A rule that makes ports InfiniBand is refused where the plan's VMs use RDMA over Ethernet, and the
    host's rules leave no other port to them.
    """
    uses_rdma = any(nic.function is not None and nic.rdma for vm in desired.vms for nic in vm.nics)
    for resolved in resolved_hosts:
        rules = list(nic_rules(resolved.entry, resolved.view)) if uses_rdma else []
        passed = [(nic, rule) for nic, rule in rules if rule.use in (NicUse.PASSTHROUGH, NicUse.SRIOV)]
        made = [nic.pci_id for nic, rule in passed if makes_infiniband(rule)]
        if made and len(made) == len(passed):
            findings.add(Code.NIC_INFINIBAND, resolved.subject, explain_infiniband(made), TO_ETHERNET)
            continue
        wrong = [
            nic.pci_id
            for nic, rule in nic_rules(resolved.entry, resolved.view)
            if nic.pci is not None and nic.pci.is_infiniband
            if rule.use is NicUse.SRIOV or rule.roce is not None or rule.switch is not None
            if not sets_link_type(rule)
        ]
        if wrong:
            findings.add(Code.NIC_INFINIBAND, resolved.subject, explain_infiniband(wrong), TO_ETHERNET)


def check_vmknic_networks(
    resolved_hosts: Sequence[ResolvedHost], desired: DesiredPlan, observed: Inventory, findings: Findings
) -> None:
    """Complain of a VMkernel NIC on a network that is neither there nor made by the plan.

    A portgroup that has a VMkernel NIC already is known by that: vCenter lists only those for VMs.
    """
    known = [network.name for network in observed.networks]
    made = [network.name for network in desired.networks if network.switch]
    folded = {name.casefold() for name in (*known, *made)}
    for resolved in resolved_hosts:
        for wanted in resolved.entry.vmknics:
            name = network_name(wanted.network)
            if name.casefold() in folded or vmknic_on(resolved.view, name) is not None:
                continue
            message = f"the network {name!r} for the VMkernel NIC does not exist"
            remedy = did_you_mean(name, [*known, *made], noun="networks")
            findings.add(Code.NETWORK_NOT_FOUND, resolved.subject, message, remedy)


def _fits(match: GpuMatch | NicMatch, resolved: ResolvedHost) -> bool:
    view = resolved.view
    if isinstance(match, GpuMatch):
        return any(matches_gpu(match, gpu, view) for gpu in view.host.gpus)
    return any(
        matches_nic(match, nic, view)
        and (
            match.vmnic is not None or _rules_switch(match, resolved) or not view.facts.uplink_of(nic.device)
        )
        for nic in (*view.host.nics, *view.host.infiniband, *passed_through_nics(view))
    )


def _rules_switch(match: NicMatch, resolved: ResolvedHost) -> bool:
    """Whether the rule makes uplinks: then the NICs that already are some are meant too."""
    return any(rule.match == match and rule.switch for rule in resolved.entry.nics)


def _in_use(match: GpuMatch | NicMatch, resolved: ResolvedHost) -> Iterator[str]:
    if isinstance(match, NicMatch):
        yield from (nic.device for nic in resolved.view.host.nics if matches_nic(match, nic, resolved.view))


def _match_text(match: GpuMatch | NicMatch) -> str:
    given = match.model_dump(exclude_none=True)
    return ", ".join(f"{key}: {value}" for key, value in given.items())
