"""What a reader must know of single drifts: a BIOS to see to, a restart in vain, a match for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.host_facts import is_same_boot
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuMatch, NicMatch
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.match import matches_gpu, matches_nic, passed_through_nics
from vgpu_cfg.planning.host_settings.nics.vmknics import network_name, vmknic_on
from vgpu_cfg.planning.host_settings.resolved_host import DriftKind, ResolvedHost


def check_bios(resolved: ResolvedHost, findings: Findings) -> None:
    """Say what can only be set manually while the host is off: nothing on the host has a way to it."""
    for drift in resolved.drifts:
        if not (drift.impact is Impact.HOST_COLD_BOOT or drift.is_to_be_seen) or drift.setting.write(
            resolved.view, [drift.desired]
        ):
            continue
        found = f"is {drift.reading.configured}, and the plan needs {drift.desired.value}"
        if drift.reading.unread:
            found = f"does not show {drift.desired.value}: {drift.reading.unread}"
        remedy = "set it at the plan's cold boot; where nothing shows it, `apply --done` confirms it"
        if drift.is_to_be_seen:
            remedy = "look into the BIOS before the host is worked on; `apply --done` confirms it"
        findings.add(Code.BIOS_DIFFERS, resolved.subject, f"{drift.setting.title} {found}", remedy)


def check_restarts(resolved: ResolvedHost, findings: Findings) -> None:
    """Say of what a restart was to bring that it did not, and what follows."""
    mark = resolved.view.facts.mark
    if mark is None:
        return
    for drift in resolved.drifts:
        if drift.kind is not DriftKind.PENDING or drift.desired.id not in mark.waiting:
            continue
        if is_same_boot(mark.waiting[drift.desired.id], resolved.view.facts.boot_time):
            continue
        message = (
            f"{drift.desired.id} is set to {drift.desired.value}, and the host has restarted since: "
            f"{drift.reading.in_force} still holds"
        )
        is_cold = drift.impact is Impact.HOST_COLD_BOOT
        remedy = "the plan switches the host off and on" if is_cold else "the plan restarts it once more"
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
            message = f"no {what} of {names} fits the match {{{_match_text(match)}}}"
            remedy = "`vgpu-cfg inventory --host NAME` lists the devices of a host with their names"
            if in_use:
                message = f"{message} but {listed(in_use)}, which the host itself uses"
                remedy = f"name it, `match: {{vmnic: {in_use[0]}}}`, if it shall be taken all the same"
            subject = Subject(kind="host", name=names)
            findings.add(Code.DEVICE_NOT_MATCHED, subject, message, remedy)


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
            message = f"there is no network {name!r} to put a VMkernel NIC on"
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
        for nic in (*view.host.nics, *passed_through_nics(view))
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
