"""Rendering of the vCenter itself, its managers, and its tasks.

Host profiles are without content.

Of GPU counters keys, units, roll-ups and levels of utilization, mem.used, mem.usage and temperature are those
of a recorded vCenter (govmomi, simulator/vpx/performance_manager.go), as are the four intervals. mem.total,
mem.reserved and power.used were seen at a real host (github.com/Checkmk/checkmk/pull/807): their keys, and
that they are averages of level 4, are the lab's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab.api.references import Service, reference, vim_class
from vgpu_cfg.lab.api.versions import NAMESPACE, is_at_least
from vgpu_cfg.lab.renderers.entity import (
    ALARM,
    ALARM_MANAGER,
    attribute,
    constant,
    custom_fields,
    itself,
    recent_tasks,
    under,
)
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.renderers.host import (
    AUTO_START_MANAGER,
    CERTIFICATE_MANAGER,
    DATE_TIME_SYSTEM,
    FIREWALL,
    POWER_SYSTEM,
    STORAGE_SYSTEM,
    option_definitions,
    options,
    services,
)
from vgpu_cfg.lab.renderers.network import VNIC_MANAGER_INFO
from vgpu_cfg.lab.renderers.table import Render, Table
from vgpu_cfg.lab.rules.customization import OWN_KEY
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.directory import SINGLETONS, content, profiles_of
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred, vcenter_version
from vgpu_cfg.lab.simulation.past_events import EventCollector, event_shown
from vgpu_cfg.lab.simulation.sessions import Session
from vgpu_cfg.lab.simulation.tasks import TaskCollector, newest
from vgpu_cfg.lab.state.host_defaults import EVALUATION
from vgpu_cfg.lab.state.inventory import Host, KeyProvider, Managed, PastEvent, Task
from vgpu_cfg.lab.state.roles import ADMIN, NO_ACCESS, READ_ONLY, SYSTEM

LEVEL = 4
_UNITS = {
    "percent": ("%", "Percentage"),
    "kiloBytes": ("KB", "Kilobyte"),
    "celsius": ("℃", "Temperature in degrees Celsius"),
    "watt": ("W", "Watt"),
}
_ALL = ("none", "average", "maximum", "minimum")
_NAMES = (
    ("utilization", "Utilization", "The utilization of a GPU in percentages", "percent", _ALL),
    ("mem.used", "Memory used", "The amount of GPU memory used in kilobytes", "kiloBytes", _ALL),
    (
        "mem.usage",
        "Memory usage",
        "The amount of GPU memory used in percentages of the total available",
        "percent",
        _ALL,
    ),
    ("temperature", "Temperature", "The temperature of a GPU in degrees celsius", "celsius", ("average",)),
    ("mem.total", "Memory total", "The GPU memory of a GPU", "kiloBytes", ("average",)),
    ("mem.reserved", "Memory reserved", "The GPU memory that is reserved", "kiloBytes", ("average",)),
    ("power.used", "Power used", "The power that a GPU draws", "watt", ("average",)),
)
_FIRST_KEY = 558


@dataclass(frozen=True, slots=True)
class Interval:
    """vCenter's history: seconds between samples, and seconds that they are kept."""

    key: int
    name: str
    period: int
    length: int


INTERVALS = (
    Interval(1, "Past Day", 300, 86_400),
    Interval(2, "Past Week", 1_800, 604_800),
    Interval(3, "Past Month", 7_200, 2_592_000),
    Interval(4, "Past Year", 86_400, 31_536_000),
)


def _counter(key: int, name: str, label: str, summary: str, unit: str, rollup: str) -> Any:
    unit_label, unit_summary = _UNITS[unit]
    return vim.PerformanceManager.CounterInfo(
        key=key,
        nameInfo=vim.ElementDescription(key=name, label=label, summary=summary),
        groupInfo=vim.ElementDescription(key="gpu", label="GPU", summary="GPU"),
        unitInfo=vim.ElementDescription(key=unit, label=unit_label, summary=unit_summary),
        rollupType=rollup,
        statsType="absolute",
        level=LEVEL,
        perDeviceLevel=LEVEL,
    )


_FORMS = [
    (name, label, text, unit, rollup) for name, label, text, unit, rollups in _NAMES for rollup in rollups
]
COUNTERS = {key: _counter(key, *form) for key, form in enumerate(_FORMS, start=_FIRST_KEY)}
"""vim `PerfCounterInfo` by key."""


