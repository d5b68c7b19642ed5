"""Storage policies (SPBM): which there are, which datastores fit them, and which VMs and disks have one.

Source: VMware Storage Policy API, PbmProfileProfileManager and PbmPlacementSolver. A policy of the lab is one
by tags. That an entity without a policy is left out of the answer is derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import pbm, vmodl

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import VMS_RUN_SINCE, as_datetime
from vgpu_cfg.lab.simulation.directory import OF_STORAGE
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Datastore, Managed, StoragePolicy, VirtualMachine

_TAGS = "http://www.vmware.com/storage/tag"
_VM, _DISK = "virtualMachine", "virtualDiskId"
_Capability: Any = pbm.capability


@answers("PbmServiceInstance", "PbmRetrieveServiceContent")
def service_content(context: Context, thing: Managed) -> Any:
    """Return the roots of the API."""
    managers: dict[str, Any] = {kind: pbm_reference(kind, moid) for moid, kind in OF_STORAGE.items()}
    about: Any = pbm.AboutInfo
    return pbm.ServiceInstanceContent(
        aboutInfo=about(name="PBM", version="2.0", instanceUuid=context.state.instance_uuid),
        sessionManager=managers["PbmSessionManager"],
        capabilityMetadataManager=managers["PbmCapabilityMetadataManager"],
        profileManager=managers["PbmProfileProfileManager"],
        complianceManager=managers["PbmComplianceManager"],
        placementSolver=managers["PbmPlacementSolver"],
    )


@answers("PbmProfileProfileManager", "PbmQueryProfile")
def query_profile(
    context: Context, thing: Managed, *, resourceType: Any, profileCategory: str | None
) -> list[Any]:
    """List the ids of the policies; all are requirements of storage."""
    is_asked = resourceType.resourceType == "STORAGE" and profileCategory in (None, "", "REQUIREMENT")
    return [_profile_id(one.id) for one in context.state.storage_policies if is_asked]


@answers("PbmProfileProfileManager", "PbmRetrieveContent")
def retrieve_content(context: Context, thing: Managed, *, profileIds: list[Any]) -> list[Any]:
    """Return policies. Raises InvalidArgument for none, and for one that there is not."""
    known = {one.id: one for one in context.state.storage_policies}
    if not profileIds or any(one.uniqueId not in known for one in profileIds):
        raise refusals.bad_argument("profileIds")
    return [_profile(known[one.uniqueId]) for one in profileIds]


@answers("PbmPlacementSolver", "PbmCheckRequirements")
def check_requirements(
    context: Context,
    thing: Managed,
    *,
    hubsToSearch: list[Any],
    placementSubjectRef: Any,
    placementSubjectRequirement: list[Any],
) -> list[Any]:
    """Say of each datastore, all where none is named, whether it fits every policy."""
    known = {one.id: one for one in context.state.storage_policies}
    ids = [one.profileId.uniqueId for one in placementSubjectRequirement]
    if any(one not in known for one in ids):
        raise refusals.bad_argument("placementSubjectRequirement")
    stores = {store.moid: store for store in context.state.all(Datastore)}
    asked = [hub.hubId for hub in hubsToSearch] or list(stores)
    return [_compatibility(stores[moid], [known[one] for one in ids]) for moid in asked if moid in stores]


@answers("PbmProfileProfileManager", "PbmQueryAssociatedProfiles")
def query_associated_profiles(context: Context, thing: Managed, *, entities: list[Any]) -> list[Any]:
    """Return the policies of VMs' homes and disks; entities without one are left out."""
    found = [(entity, _policy_of(context, entity)) for entity in entities]
    result: Any = pbm.profile.QueryProfileResult
    shows_all = context.state.denies("policy-answer-omits-objects")
    return [
        result(object=entity, profileId=[_profile_id(policy)] if policy else [])
        for entity, policy in found
        if policy or shows_all
    ]


