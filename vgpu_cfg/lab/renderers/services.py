"""Rendering of the vCenter itself and its managers.

Rendering of host profiles: their name, and the hosts they are attached to. The lab lacks their content.

Rendering of customization specifications (vim `CustomizationSpecManager`), and the key of their passwords.

Rendering of a vCenter's key providers (vim `KmipClusterInfo`, `CryptoManagerKmip`).

Rendering of licenses: the keys that vCenter knows, and the hosts that have them.

Rendering of a session (vim `UserSession`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service, vim_class
from vgpu_cfg.lab.api.versions import is_at_least
from vgpu_cfg.lab.renderers.alarms import ALARM, ALARM_MANAGER
from vgpu_cfg.lab.renderers.entity import attribute, constant, custom_fields, recent_tasks, under
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.hosts.host import FIREWALL, services
from vgpu_cfg.lab.renderers.hosts.network import VNIC_MANAGER_INFO
from vgpu_cfg.lab.renderers.hosts.options import (
    AUTO_START_MANAGER,
    CERTIFICATE_MANAGER,
    DATE_TIME_SYSTEM,
    POWER_SYSTEM,
    STORAGE_SYSTEM,
    option_definitions,
    options,
)
from vgpu_cfg.lab.renderers.performance import PERFORMANCE_MANAGER
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.renderers.task import task_info
from vgpu_cfg.lab.rules.customization import OWN_KEY
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.context import Context, reference_to, referred, vcenter_version
from vgpu_cfg.lab.simulation.directory import SINGLETONS
from vgpu_cfg.lab.simulation.event_history import EventCollector, event_shown
from vgpu_cfg.lab.simulation.host_profiles import profiles_of
from vgpu_cfg.lab.simulation.sessions import Session
from vgpu_cfg.lab.simulation.tasks import TaskCollector, newest
from vgpu_cfg.lab.simulation.views import content
from vgpu_cfg.lab.state.host_defaults import EVALUATION
from vgpu_cfg.lab.state.inventory import Host, KeyProvider, Managed, PastEvent
from vgpu_cfg.lab.state.roles import ADMIN, NO_ACCESS, READ_ONLY, SYSTEM


def known_licences(context: Context) -> tuple[str, ...]:
    """Return the keys that vCenter knows: the evaluation first."""
    in_use = (host.licence for host in context.state.all(Host) if host.licence)
    return tuple(dict.fromkeys((EVALUATION, *context.state.licences, *in_use)))


def licence_info(context: Context, key: str) -> Any:
    """Render a licence. Edition and counts are the lab's own."""
    is_evaluation = key == EVALUATION
    hosts = [host for host in context.state.all(Host) if host.licence == key]
    return vim.LicenseManager.LicenseInfo(
        licenseKey=key,
        editionKey="eval" if is_evaluation else "esx.enterprisePlus.cpuPackageCoreLimited",
        name="Evaluation Mode" if is_evaluation else "VMware vSphere 8 Enterprise Plus",
        total=0 if is_evaluation else 1024,
        used=sum(host.sockets for host in hosts),
        costUnit="cpuPackage",
    )


def _licences(context: Context, _thing: Service) -> list[Any]:
    return [licence_info(context, key) for key in known_licences(context)]


LICENSE_MANAGER: dict[str, Render] = {
    "licenses": _licences,
    "licensedEdition": constant("vc"),
    "sourceAvailable": constant(value=True),
    "licenseAssignmentManager": constant(vim.LicenseAssignmentManager("LicenseAssignmentManager")),
}


def provider_info(provider: KeyProvider) -> Any:
    """Render a key provider. A native one has no servers, and was backed up: else it could not be used."""
    is_native = provider.kind == "nativeProvider"
    server: Any = vim.encryption.KmipServerInfo
    return vim.encryption.KmipClusterInfo(
        clusterId=vim.encryption.KeyProviderId(id=provider.name),
        servers=[] if is_native else [server(name=provider.name, address=f"{provider.name}.lab", port=5696)],
        useAsDefault=provider.is_default,
        managementType=provider.kind,
        hasBackup=True if is_native else None,
    )


def _providers(context: Context, _thing: Service) -> list[Any]:
    return [provider_info(provider) for provider in context.state.key_providers]


CRYPTO_MANAGER: dict[str, Render] = {"enabled": constant(value=True), "kmipServers": _providers}


CUSTOMIZATION_SPEC_MANAGER: dict[str, Render] = {
    "info": lambda context, _thing: [item.info for item in context.state.customization_specs.values()],
    "encryptionKey": lambda _context, _thing: OWN_KEY,
}


def profiles(context: Context, _thing: Service) -> list[Any]:
    """Render the references of all host profiles."""
    return [vim.profile.host.HostProfile(profile.moid) for profile in profiles_of(context.state)]


