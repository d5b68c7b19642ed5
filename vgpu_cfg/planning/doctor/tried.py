"""Beliefs that one reading of an estate can try, and the verdict file of its vCenter.

A belief holds only where at least one object could have contradicted it, and none does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from pydantic import ValidationError

from vgpu_cfg import __version__
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.knowledge.beliefs import Trial
from vgpu_cfg.model.observed.inventory import VGPU_PART, Connection, Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm, VmDetail
from vgpu_cfg.model.verdicts import HostKind, TriedVCenter, Verdict, VerdictFile, VerdictRow
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.capacity.hardware import DEVICE_GROUPS_FROM, vgpu_limit
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.host_settings.gpus.driver import driver_version
from vgpu_cfg.planning.host_settings.licence import is_evaluation
from vgpu_cfg.planning.pool.reservations import now_of
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind, ConditionState


@dataclass(frozen=True, slots=True)
class Tried:
    """A belief by its ID, the verdict, and the objects that confirm or contradict it."""

    belief: str
    verdict: Verdict
    seen: str


Evidence = Iterator[tuple[str, bool]]
"""Objects by name, each with whether it is as believed."""


def try_beliefs(patient: Patient) -> tuple[Tried, ...]:
    """Try every belief of the table, in its order."""
    return tuple(verdict_of(belief, list(look(patient))) for belief, look in TRIALS.items())


def verdict_of(belief: str, found: list[tuple[str, bool]]) -> Tried:
    """Return the verdict on a belief by objects that are as believed, or are not."""
    against = list(dict.fromkeys(name for name, is_so in found if not is_so))
    if against:
        return Tried(belief, Verdict.FAILS, listed(against))
    if not found:
        return Tried(belief, Verdict.OPEN, "")
    names = list(dict.fromkeys(name for name, _ in found))
    return Tried(belief, Verdict.HOLDS, f"{counted(len(names), 'object')}: {listed(names)}")


def _running(patient: Patient) -> Iterator[tuple[Vm, VmDetail, Host]]:
    return (one for one in patient.gpu_vms if one[0].is_on and one[1].vgpus)


def _starts(patient: Patient, *about: ConditionKind, gpus: range = range(1, 99)) -> Evidence:
    """Yield whether VMs that run with so many vGPUs meet conditions of a start."""
    for vm, detail, _ in _running(patient):
        for one in patient.conditions(vm):
            if one.about in about and len(detail.vgpus) in gpus and one.verdict is not ConditionState.UNKNOWN:
                yield vm.name, one.verdict is ConditionState.RIGHT


def _efi_and_memory(patient: Patient) -> Evidence:
    return _starts(patient, ConditionKind.FIRMWARE, ConditionKind.MEMORY)


def _mmio_of_one(patient: Patient) -> Evidence:
    return _starts(patient, ConditionKind.MMIO, gpus=range(1, 2))


def _mmio_of_several(patient: Patient) -> Evidence:
    return _starts(patient, ConditionKind.MMIO, gpus=range(2, 99))


def _shown_on_gpus(patient: Patient) -> Evidence:
    """Yield VMs that their host does not show, and of the others those that were just started: it is soon."""
    for vm, detail, host in _running(patient):
        if host.connection is Connection.CONNECTED:
            is_shown = any(vm.moid in gpu.vm_moids for gpu in host.gpus)
            if not is_shown or (detail.uptime_seconds or _SOON_SECONDS) < _SOON_SECONDS:
                yield vm.name, is_shown


_SOON_SECONDS = 60
"""A GPU that shows later than this after a power-on is not waited for (`RunOptions.settle_seconds`)."""


def _gpus(patient: Patient) -> Iterator[tuple[str, Host, Gpu]]:
    for host in patient.gpu_hosts:
        for gpu in host.gpus if host.connection is Connection.CONNECTED else ():
            yield f"{host.name}/{gpu.pci_id}", host, gpu


def _holders_run(patient: Patient) -> Evidence:
    by_moid = patient.observed.vm_by_moid
    for name, _, gpu in _gpus(patient):
        for moid in gpu.vm_moids:
            if moid in by_moid and not by_moid[moid].is_on:  # how soon it is forgotten, no reading shows
                yield f"{by_moid[moid].name} on {name}", False


def _has_bridge(patient: Patient) -> Evidence:
    return ((name, gpu.pci.parent_bridge is not None) for name, _, gpu in _gpus(patient))


def _disk_uuids(patient: Patient) -> Evidence:
    return ((vm.name, bool(disk.uuid)) for vm, detail, _ in patient.gpu_vms for disk in detail.disks)


def _nics(patient: Patient) -> Evidence:
    for host in patient.gpu_hosts:
        yield from ((f"{host.name} {nic.device}", nic.pci.is_nic) for nic in host.nics if nic.pci is not None)


def _groups(patient: Patient) -> Evidence:
    for vm, detail, _ in patient.gpu_vms:
        if detail.device_groups and detail.hardware_version is not None:
            yield vm.name, detail.hardware_version >= DEVICE_GROUPS_FROM


def _affinities(patient: Patient) -> Evidence:
    for vm, detail, _ in patient.gpu_vms:
        value = detail.extra_config.get(AFFINITY_KEY, "")
        if value:
            yield vm.name, NODES.fullmatch(value) is not None


NODES = re.compile(r"\d+(,\d+)*")


def _bridges(patient: Patient) -> Evidence:
    """Yield whether a parent bridge, if the host lists that address at all, is a bridge."""
    for name, host, gpu in _gpus(patient):
        above = gpu.pci.parent_bridge
        if above is not None:
            listed_one = host.device(above)
            is_bridge = listed_one is None or listed_one.class_id >> 8 == _BRIDGE
            yield name, is_bridge and _ADDRESS.fullmatch(above) is not None


_BRIDGE = 0x06
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def _known_profiles(patient: Patient) -> Evidence:
    for host in patient.gpu_hosts:
        for profile in host.creatable_profiles:
            yield profile, bool(patient.reader.needs(profile))


def _known_boards(patient: Patient) -> Evidence:
    for name, _, gpu in _gpus(patient):
        yield name, patient.reader.board_of(gpu.pci) is not None


def _one_size(patient: Patient) -> Evidence:
    for name, host, gpu in _gpus(patient):
        state = next(one for one in patient.capacity(host).gpus if one.pci_id == gpu.pci_id)
        sizes = {one.need.size_gb for one in state.held if one.need is not None}
        if (
            len(state.held) > 1
            and gpu.vgpu_mode is VgpuMode.SAME_SIZE
            and not any(one.need is not None and one.need.is_mig for one in state.held)
        ):
            yield name, len(sizes) == 1


def _vgpus_by_version(patient: Patient) -> Evidence:
    for vm, detail, host in _running(patient):
        if detail.hardware_version is not None:
            yield vm.name, len(detail.vgpus) <= vgpu_limit(host, detail.hardware_version)


def _same_profiles(patient: Patient) -> Evidence:
    """Compare the profiles of idle hosts of one build with the same boards in the same modes."""
    first: dict[tuple[object, ...], frozenset[str]] = {}
    for host in patient.gpu_hosts:
        if host.connection is not Connection.CONNECTED or any(gpu.vm_moids for gpu in host.gpus):
            continue
        modes = tuple(sorted((gpu.name, str(gpu.sharing), str(gpu.vgpu_mode)) for gpu in host.gpus))
        offered = frozenset(host.creatable_profiles)
        known = first.setdefault((host.version, host.build, modes), offered)
        if known is not offered:
            yield host.name, known == offered


def _generated_macs(patient: Patient) -> Evidence:
    for vm, detail, _ in patient.gpu_vms:
        for nic in detail.nics:
            if nic.mac.lower().startswith("00:50:56"):
                yield vm.name, nic.mac.lower() < "00:50:56:c0"


def _groups_read_back(patient: Patient) -> Evidence:
    for vm, detail, _ in patient.gpu_vms:
        for vgpu in detail.vgpus:
            if vgpu.group_key is not None:
                yield vm.name, bool(detail.device_groups.get(vgpu.group_key))


def _fresh_types(patient: Patient) -> Evidence:
    """Yield whether hosts without an idle GPU still offer a whole one."""
    for host in patient.gpu_hosts:
        if host.connection is Connection.CONNECTED and all(gpu.vm_moids for gpu in host.gpus):
            needs = [patient.reader.needs(one).values() for one in host.creatable_profiles]
            yield host.name, not any(need.is_full for found in needs for need in found)


def _single_locks(patient: Patient) -> Evidence:
    """Yield the locks of which there are two; one of each proves nothing."""
    held = patient.observed.locks.held if patient.observed.locks is not None else ()
    count = Counter(lock.name.text for lock in held)
    return ((name, False) for name, number in count.items() if number > 1)


def _whole_texts(patient: Patient) -> Evidence:
    """Yield whether the longest texts of locks can still be read."""
    held = patient.observed.locks.held if patient.observed.locks is not None else ()
    return ((lock.name.text, False) for lock in held if lock.holder is None)


def _key_providers(patient: Patient) -> Evidence:
    """Yield VMs with a virtual TPM at a vCenter that lists no key provider."""
    if patient.observed.vcenter.key_providers == ():
        for vm in patient.observed.vms:
            if vm.detail is not None and vm.detail.tpm_key is not None:
                yield vm.name, False


def _evaluations(patient: Patient) -> Evidence:
    for moid, licences in (patient.observed.licences or {}).items():
        host = patient.observed.host_by_moid.get(moid)
        for one in licences:
            if host is not None and is_evaluation(one.name):
                yield host.name, one.ends is not None


def _bare_hosts(patient: Patient) -> Evidence:
    """Yield whether hosts without a driver report their profiles, even an empty list, if others do."""
    if any(host.profiles for host in patient.gpu_hosts):
        for host in patient.gpu_hosts:
            software = patient.facts(host).software
            if host.connection is Connection.CONNECTED and software and not driver_version(host, software):
                yield host.name, host.profiles is not None


def _stun_times(patient: Patient) -> Evidence:
    """Yield whether a vMotion's stun time is about that of moving the framebuffer, in these units."""
    for host in patient.gpu_hosts:
        for profile in host.profiles or ():
            for need in patient.reader.needs(profile.name).values():
                for mbit, ms in profile.stun_ms.items():
                    whole = need.framebuffer_mib * 8.4e3 / mbit
                    yield f"{profile.name} at {mbit}", whole / _ROUGHLY <= ms <= whole * _ROUGHLY + _LEAST_MS


