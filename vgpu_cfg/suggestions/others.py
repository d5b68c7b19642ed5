"""A fix's effect on other VMs: where each finally runs, or could start again.

It is judged in the estate as acts and plan would have left it, by the same judgement as a drain: rules,
networks, memory, MIG mode and NVLink groups included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.suggestion import Fate, OtherVm
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed
from vgpu_cfg.planning.capacity.hardware import nodes_of_affinity
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.ownership import as_named, is_marked
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.moves.movables import OwnHost
from vgpu_cfg.planning.moves.places import Places, find_places
from vgpu_cfg.planning.pool.outlook import after_plan
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, running_vms, why_cold
from vgpu_cfg.suggestions.acts import offering_all
from vgpu_cfg.suggestions.candidate import Candidate, Trial

_STAYS, _OFF, _MOVES = 3, 2, 1
"""The weights of a VM that must leave its host: no other accepts it, it is off for it, it moves as it
runs.
"""


@dataclass(slots=True)
class Assessor:
    """Assesses trials; `first` is the plan as it was refused."""

    first: Trial
    catalog: Catalog

    def in_the_way(self, trial: Trial) -> int:
        """Weigh the other VMs that must leave hosts first, which the refused plan did not request.

        A plan with manual steps only warns of them: the admin moves them.
        """
        new = _to_be_emptied(trial) - _to_be_emptied(self.first)
        hosts = [host for host in trial.observed.hosts if host.moid in new]
        return sum(weight for host in hosts for weight in self._weights(trial, host))

    def _weights(self, trial: Trial, host: Host) -> Iterator[int]:
        vms = [vm for vm in running_vms(host, trial.observed) if not is_own(vm, trial)]
        places = find_places(vms, trial.observed, self.catalog, Protection())
        for vm in vms:
            is_hot = vm.detail is not None and not why_cold(vm.detail, trial.observed)
            yield _STAYS if vm.moid in places.why_not else _MOVES if is_hot else _OFF

    def uncertain(self, trial: Trial, candidates: Iterable[Candidate]) -> int:
        """Count the GPUs that VMs leave and on which it is unknown whether the rest leaves room."""
        touched = {moid for one in candidates for moid in one.touches}
        reader = CapacityReader(self.first.observed, self.catalog)
        return sum(
            not self._is_certain(host, gpu, touched, trial, reader)
            for host in self.first.observed.hosts
            for gpu in host.gpus
            if touched.intersection(gpu.vm_moids)
        )

    def _is_certain(
        self, host: Host, gpu: Gpu, touched: Collection[str], trial: Trial, reader: CapacityReader
    ) -> bool:
        """Whether the plan's vGPUs find their places on a GPU for any places of the remaining ones."""
        states = reader.arrangements(host, gpu.pci_id)
        own = {vm.name for vm in trial.plan.desired.vms}
        left = {vm.name for vm in self.first.observed.vms_by_host.get(host.moid, ()) if vm.moid in touched}
        coming = self._coming(host, gpu, trial, reader)
        for state in states if len(states) > 1 else ():
            state.held = [held for held in state.held if held.vm not in left | own]
            for need in coming:
                if state.refuse(need) is not None:
                    return False
                state.take(need, "")
        return True

    def _coming(self, host: Host, gpu: Gpu, trial: Trial, reader: CapacityReader) -> list[VgpuNeed]:
        """List the plan's expected vGPUs on a GPU, the largest first."""
        profiles = {
            vm.name: [one.profile[0] for one in vm.gpus if one.profile] for vm in trial.plan.desired.vms
        }
        board = reader.board_of(gpu.pci)
        found = [
            need
            for one in trial.plan.placements
            if one.host_moid == host.moid
            for profile in profiles.get(one.vm, ())[: one.gpu_pci_ids.count(gpu.pci_id)]
            if board is not None and (need := reader.needs(profile.name).get(board.key)) is not None
        ]
        return sorted(found, key=lambda one: -one.framebuffer_mib)

    def others(self, trial: Trial, candidates: Iterable[Candidate]) -> tuple[OtherVm, ...]:
        """Return the fate of VMs that ideas touch, and of those that can no longer start."""
        touched = dict.fromkeys(moid for one in candidates for moid in one.touches)
        emptied = dict.fromkeys(moid for one in candidates for moid in one.empties)
        end = self._end(trial, touched)
        known = [vm for moid in touched if (vm := end.vm_by_moid.get(moid)) and not is_own(vm, trial)]
        off = [vm for vm in known if not vm.is_on]
        found = [self._moved(vm, trial, end) for vm in known if vm.is_on]
        places = self._starts(off, end)
        found += [self._stopped(vm, places) for vm in off]
        hosts = [host for moid in emptied if (host := end.host_by_moid.get(moid)) is not None]
        found += [one for host in hosts for one in self._away(host, trial, end)]
        found += self._evacuated(trial, end)
        return (*found, *self._shut_out(trial, end, {one.moid for one in found}))

    def _end(self, trial: Trial, touched: Collection[str]) -> Inventory:
        """Return the estate after acts and plan.

        A cordon keeps off new VMs only. A host's creatable profiles when it was read count only if nothing
        has changed since.
        """
        end = after_plan(trial.plan, as_named(trial.plan.desired, trial.observed), self.catalog)
        known = self.first.observed.host_by_moid
        homes = {vm.host_moid for moid in touched if (vm := end.vm_by_moid.get(moid))}
        hosts = (
            host if (read := known.get(host.moid)) and read.gpus == host.gpus else offering_all(host)
            for host in end.hosts
        )
        opened = (host.model_copy(update={"cordons": ()}) if host.moid in homes else host for host in hosts)
        return end.model_copy(update={"hosts": tuple(opened)})

    def _starts(self, vms: Sequence[Vm], then: Inventory) -> Places:
        return find_places(vms, then, self.catalog, Protection(), home=OwnHost.FIRST)

    def _moved(self, vm: Vm, trial: Trial, end: Inventory) -> OtherVm:
        """Return whether a moved VM could start at its present place, and its loss."""
        detail, host = vm.detail, end.host_by_moid.get(vm.host_moid or "")
        cold = why_cold(detail, trial.observed) if detail is not None else ""
        nodes = nodes_of_affinity(detail.extra_config.get(AFFINITY_KEY, "")) if detail is not None else ()
        own = {gpu.numa_node for gpu in host.gpus if vm.moid in gpu.vm_moids} if host is not None else set()
        is_far = nodes and own - {None, *nodes}
        return _other(
            vm,
            Fate.MOVED,
            self._starts([vm], end),
            f"it must be powered off for the move: {cold}" if cold else "",
            f"{AFFINITY_KEY} pins it to a NUMA node other than its new GPU's" if is_far else "",
        )

    def _stopped(self, vm: Vm, places: Places) -> OtherVm:
        before = self.first.observed.vm_by_moid.get(vm.moid)
        is_less = before is not None and _devices(vm) < _devices(before)
        return _other(vm, Fate.STOPPED, places, "it starts without its passthrough device" if is_less else "")

    def _away(self, host: Host, trial: Trial, end: Inventory) -> Iterator[OtherVm]:
        """Yield what runs on a host that an act empties: it moves as it runs, or is off meanwhile."""
        vms = [vm for vm in running_vms(host, end) if not is_own(vm, trial)]
        elsewhere = find_places(vms, end, self.catalog, Protection())
        again = self._starts(vms, end)
        for vm in vms:
            cold = why_cold(vm.detail, trial.observed) if vm.detail is not None else "it could not be read"
            if why := elsewhere.why_not.get(vm.moid, "") or cold:
                yield _other(vm, Fate.AWAY, again, f"it must be powered off during the move: {why}")
            else:
                yield _other(vm, Fate.AWAY, elsewhere)

    def _evacuated(self, trial: Trial, end: Inventory) -> Iterator[OtherVm]:
        """Yield the VMs that DRS is to move away from a host and that no other host takes."""
        for change in trial.plan.changes:
            host = end.host_by_moid.get(change.works_on_host or "")
            if host is None or not change.moved_away:
                continue
            vms = [vm for vm in running_vms(host, end) if vm.name in change.moved_away]
            places = find_places(vms, end, self.catalog, Protection())
            yield from (_other(vm, Fate.EVACUATED, places) for vm in vms if vm.moid in places.why_not)

    def _shut_out(self, trial: Trial, end: Inventory, known: Collection[str]) -> Iterator[OtherVm]:
        """Yield the VMs that are off and could start before, near the plan's changes, and then not."""
        changed = {moid for one in trial.plan.changes if (moid := one.host_moid or one.subject.moid)}
        before = self.first.observed
        near = {host.compute_moid for host in before.hosts if host.moid in changed}
        vms = [
            vm
            for vm in before.vms
            if not (vm.is_on or vm.is_template or vm.moid in known or is_own(vm, trial))
            and vm.detail is not None
            and holds_devices(vm.detail)
            and (host := before.host_by_moid.get(vm.host_moid or "")) is not None
            and host.compute_moid in near
        ]
        if not vms:
            return
        could, can = self._starts(vms, before).placements, self._starts(vms, end)
        lost = (vm for vm in vms if vm.moid in could and vm.moid in can.why_not)
        yield from (_other(vm, Fate.OFF, can) for vm in lost)


def _other(vm: Vm, fate: Fate, places: Places, *loses: str) -> OtherVm:
    given = places.placements.get(vm.moid)
    return OtherVm(
        vm=vm.name,
        moid=vm.moid,
        fate=fate,
        host=given.host_name if given is not None else "",
        why=places.why_not.get(vm.moid, ""),
        loses=tuple(filter(None, loses)),
    )


def is_own(vm: Vm, trial: Trial) -> bool:
    """Whether the plan names a VM that is marked as its own."""
    return is_marked(vm, trial.plan.desired.identity) and any(
        one.name == vm.name for one in trial.plan.desired.vms
    )


def _to_be_emptied(trial: Trial) -> set[str | None]:
    return {one.subject.moid for one in trial.plan.diagnostics if one.code == Code.HOST_NOT_EMPTIED}


def _devices(vm: Vm) -> int:
    return len(vm.detail.vgpus) + len(vm.detail.passthrough) if vm.detail is not None else 0