HOST_PROFILE: dict[str, Render] = {
    "name": attribute(lambda thing: thing.name),
    "createdTime": constant(as_datetime(VIRTUAL_START)),
    "modifiedTime": constant(as_datetime(VIRTUAL_START)),
    "entity": attribute(lambda thing: [vim.HostSystem(moid) for moid in thing.hosts]),
    "complianceStatus": constant("unknown"),
}


CONTENT = {
    "propertyCollector": "propertyCollector",
    "viewManager": "ViewManager",
    "sessionManager": "SessionManager",
    "authorizationManager": "AuthorizationManager",
    "searchIndex": "SearchIndex",
    "taskManager": "TaskManager",
    "customFieldsManager": "CustomFieldsManager",
    "customizationSpecManager": "CustomizationSpecManager",
    "cryptoManager": "CryptoManager",
    "setting": "VpxSettings",
    "alarmManager": "AlarmManager",
    "eventManager": "EventManager",
    "licenseManager": "LicenseManager",
    "perfManager": "PerfMgr",
    "hostProfileManager": "HostProfileManager",
    "fileManager": "FileManager",
    "virtualDiskManager": "virtualDiskManager",
    "diagnosticManager": "DiagMgr",
    "extensionManager": "ExtensionManager",
    "ovfManager": "OvfManager",
    "storageResourceManager": "StorageResourceManager",
    "vStorageObjectManager": "VStorageObjectManager",
    "dvSwitchManager": "DVSManager",
    "scheduledTaskManager": "ScheduledTaskManager",
    "userDirectory": "UserDirectory",
    "guestOperationsManager": "guestOperationsManager",
}
"""vim `ServiceContent` property → moid. Only what answers is advertised, and what clients take for granted:
without such managers govc crashes, with one that carries nothing out it says so."""


DIRECT_PATH = ("directPathProfileManager", "DirectPathProfileManager")
DIRECT_PATH_SINCE = "vim.version.v9_0_0_0"


def about(context: Context) -> Any:
    """Return what this vCenter says of itself."""
    state = context.state
    return vim.AboutInfo(
        name="VMware vCenter Server",
        fullName=f"VMware vCenter Server {state.version} build-{state.build}",
        vendor="VMware, Inc.",
        version=state.version,
        build=state.build,
        localeVersion="INTL",
        localeBuild="000",
        osType="linux-x64",
        productLineId="vpx",
        apiType="VirtualCenter",
        apiVersion=state.api_version,
        instanceUuid=state.instance_uuid,
        licenseProductName="VMware VirtualCenter Server",
        licenseProductVersion=state.version.partition(".")[0] + ".0",
    )


def service_content(context: Context) -> Any:
    """Return where everything is."""
    known = dict(CONTENT)
    if is_at_least(vcenter_version(context), DIRECT_PATH_SINCE):
        known |= [DIRECT_PATH]
    return vim.ServiceInstanceContent(
        rootFolder=reference_to(context, context.state.root),
        about=about(context),
        **{name: vim_class(SINGLETONS[moid])(moid) for name, moid in known.items()},
    )


def _roles(context: Context, _thing: Managed) -> list[Any]:
    own = [_role(number, role.name, role.privileges) for number, role in context.state.roles.items()]
    return [
        _role(ADMIN, "Admin", (), "Administrator"),
        _role(READ_ONLY, "ReadOnly", SYSTEM, "Read-only"),
        _role(NO_ACCESS, "NoAccess", (), "No access"),
        *own,
    ]


def _role(number: int, name: str, privileges: Sequence[str], label: str = "") -> Any:
    return vim.AuthorizationManager.Role(
        roleId=number,
        system=number < 0,
        name=name,
        info=vim.Description(label=label or name, summary=label or name),
        privilege=list(privileges),
    )


def _own_session(context: Context, _thing: Managed) -> Any:
    return user_session(context.session) if context.session is not None else None


def _sessions(context: Context, _thing: Managed) -> list[Any]:
    return [user_session(each) for each in context.lab.sessions.all()]


def _latest_tasks(context: Context, thing: TaskCollector) -> list[Any]:
    return [task_info(context, task) for task in newest(context.state, thing)]


def _latest_events(context: Context, thing: EventCollector) -> list[Any]:
    return [event_shown(context, event) for event in thing.newest(context.state)]


def _latest_event(context: Context, _thing: Managed) -> Any:
    events = context.state.events
    return event_shown(context, context.state.get(events[-1], PastEvent)) if events else None


def _filters(_context: Context, thing: Service) -> list[Any]:
    return [vim_class("PropertyFilter")(moid) for moid in getattr(thing, "filters", {})]