_ROUGHLY, _LEAST_MS = 30, 5000
"""So many times as long, or as short, is still of the unit; a short stun has a constant part."""


def _group_nics(patient: Patient) -> Evidence:
    for host in patient.gpu_hosts:
        for group in host.device_groups:
            for part in group.parts:
                if part.kind not in (VGPU_PART, "dvx"):
                    yield f"{host.name} {group.name}", part.kind == "pciPassthru" and bool(part.allowed)


def _agents(patient: Patient) -> Evidence:
    """Yield the VMs whose manager has the name of the ESX Agent Manager, in full or in part."""
    for vm in patient.observed.vms:
        if vm.manager is not None and (vm.manager.is_agent or vm.manager.product.endswith(".eam")):
            yield vm.name, vm.manager.is_agent


def _empty_options(patient: Patient) -> Evidence:
    for cluster in patient.observed.clusters:
        found = patient.observed.facts.clusters.get(cluster.moid)
        options = found.drs_options if found is not None else {}
        yield from ((f"{cluster.name} {key}", False) for key, value in options.items() if not value)


TRIALS: Mapping[str, Callable[[Patient], Evidence]] = {
    "vgpu-needs-efi-memory-mmio": _efi_and_memory,
    "mmio-of-one-gpu": _mmio_of_one,
    "mmio-of-several-gpus": _mmio_of_several,
    "vgpus-for-each-hardware-version": _vgpus_by_version,
    "graphics-info-shows-the-gpu": _shown_on_gpus,
    "graphics-info-forgets-stopped-vms": _holders_run,
    "parent-bridge-is-an-address": _bridges,
    "root-ports-share-a-bus": _has_bridge,
    "profile-prefixes-by-rule": _known_profiles,
    "c-series-profiles": _known_boards,
    "one-framebuffer-size-in-same-size-mode": _one_size,
    "same-build-same-profiles": _same_profiles,
    "generated-mac-ranges": _generated_macs,
    "disk-uuid-exists": _disk_uuids,
    "nics-are-class-02": _nics,
    "groups-need-version-20": _groups,
    "numa-affinity-format": _affinities,
    "groups-are-read-back": _groups_read_back,
    "shared-types-are-fresh": _fresh_types,
    "alarm-names-are-unique": _single_locks,
    "alarm-description-400": _whole_texts,
    "native-key-provider-is-listed": _key_providers,
    "licenses-name-their-end": _evaluations,
    "no-driver-no-fault": _bare_hosts,
    "vmotion-cost-units": _stun_times,
    "group-nic-component-type": _group_nics,
    "eam-marks-agents": _agents,
    "empty-option-removes-it": _empty_options,
}
"""How each belief is tried, by its id."""


