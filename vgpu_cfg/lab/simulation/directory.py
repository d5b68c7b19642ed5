"""Resolution of a reference: to inventory, the vCenter's managers, a host's managers, a session's views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Host, LabState, Managed, below

HOST_PROFILE = "hostprofile"


@dataclass(slots=True, kw_only=True)
class HostProfile(Service):
    """A host profile, known by the hosts that name it."""

    hosts: tuple[str, ...] = ()


def profiles_of(state: LabState) -> list[HostProfile]:
    """Return every host profile; its number is its place among the names."""
    names: dict[str, list[str]] = {}
    for host in state.all(Host):
        if host.profile:
            names.setdefault(host.profile, []).append(host.moid)
    return [
        HostProfile(moid=f"{HOST_PROFILE}-{number}", name=name, kind="HostProfile", hosts=tuple(names[name]))
        for number, name in enumerate(sorted(names), start=1)
    ]


SINGLETONS = {
    "ServiceInstance": "ServiceInstance",
    "propertyCollector": "PropertyCollector",
    "ViewManager": "ViewManager",
    "SessionManager": "SessionManager",
    "SearchIndex": "SearchIndex",
    "AuthorizationManager": "AuthorizationManager",
    "TaskManager": "TaskManager",
    "CustomFieldsManager": "CustomFieldsManager",
    "CustomizationSpecManager": "CustomizationSpecManager",
    "CryptoManager": "CryptoManagerKmip",
    "DirectPathProfileManager": "DirectPathProfileManager",
    "VpxSettings": "OptionManager",
    "AlarmManager": "AlarmManager",
    "EventManager": "EventManager",
    "LicenseManager": "LicenseManager",
    "LicenseAssignmentManager": "LicenseAssignmentManager",
    "PerfMgr": "PerformanceManager",
    "HostProfileManager": "HostProfileManager",
    "FileManager": "FileManager",
    "virtualDiskManager": "VirtualDiskManager",
    "DiagMgr": "DiagnosticManager",
    "ExtensionManager": "ExtensionManager",
    "OvfManager": "OvfManager",
    "StorageResourceManager": "StorageResourceManager",
    "VStorageObjectManager": "VcenterVStorageObjectManager",
    "DVSManager": "DistributedVirtualSwitchManager",
    "ScheduledTaskManager": "ScheduledTaskManager",
    "UserDirectory": "UserDirectory",
    "guestOperationsManager": "GuestOperationsManager",
    "guestOperationsAuthManager": "GuestAuthManager",
    "guestOperationsProcessManager": "GuestProcessManager",
    "guestOperationsFileManager": "GuestFileManager",
}
"""The vCenter's own managers: moid → wsdl type."""

OF_STORAGE = {
    "ServiceInstance": "PbmServiceInstance",
    "ProfileManager": "PbmProfileProfileManager",
    "placementSolver": "PbmPlacementSolver",
    "complianceManager": "PbmComplianceManager",
    "SessionManager": "PbmSessionManager",
    "CapabilityMetadataManager": "PbmCapabilityMetadataManager",
}
"""The managers of storage policies: moid → wsdl type."""

OF_HOST = {
    "graphicsManager": "HostGraphicsManager",
    "pciPassthruSystem": "HostPciPassthruSystem",
    "assignableHardwareManager": "HostAssignableHardwareManager",
    "networkSystem": "HostNetworkSystem",
    "serviceSystem": "HostServiceSystem",
    "EsxHostAdvSettings": "OptionManager",
    "kernelModuleSystem": "HostKernelModuleSystem",
    "firewallSystem": "HostFirewallSystem",
    "imageConfigManager": "HostImageConfigManager",
    "virtualNicManager": "HostVirtualNicManager",
    "hostAccessManager": "HostAccessManager",
    "storageSystem": "HostStorageSystem",
    "datastoreSystem": "HostDatastoreSystem",
    "dateTimeSystem": "HostDateTimeSystem",
    "autoStartManager": "HostAutoStartManager",
    "powerSystem": "HostPowerSystem",
    "certificateManager": "HostCertificateManager",
    "managedMethodExecuter": "ReflectManagedMethodExecuter",
}
"""A host's managers: what their moid begins with → wsdl type. `graphicsManager-12` is that of `host-12`."""

OF_CLUSTER = {"envbrowser": "EnvironmentBrowser"}
"""A compute resource's managers, named likewise."""

BROWSER = "datastoreBrowser"
"""The prefix of the moid of a datastore's browser, before that of the datastore or host."""


def find(context: Context, moid: str, *, storage: bool = False) -> Managed | None:
    """Return the object of a moid, None if there is none; `storage`: in that API."""
    if storage:
        return Service(moid=moid, name=moid, kind=OF_STORAGE[moid]) if moid in OF_STORAGE else None
    thing = context.state.objects.get(moid)
    if thing is not None:
        return thing
    if context.session is not None and moid in context.session.objects:
        return context.session.objects[moid]
    if moid in SINGLETONS:
        return Service(moid=moid, name=moid, kind=SINGLETONS[moid])
    if moid.startswith(HOST_PROFILE):
        return next((found for found in profiles_of(context.state) if found.moid == moid), None)
    return _owned(context, moid)


def service_of(owner: Host | Cluster, prefix: str) -> Service:
    """Return a manager of a host or of a compute resource."""
    kind = OF_HOST[prefix] if isinstance(owner, Host) else OF_CLUSTER[prefix]
    moid = f"{prefix}-{owner.moid.partition('-')[2]}"
    return Service(moid=moid, name=moid, kind=kind, owner=owner, revision=owner.revision)


def _owned(context: Context, moid: str) -> Service | None:
    prefix, dash, number = moid.partition("-")
    owner: Host | Cluster | None = None
    if dash and prefix in OF_HOST:
        owner = context.state.find(f"host-{number}", Host)
    elif dash and prefix in OF_CLUSTER:
        owner = context.state.find(f"domain-{number}", Cluster)
    elif dash and prefix == BROWSER:
        place = context.state.find(number, Datastore) or context.state.find(number, Host)
        return (
            None if place is None else Service(moid=moid, name=moid, kind="HostDatastoreBrowser", owner=place)
        )
    return None if owner is None else service_of(owner, prefix)


@dataclass(slots=True, kw_only=True)
class ContainerView(Service):
    """Everything of some types below a container, found anew whenever it is read."""

    kind: str = "ContainerView"
    container: str
    types: tuple[Any, ...] = ()
    recursive: bool = True


@dataclass(slots=True, kw_only=True)
class ListView(Service):
    """The client's objects in it."""

    kind: str = "ListView"
    moids: dict[str, None] = field(default_factory=dict)


def content(context: Context, view: ContainerView | ListView) -> list[Any]:
    """Return the references in a view."""
    if isinstance(view, ListView):
        found = (find(context, moid) for moid in view.moids)
        return [reference(thing) for thing in found if thing is not None]
    container = context.state.objects.get(view.container)
    if container is None:
        return []
    return [
        reference(thing)
        for thing in below(context.state, container, recursive=view.recursive)
        if not view.types or issubclass(vim_class(wire_type(thing)), view.types)
    ]
