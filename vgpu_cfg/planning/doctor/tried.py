"""Beliefs that one reading of an estate can try: those that hold there, those that do not, and the rest.

A belief holds only where at least one object could have contradicted it, and none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.model.observed.inventory import Connection, Gpu, Host
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.capacity.hardware import vgpu_limit
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind, ConditionState, check_conditions


class Verdict(StrEnum):
    """What a trial of a belief came to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not tried"


@dataclass(frozen=True, slots=True)
class Tried:
    """A belief by its id, the verdict, and what was seen: the objects that speak for it, or against."""

    belief: str
    verdict: Verdict
    seen: str


Evidence = Iterator[tuple[str, bool]]
"""Objects by name, each with whether it is as believed."""


def try_beliefs(patient: Patient) -> tuple[Tried, ...]:
    """Try every belief of the table, in its order."""
    return tuple(_verdict(belief, list(look(patient))) for belief, look in TRIALS.items())


def _verdict(belief: str, found: list[tuple[str, bool]]) -> Tried:
    against = list(dict.fromkeys(name for name, is_so in found if not is_so))
    if against:
        return Tried(belief, Verdict.FAILS, listed(against))
    if not found:
        return Tried(belief, Verdict.OPEN, "")
    names = list(dict.fromkeys(name for name, _ in found))
    return Tried(belief, Verdict.HOLDS, f"{counted(len(names), 'object')}: {listed(names)}")


def _running(patient: Patient) -> Iterator[tuple[Vm, VmDetail, Host]]:
    return (one for one in patient.gpu_vms if one[0].is_on and one[1].vgpus)


def _condition(about: ConditionKind) -> Callable[[Patient], Evidence]:
    """Return a trial: a VM that runs with a vGPU meets a condition of a start."""

    def look(patient: Patient) -> Evidence:
        for vm, _, _ in _running(patient):
            for one in check_conditions(vm, patient.observed, patient.catalog):
                if one.about is about and one.verdict is not ConditionState.UNKNOWN:
                    yield vm.name, one.verdict is ConditionState.RIGHT

    return look


def _shown_on_gpus(patient: Patient) -> Evidence:
    for vm, _, host in _running(patient):
        if host.connection is Connection.CONNECTED:
            yield vm.name, any(vm.moid in gpu.vm_moids for gpu in host.gpus)


def _gpus(patient: Patient) -> Iterator[tuple[str, Host, Gpu]]:
    for host in patient.gpu_hosts:
        for gpu in host.gpus if host.connection is Connection.CONNECTED else ():
            yield f"{host.name}/{gpu.pci_id}", host, gpu


def _on_a_node(patient: Patient) -> Evidence:
    for name, host, gpu in _gpus(patient):
        if len(host.numa_nodes) > 1:
            yield name, gpu.numa_node is not None


def _bridges(patient: Patient) -> Evidence:
    """Yield whether a parent bridge, if the host lists that address at all, is a bridge."""
    for name, host, gpu in _gpus(patient):
        above = gpu.pci.parent_bridge
        if above is not None:
            listed_one = host.device(above)
            yield name, listed_one is None or listed_one.class_id >> 8 == _BRIDGE


_BRIDGE = 0x06


def _known_profiles(patient: Patient) -> Evidence:
    for host in patient.gpu_hosts:
        for profile in host.creatable_profiles:
            yield profile, bool(patient.capacity.needs(profile))


def _known_boards(patient: Patient) -> Evidence:
    for name, _, gpu in _gpus(patient):
        yield name, patient.capacity.board_of(gpu.pci) is not None


def _one_size(patient: Patient) -> Evidence:
    for name, host, gpu in _gpus(patient):
        state = next(one for one in patient.capacity.read(host).gpus if one.pci_id == gpu.pci_id)
        sizes = {one.need.size_gb for one in state.held if one.need is not None}
        if (
            len(state.held) > 1
            and gpu.vgpu_mode == "same_size"
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


TRIALS: Mapping[str, Callable[[Patient], Evidence]] = {
    "vgpu-needs-efi": _condition(ConditionKind.FIRMWARE),
    "vgpu-needs-reserved-memory": _condition(ConditionKind.MEMORY),
    "mmio-rule": _condition(ConditionKind.MMIO),
    "hardware-version-of-devices": _condition(ConditionKind.HARDWARE_VERSION),
    "vgpus-by-hardware-version": _vgpus_by_version,
    "graphics-info-shows-vms": _shown_on_gpus,
    "numa-info-lists-gpus": _on_a_node,
    "parent-bridge-is-an-address": _bridges,
    "profile-names-are-known": _known_profiles,
    "boards-by-pci-id": _known_boards,
    "same-size-takes-one-size": _one_size,
    "hosts-of-a-kind-offer-the-same": _same_profiles,
    "generated-macs": _generated_macs,
}
"""How each belief is tried, by its id."""