_STRENGTH = {trial.value: number for number, trial in enumerate(Trial)}


def verdicts_of(observed: Inventory, tried: Iterable[Tried], by: Trial = Trial.READING) -> VerdictFile:
    """Return the verdicts on beliefs that were tried `by` one kind of trial, at the vCenter of a reading.

    `doctor` passes a reading's, `trial` those of an object, a VM or a GPU; `cli.flows.doctor_flow.save_found`
    adds them to the file of a folder. Raises VCenterError if vCenter does not identify itself.
    """
    now, vcenter = now_of(observed), observed.vcenter
    try:
        seen = TriedVCenter(
            instance_uuid=vcenter.instance_uuid.lower(),
            version=vcenter.version,
            build=vcenter.build,
            tried_at=now.replace(microsecond=0),
        )
    except ValidationError as error:
        message = f"vCenter reports no usable instance UUID and build: {vcenter.instance_uuid!r}"
        raise VCenterError(message, subject=vcenter.address, remedy="run `doctor` without --save") from error
    rows = {one.belief: _row(one, by, now.date()) for one in tried}
    beliefs = dict(sorted(rows.items()))
    return VerdictFile(vcenter=seen, program=__version__, hosts=tuple(_kinds(observed)), beliefs=beliefs)


def _row(one: Tried, by: Trial, today: date) -> VerdictRow:
    if one.verdict is Verdict.OPEN:
        return VerdictRow(verdict=one.verdict)
    return VerdictRow.model_validate(
        {"verdict": one.verdict, "by": by.value, "since": today, "seen": one.seen}
    )