@answers("PbmProfileProfileManager", "PbmQueryAssociatedProfile")
def query_associated_profile(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """Return the policy of one of them, in a list that may be empty."""
    policy = _policy_of(context, entity)
    return [_profile_id(policy)] if policy else []


@answers("PbmProfileProfileManager", "PbmQueryAssociatedEntity")
def query_associated_entity(
    context: Context, thing: Managed, *, profile: Any, entityType: str | None
) -> list[Any]:
    """Return the homes and the disks that have a policy."""
    return [
        pbm.ServerObjectRef(objectType=kind, key=key)
        for vm in context.state.all(VirtualMachine)
        for kind, key, policy in _entities(vm)
        if policy == profile.uniqueId and entityType in (None, "", kind)
    ]


def pbm_reference(kind: str, moid: str) -> Any:
    """Return the reference of a manager of this API."""
    types = {
        "PbmServiceInstance": pbm.ServiceInstance,
        "PbmProfileProfileManager": pbm.profile.ProfileManager,
        "PbmPlacementSolver": pbm.placement.PlacementSolver,
        "PbmComplianceManager": pbm.compliance.ComplianceManager,
        "PbmSessionManager": pbm.auth.SessionManager,
        "PbmCapabilityMetadataManager": pbm.capability.CapabilityMetadataManager,
    }
    made: Any = types[kind]
    return made(moid)


def _entities(vm: VirtualMachine) -> Iterator[tuple[str, str, str]]:
    yield _VM, vm.moid, vm.home_policy
    yield from ((_DISK, f"{vm.moid}:{key}", policy) for key, policy in vm.disk_policies.items())


def _policy_of(context: Context, entity: Any) -> str:
    moid, colon, _key = entity.key.partition(":")
    if colon and context.state.denies("policy-key-of-a-disk"):
        return ""
    vm = context.state.find(moid, VirtualMachine)
    if vm is None:
        return ""
    return next(
        (one for kind, key, one in _entities(vm) if (kind, key) == (entity.objectType, entity.key)), ""
    )


def _compatibility(store: Datastore, policies: list[StoragePolicy]) -> Any:
    unmet = [one for one in policies if store.name not in one.datastores]
    fault: Any = pbm.fault.CompatibilityCheckFault
    hub: Any = pbm.placement.PlacementHub
    result: Any = pbm.placement.CompatibilityResult
    return result(
        hub=hub(hubType="Datastore", hubId=store.moid),
        error=[_fault(fault(hub=hub(hubType="Datastore", hubId=store.moid)), one) for one in unmet],
    )


def _fault(fault: vmodl.MethodFault, policy: StoragePolicy) -> vmodl.MethodFault:
    fault.msg = f"Datastore does not match current VM policy: {policy.name}"
    return fault


def _profile_id(policy_id: str) -> Any:
    return pbm.profile.ProfileId(uniqueId=policy_id)


def _profile(policy: StoragePolicy) -> Any:
    made = as_datetime(VMS_RUN_SINCE)
    values: Any = _Capability.types.DiscreteSet(values=[policy.name])
    instance = _Capability.PropertyInstance(id="com.vmware.storage.tag.policy.property", value=values)
    capability = _Capability.CapabilityInstance(
        id=_Capability.CapabilityMetadata.UniqueId(namespace=_TAGS, id="policy"),
        constraint=[_Capability.ConstraintInstance(propertyInstance=[instance])],
    )
    constraints: Any = pbm.profile.SubProfileCapabilityConstraints
    rules = constraints.SubProfile(name="Tag based placement", capability=[capability])
    return pbm.profile.CapabilityBasedProfile(
        profileId=_profile_id(policy.id),
        name=policy.name,
        description=policy.description,
        creationTime=made,
        createdBy="Administrator",
        lastUpdatedTime=made,
        lastUpdatedBy="Administrator",
        profileCategory="REQUIREMENT",
        resourceType=pbm.profile.ResourceType(resourceType="STORAGE"),
        constraints=constraints(subProfiles=[rules]),
        isDefault=False,
    )
