"""What a reader must know of single gaps: a BIOS to see to, a restart in vain, a match for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.host_facts import is_same_boot
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Impact, Subject
from vgpu_cfg.model.plan_file import GpuMatch, NicMatch
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.wording import listed
from vgpu_cfg.planning.host_settings.case import GapKind, HostCase
from vgpu_cfg.planning.host_settings.match import matches_gpu, matches_nic, passed_through_nics
from vgpu_cfg.planning.host_settings.nics.vmknics import network_name, vmknic_on


def check_bios(case: HostCase, findings: Findings) -> None:
    """Say what only a hand can set while the host is off: nothing on the host has a way to it."""
    for gap in case.gaps:
        if not (gap.impact is Impact.HOST_COLD_BOOT or gap.is_to_be_seen) or gap.setting.write(
            case.view, [gap.wish]
        ):
            continue
        found = f"is {gap.reading.configured}, and the plan needs {gap.wish.value}"
        if gap.reading.unread:
            found = f"does not show {gap.wish.value}: {gap.reading.unread}"
        remedy = "set it at the plan's cold boot; where nothing shows it, `apply --done` takes your word"
        if gap.is_to_be_seen:
            remedy = "look into the BIOS before the host is worked on; `apply --done` takes your word"
        findings.add(Code.BIOS_DIFFERS, case.subject, f"{gap.setting.title} {found}", remedy)


def check_restarts(case: HostCase, findings: Findings) -> None:
    """Say of what a restart was to bring that it did not, and what follows."""
    mark = case.view.facts.mark
    if mark is None:
        return
    for gap in case.gaps:
        if gap.kind is not GapKind.PENDING or gap.wish.id not in mark.waiting:
            continue
        if is_same_boot(mark.waiting[gap.wish.id], case.view.facts.boot_time):
            continue
        message = (
            f"{gap.wish.id} is set to {gap.wish.value}, and the host has restarted since: "
            f"{gap.reading.in_force} still holds"
        )
        is_cold = gap.impact is Impact.HOST_COLD_BOOT
        remedy = "the plan switches the host off and on" if is_cold else "the plan restarts it once more"
        findings.add(Code.EXTRA_RESTART, case.subject, message, remedy)


def check_matches(cases: Sequence[HostCase], findings: Findings) -> None:
    """Complain of a `match` that fits no device of any host that its entry means."""
    entries = {id(case.entry): case.entry for case in cases}
    for key, entry in entries.items():
        hosts = [case for case in cases if id(case.entry) == key]
        matches: tuple[GpuMatch | NicMatch, ...] = (
            *(rule.match for rule in entry.gpus),
            *(rule.match for rule in entry.nics),
        )
        for match in matches:
            if not _told(match) or any(_fits(match, case) for case in hosts):
                continue
            what = "NIC" if isinstance(match, NicMatch) else "GPU"
            names = listed(case.name for case in hosts)
            in_use = sorted({name for case in hosts for name in _in_use(match, case)})
            message = f"no {what} of {names} fits the match {{{_told(match)}}}"
            remedy = "`vgpu-cfg inventory --host NAME` lists the devices of a host with their names"
            if in_use:
                message = f"{message} but {listed(in_use)}, which the host itself uses"
                remedy = f"name it, `match: {{vmnic: {in_use[0]}}}`, if it shall be taken all the same"
            subject = Subject(kind="host", name=names)
            findings.add(Code.DEVICE_NOT_MATCHED, subject, message, remedy)


def check_vmknic_networks(
    cases: Sequence[HostCase], desired: DesiredPlan, observed: Inventory, findings: Findings
) -> None:
    """Complain of a VMkernel NIC on a network that is neither there nor made by the plan.

    A portgroup that has a VMkernel NIC already is known by that: vCenter lists only those for VMs.
    """
    known = [network.name for network in observed.networks]
    made = [network.name for network in desired.networks if network.switch]
    folded = {name.casefold() for name in (*known, *made)}
    for case in cases:
        for wanted in case.entry.vmknics:
            name = network_name(wanted.network)
            if name.casefold() in folded or vmknic_on(case.view, name) is not None:
                continue
            message = f"there is no network {name!r} to put a VMkernel NIC on"
            remedy = did_you_mean(name, [*known, *made], noun="networks")
            findings.add(Code.NETWORK_NOT_FOUND, case.subject, message, remedy)


def _fits(match: GpuMatch | NicMatch, case: HostCase) -> bool:
    view = case.view
    if isinstance(match, GpuMatch):
        return any(matches_gpu(match, gpu, view) for gpu in view.host.gpus)
    return any(
        matches_nic(match, nic, view)
        and (match.vmnic is not None or _rules_switch(match, case) or not view.facts.uplink_of(nic.device))
        for nic in (*view.host.nics, *passed_through_nics(view))
    )


def _rules_switch(match: NicMatch, case: HostCase) -> bool:
    """Whether the rule makes uplinks: then the NICs that already are some are meant too."""
    return any(rule.match == match and rule.switch for rule in case.entry.nics)


def _in_use(match: GpuMatch | NicMatch, case: HostCase) -> Iterator[str]:
    if isinstance(match, NicMatch):
        yield from (nic.device for nic in case.view.host.nics if matches_nic(match, nic, case.view))


def _told(match: GpuMatch | NicMatch) -> str:
    given = match.model_dump(exclude_none=True)
    return ", ".join(f"{key}: {value}" for key, value in given.items())