def _intervals(context: Context, _thing: Service) -> list[Any]:
    return [
        vim.HistoricalInterval(
            key=one.key,
            samplingPeriod=one.period,
            name=one.name,
            length=one.length,
            level=context.state.statistics_level,
            enabled=True,
        )
        for one in INTERVALS
    ]


PERFORMANCE_MANAGER: dict[str, Render] = {
    "perfCounter": lambda _context, _thing: [*COUNTERS.values()],
    "historicalInterval": _intervals,
}


GONE_TYPES = {"vm": "VirtualMachine", "group": "Folder", "resgroup": "ResourcePool"}
"""The prefix of a removed object's moid → its type."""


def _method(_context: Context, thing: Task) -> Any:
    """Return pyvmomi's method: the property is one, and travels as its name."""
    try:
        return VmomiSupport.GetWsdlMethod(NAMESPACE, thing.name)
    except KeyError:
        return None


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else as_datetime(seconds)


def _result(context: Context, thing: Task) -> Any:
    if isinstance(thing.result, str) and thing.result in context.state.objects:
        return reference(context.state.objects[thing.result])
    return thing.result


def _entity(context: Context, thing: Task) -> Any:
    """Return the entity of the task, also if it is gone: a removed object keeps its reference."""
    if thing.entity in context.state.objects:
        return reference(context.state.objects[thing.entity])
    kind = GONE_TYPES.get(thing.entity.partition("-")[0])
    return vim_class(kind)(thing.entity) if kind is not None else None


TASK: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    "info.key": attribute(lambda thing: thing.moid),
    "info.task": itself,
    "info.description": attribute(
        lambda thing: vmodl.LocalizableMessage(key=thing.description_id, message=thing.description_id)
    ),
    "info.name": _method,
    "info.descriptionId": attribute(lambda thing: thing.description_id),
    "info.entity": _entity,
    "info.entityName": attribute(lambda thing: thing.entity_name),
    "info.locked": constant([]),
    "info.state": attribute(lambda thing: thing.state),
    "info.cancelled": attribute(lambda thing: thing.cancelled),
    "info.cancelable": attribute(lambda thing: thing.cancelable),
    "info.error": attribute(lambda thing: thing.fault),
    "info.result": _result,
    "info.progress": attribute(lambda thing: thing.progress if thing.state == "running" else None),
    "info.reason": attribute(lambda thing: vim.TaskReasonUser(userName=thing.user)),
    "info.queueTime": attribute(lambda thing: _moment(thing.queued_at)),
    "info.startTime": attribute(lambda thing: _moment(thing.started_at)),
    "info.completeTime": attribute(lambda thing: _moment(thing.ended_at)),
    "info.eventChainId": attribute(lambda thing: thing.event_chain_id),
}
"""`progress` is set while the task runs and unset when it is over, as its description says."""


@cache
def _table() -> Table:
    return Table(vim.Task, TASK)


def task_info(context: Context, task: Task) -> Any:
    """Render all properties of a task."""
    return _table().reader("info", context.version).read(context, task)


def known_licences(context: Context) -> tuple[str, ...]:
    """Return the keys that vCenter knows: the evaluation first."""
    in_use = (host.licence for host in context.state.all(Host) if host.licence)
    return tuple(dict.fromkeys((EVALUATION, *context.state.licences, *in_use)))


_EVALUATION_ENDS = VIRTUAL_START + 60 * 86_400.0


def licence_info(context: Context, key: str) -> Any:
    """Render a licence. Edition and counts are the lab's own."""
    is_evaluation = key == EVALUATION
    ends = _EVALUATION_ENDS if is_evaluation else context.state.licence_ends.get(key)
    hosts = [host for host in context.state.all(Host) if host.licence == key]
    return vim.LicenseManager.LicenseInfo(
        licenseKey=key,
        editionKey="eval" if is_evaluation else "esx.enterprisePlus.cpuPackageCoreLimited",
        name="Evaluation Mode" if is_evaluation else "VMware vSphere 8 Enterprise Plus",
        total=0 if is_evaluation else 1024,
        used=sum(host.sockets for host in hosts),
        costUnit="cpuPackage",
        properties=[] if ends is None else [vmodl.KeyAnyValue(key="expirationDate", value=as_datetime(ends))],
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
    return [event_shown(context.state, event) for event in thing.newest(context.state)]


def _latest_event(context: Context, _thing: Managed) -> Any:
    events = context.state.events
    return event_shown(context.state, context.state.get(events[-1], PastEvent)) if events else None


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
