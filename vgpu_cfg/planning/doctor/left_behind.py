"""Objects of vgpu-cfg at a vCenter that outlived their run or purpose; `doctor` and `status` list the same.

Marks and maintenance mode on hosts, cordons, locks, reservations, and marks that came with a copy of a VM.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.freeze import thaw_command
from vgpu_cfg.model.locks import Lock, Locks
from vgpu_cfg.model.observed.host_facts import HostMark, recovered_mark
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.reservations import Reservations
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.patient import Patient, owner_name, path_of


def left_behind(patient: Patient) -> Iterator[Ailment]:
    """Yield all of it, of hosts with GPUs and without."""
    observed = patient.observed
    for host in observed.hosts:
        if host.is_in_maintenance_mode and is_held(host, patient):
            yield maintenance(host, patient)
        for cordon in host.cordons:
            what = f"gpu:{host.name}/{cordon.pci_id}" if cordon.pci_id else f"host:{host.name}"
            command = patient.type_("uncordon", what)
            yield Ailment(Kind.CORDON, what, cordon.words, command, cordon.by, cordon.since)
        yield from _work(host, patient)
    if observed.locks is not None:
        yield from _locks(observed.locks)
    if observed.reservations is not None:
        yield from _reservations(observed.reservations, patient)
    for vm in observed.vms:
        if vm.is_copy and vm.mark is not None and not vm.is_template:
            says = f"its owner mark belongs to plan {vm.mark.plan}"
            command = f"govc vm.info -e {path_of(vm)}"
            yield Ailment(Kind.COPIED_MARK, f"vm:{vm.name}", says, command, owner_name(vm))


def is_held(host: Host, patient: Patient) -> bool:
    """Whether a run or `drain` took a host into maintenance mode and has left it there."""
    mark = _mark_of(host, patient)
    return host.cordon is not None if mark is None else not _is_at_work(mark.plan, patient)


def maintenance(host: Host, patient: Patient) -> Ailment:
    """Report a host in maintenance mode, entered by any user."""
    entered, mark = patient.facts(host).entered, _mark_of(host, patient)
    since = entered.at if entered is not None else mark.since if mark is not None else None
    when = f" since {since:%Y-%m-%d %H:%M} UTC" if since is not None else ""
    by = f" by {entered.by}" if entered is not None and entered.by else ""
    own = mark is not None or host.cordon is not None
    command = patient.type_("uncordon", f"host:{host.name}", "--restore")
    leave = command if own else f"govc host.maintenance.exit {host.name}"
    says = f"{counted(len(host.gpus), 'GPU')} unavailable{when}{by}"
    owner = f"plan {mark.plan}" if mark is not None else ""
    return Ailment(Kind.MAINTENANCE, f"host:{host.name}", says, leave, owner, since)


def _mark_of(host: Host, patient: Patient) -> HostMark | None:
    entered = patient.facts(host).entered
    return host.mark or (recovered_mark(entered) if entered is not None else None)


def _is_at_work(plan: str, patient: Patient) -> bool:
    locks = patient.observed.locks
    return locks is not None and any(lock.name.plan == plan for lock in locks.held)


def _work(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report a plan's mark on a host on which no run works."""
    mark = _mark_of(host, patient)
    if mark is None or _is_at_work(mark.plan, patient):
        return
    says = f"plan {mark.plan} since {mark.since:%Y-%m-%d %H:%M} UTC" + (
        f": {mark.reason}" if mark.reason else ""
    )
    owner = f"plan {mark.plan}"
    yield Ailment(Kind.UNFINISHED, f"host:{host.name}", says, patient.type_("history"), owner, mark.since)


def _locks(locks: Locks) -> Iterator[Ailment]:
    if locks.freeze is not None:
        command = thaw_command(locks.server)
        yield Ailment(Kind.FREEZE, "vcenter", locks.freeze.words, command, locks.freeze.account)
    for run in filter(locks.is_silent, locks.runs):
        first = locks.of_run(run)[0]
        beat = locks.beat_of(run)
        says = f"run {run}, last active at {beat:%Y-%m-%d %H:%M} UTC"
        user = first.holder.user if first.holder is not None else ""
        yield Ailment(Kind.LOCK, _locked(first), says, locks.unlock_command(run), user, beat)
    for lock in locks.unknown:
        says = "the lock does not contain a run ID"
        yield Ailment(Kind.LOCK, _locked(lock), says, "", lock.account, lock.beat_at)


def _locked(lock: Lock) -> str:
    return str(lock.name).replace(" ", ":", 1)


def _reservations(found: Reservations, patient: Patient) -> Iterator[Ailment]:
    command = patient.type_("inventory", "--reservations")
    for kept in found.kept:
        own = kept.reservation
        if own is None:
            says = "the reservation cannot be read"
            yield Ailment(Kind.RESERVATION, f"plan:{kept.name}", says, command, kept.account)
        elif own.ends <= found.now:
            says = f"ended {own.ends:%Y-%m-%d %H:%M} UTC"
            yield Ailment(Kind.RESERVATION, f"plan:{own.plan}", says, command, kept.account, own.ends)