SERVICES: dict[str, dict[str, Render]] = {
    "ServiceInstance": {
        "serverClock": lambda context, _thing: as_datetime(context.lab.clock.now()),
        "capability": constant(vim.Capability(provisioningSupported=True, multiHostSupported=True)),
        "content": lambda context, _thing: service_content(context),
    },
    "SessionManager": {
        "sessionList": _sessions,
        "currentSession": _own_session,
        "message": constant(""),
        "messageLocaleList": constant(["en"]),
        "supportedLocaleList": constant(["en"]),
        "defaultLocale": constant("en"),
    },
    "TaskManager": {
        "recentTask": lambda context, _thing: referred(context, recent_tasks(context.state)),
        "maxCollector": constant(32),
    },
    "TaskHistoryCollector": {"filter": lambda _context, thing: thing.spec, "latestPage": _latest_tasks},
    "ViewManager": {"viewList": constant([])},
    "SearchIndex": {},
    "AuthorizationManager": {"roleList": _roles},
    "CustomFieldsManager": {"field": lambda context, _thing: custom_fields(context)},
    "CustomizationSpecManager": CUSTOMIZATION_SPEC_MANAGER,
    "CryptoManagerKmip": CRYPTO_MANAGER,
    "DirectPathProfileManager": {},
    "PropertyCollector": {"filter": _filters},
    "PropertyFilter": {
        "spec": lambda _context, thing: thing.spec,
        "partialUpdates": constant(value=True),
    },
    "ContainerView": {
        "view": content,
        "container": lambda context, thing: reference_to(context, thing.container),
        "type": lambda _context, thing: list(thing.types),
        "recursive": lambda _context, thing: thing.recursive,
    },
    "ListView": {"view": content},
    "EnvironmentBrowser": {},
    "HostDatastoreBrowser": {},
    "HostAssignableHardwareManager": {},
    "HostServiceSystem": {"serviceInfo.service": services},
    "HostFirewallSystem": under("firewallInfo", FIREWALL),
    "HostVirtualNicManager": under("info", VNIC_MANAGER_INFO),
    "HostAccessManager": {"lockdownMode": lambda _context, thing: host_of(thing).lockdown},
    "ReflectManagedMethodExecuter": {},
    "HostKernelModuleSystem": {},
    "HostImageConfigManager": {},
    "OptionManager": {"setting": options, "supportedOption": option_definitions},
    "AlarmManager": ALARM_MANAGER,
    "EventManager": {"maxCollector": constant(32), "latestEvent": _latest_event},
    "EventHistoryCollector": {
        "filter": lambda _context, thing: thing.spec,
        "latestPage": _latest_events,
        "initialized": constant(value=True),
    },
    "Alarm": ALARM,
    "LicenseManager": LICENSE_MANAGER,
    "LicenseAssignmentManager": {},
    "PerformanceManager": PERFORMANCE_MANAGER,
    "HostProfileManager": {"profile": profiles},
    "FileManager": {},
    "VirtualDiskManager": {},
    "DiagnosticManager": {},
    "ExtensionManager": {},
    "OvfManager": {},
    "StorageResourceManager": {},
    "VcenterVStorageObjectManager": {},
    "DistributedVirtualSwitchManager": {},
    "ScheduledTaskManager": {"scheduledTask": constant([])},
    "UserDirectory": {"domainList": constant([])},
    "HostDateTimeSystem": DATE_TIME_SYSTEM,
    "HostStorageSystem": STORAGE_SYSTEM,
    "HostAutoStartManager": AUTO_START_MANAGER,
    "HostPowerSystem": POWER_SYSTEM,
    "HostCertificateManager": CERTIFICATE_MANAGER,
    "HostDatastoreSystem": {"datastore": lambda context, thing: referred(context, host_of(thing).datastores)},
    "HostProfile": HOST_PROFILE,
    "GuestOperationsManager": {
        "authManager": constant(vim_class("GuestAuthManager")("guestOperationsAuthManager")),
        "processManager": constant(vim_class("GuestProcessManager")("guestOperationsProcessManager")),
        "fileManager": constant(vim_class("GuestFileManager")("guestOperationsFileManager")),
    },
    "GuestAuthManager": {},
    "GuestProcessManager": {},
    "GuestFileManager": {},
}
"""wsdl type → path → renderer, for types outside of the inventory."""


def user_session(session: Session) -> Any:
    """Return a session as the API shows it."""
    return vim.UserSession(
        key=session.key,
        userName=session.user,
        fullName=session.user,
        loginTime=as_datetime(session.login_time),
        lastActiveTime=as_datetime(session.last_active),
        locale=session.locale,
        messageLocale=session.locale,
        extensionSession=False,
        ipAddress="127.0.0.1",
        userAgent=session.user_agent,
        callCount=session.calls,
    )
