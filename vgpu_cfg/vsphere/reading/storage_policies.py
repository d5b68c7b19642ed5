"""The VM storage policies of a vCenter, the datastores that fit them, and those of its VMs.

Source: VMware Storage Policy API, PbmProfileProfileManager, PbmPlacementSolver and PbmServerObjectRef; that
the key of a disk is `vm-moid:key` is as Terraform's vSphere provider asks for it.

Belief: policy-key-of-a-disk, policy-answer-omits-objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyVmomi import pbm, vim

from vgpu_cfg.model.observed.inventory import Datastore, StoragePolicy
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_MOST_ENTITIES = 500
"""So many homes and disks are asked about at once."""
_VM, _DISK, _DATASTORE = "virtualMachine", "virtualDiskId", "Datastore"


class PolicyReader:
    """Reads storage policies on a session; nothing is asked before."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: Any = None
        self._is_told = False

    def read(
        self, names: frozenset[str], datastores: Sequence[Datastore]
    ) -> tuple[StoragePolicy, ...] | None:
        """Return all policies, and of those with one of the names which datastores fit.

        None where the account may not see them. Three round trips, and one for each name.
        """
        with translated("reading the storage policies", self._session.address):
            try:
                profiles = self._profiles()
            except (vim.fault.NoPermission, pbm.fault.NoPermission):
                self._is_told = False
                return None
            folded = {name.casefold() for name in names}
            named = [one.profileId for one in profiles if one.name.casefold() in folded]
            fitting = self._session.each(lambda one: self._fitting(one, datastores), named)
        self._is_told = True
        fit = {one.uniqueId: moids for one, moids in fitting}
        return tuple(
            StoragePolicy(
                id=one.profileId.uniqueId,
                name=one.name,
                datastore_moids=fit.get(one.profileId.uniqueId, frozenset()),
            )
            for one in profiles
        )

    def with_policies(self, vms: Iterable[Vm]) -> list[Vm]:
        """Return VMs with the policies of their homes and disks; a missing one stays unknown.

        Nothing is asked where no policies were read before.
        """
        known = list(vms)
        if not self._is_told:
            return known
        asked = [entity for vm in known for entity in _entities(vm)]
        some = [asked[at : at + _MOST_ENTITIES] for at in range(0, len(asked), _MOST_ENTITIES)]
        with translated("reading VM storage policies", self._session.address):
            found = self._session.each(self._associated, some)
        told = {key: policy for _, part in found for key, policy in part.items()}
        return [_with_told(vm, told) for vm in known]

    @property
    def _content(self) -> Any:
        stub = self._session.storage  # it sends the cookie of the session as it is now
        if self._found is None:
            instance: Any = pbm.ServiceInstance("ServiceInstance", stub)
            self._found = instance.RetrieveContent()
        return self._found

    def _profiles(self) -> Sequence[Any]:
        manager = self._content.profileManager
        ids = manager.QueryProfile(pbm.profile.ResourceType(resourceType="STORAGE"), "REQUIREMENT")
        return manager.RetrieveContent(ids) if ids else ()

    def _fitting(self, profile_id: Any, datastores: Sequence[Datastore]) -> frozenset[str]:
        hub: Any = pbm.placement.PlacementHub
        hubs = [hub(hubType=_DATASTORE, hubId=store.moid) for store in datastores]
        wanted = [pbm.placement.CapabilityProfileRequirement(profileId=profile_id)]
        results = self._content.placementSolver.CheckRequirements(hubs, None, wanted) if hubs else ()
        return frozenset(one.hub.hubId for one in results if not one.error)

    def _associated(self, entities: Sequence[Any]) -> dict[tuple[str, str], str]:
        """Return the policy of each of some entities, "" for none; a missing one is left out."""
        results = self._content.profileManager.QueryAssociatedProfiles(list(entities))
        told = {(one.objectType, one.key): "" for one in entities}
        for one in results:
            at = one.object.objectType, one.object.key
            if one.fault is not None:
                told.pop(at, None)
            elif one.profileId:
                told[at] = one.profileId[0].uniqueId
        return told


def _entities(vm: Vm) -> Iterator[Any]:
    if vm.detail is None:
        return
    yield pbm.ServerObjectRef(objectType=_VM, key=vm.moid)
    for disk in vm.detail.disks:
        yield pbm.ServerObjectRef(objectType=_DISK, key=f"{vm.moid}:{disk.key}")


def _with_told(vm: Vm, told: Mapping[tuple[str, str], str]) -> Vm:
    if vm.detail is None:
        return vm
    disks = tuple(
        disk.model_copy(update={"policy": told.get((_DISK, f"{vm.moid}:{disk.key}"))})
        for disk in vm.detail.disks
    )
    update = {"home_policy": told.get((_VM, vm.moid)), "disks": disks}
    detail: VmDetail = vm.detail.model_copy(update=update)
    return vm.model_copy(update={"detail": detail})