def _kinds(observed: Inventory) -> Iterator[HostKind]:
    """Yield the kinds of hosts with GPUs, in the order of their versions."""
    patient = Patient(observed, load_catalog())
    counts: Counter[tuple[str, str, str, tuple[str, ...]]] = Counter()
    for host in patient.gpu_hosts:
        found = [patient.reader.board_of(gpu.pci) for gpu in host.gpus]
        boards = tuple(sorted({one.name for one in found if one is not None}))
        driver = driver_version(host, patient.facts(host).software)
        counts[host.version, host.build, driver, boards] += 1
    for (version, build, driver, boards), hosts in sorted(counts.items()):
        yield HostKind(esxi=version, build=build, driver=driver, boards=boards, hosts=hosts)


def merged(before: VerdictFile, after: VerdictFile) -> VerdictFile:
    """Add verdicts to earlier ones of the same build.

    An equal verdict keeps its first day, and a belief that was not tried again its verdict. A weaker trial
    can contradict a stronger one, but not refute its contradiction: a reading sees only existing objects.
    """
    rows = dict(before.beliefs)
    for belief, row in after.beliefs.items():
        old = rows.get(belief)
        if old is None or old.verdict is Verdict.OPEN:
            rows[belief] = row
        elif row.verdict is not Verdict.OPEN and _counts(row, old):
            is_same = row.verdict is old.verdict
            rows[belief] = row.model_copy(update={"since": old.since if is_same else row.since})
    return after.model_copy(update={"beliefs": dict(sorted(rows.items()))})


def _counts(row: VerdictRow, old: VerdictRow) -> bool:
    is_weaker = _STRENGTH[row.by] < _STRENGTH[old.by]
    return not is_weaker or (row.verdict is Verdict.FAILS and old.verdict is Verdict.HOLDS)
