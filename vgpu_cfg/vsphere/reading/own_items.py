"""vCenter's own items, outside of its inventory: library items, customization specifications, keys, licenses.

A VM template in a library is an object of the inventory as well: `vm_template` of its information is the moid
that the vSphere API knows it by (vSphere Automation API, VmTemplate.LibraryItems.Info). So it is read
and cloned as any other template.

Of customization specifications and licenses no secrets are kept. A server can decrypt the passwords in a
specification if its `encryptionKey` matches the manager's. Licenses are vCenter's own: those of NVIDIA are
known to guests alone. Without a key provider no VM can have a virtual TPM; that a native one is among
`kmipServers` is not proven.

Source: vSphere API reference, CustomizationSpecManager, CryptoManagerKmip and LicenseAssignmentManager.

Belief: library-template-is-in-the-inventory, native-key-provider-is-listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.locks import OWN
from vgpu_cfg.model.observed.own_items import (
    VM_TEMPLATE,
    CustomizationSpec,
    HostAlarm,
    LibraryItem,
    SeenLicence,
    SpecNic,
)
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import is_not_offered, to_error, translated
from vgpu_cfg.vsphere.wire.rest import ids_of, mapping_of, text_of
from vgpu_cfg.vsphere.wire.session import Session

LIBRARIES = "/com/vmware/content/library"
ITEMS = "/com/vmware/content/library/item"
TEMPLATES = "/vcenter/vm-template/library-items"


def read_library_items(session: Session, wanted: Iterable[tuple[str, str]]) -> tuple[LibraryItem, ...]:
    """Return what there is of each item by library and name: four round trips for a VM template.

    Names of libraries need not be different: items are looked for in all that have the name.
    """
    return tuple(_item(session, library, name) for library, name in sorted(set(wanted)))


def _item(session: Session, library: str, name: str) -> LibraryItem:
    what = f"looking up the library item {library}/{name}"
    libraries = _find(session, LIBRARIES, {"name": library}, what)
    if not libraries:
        known = _ids(session, session.rest.get(LIBRARIES, what), what)
        return LibraryItem(
            library=library, name=name, has_library=False, others=_names(session, LIBRARIES, known, what)
        )
    found = [
        item for one in libraries for item in _find(session, ITEMS, {"library_id": one, "name": name}, what)
    ]
    if not found:
        listed = [session.rest.get(f"{ITEMS}?library_id={quote(one)}", what) for one in libraries]
        known = [item for answer in listed for item in _ids(session, answer, what)]
        return LibraryItem(library=library, name=name, others=_names(session, ITEMS, known, what))
    told = mapping_of(session.rest.get(_of(ITEMS, found[0]), what), what, session.address)
    kind = text_of(told, "type", what, session.address)
    moid = _template_moid(session, found[0], what) if kind == VM_TEMPLATE else None
    return LibraryItem(library=library, name=name, kind=kind, template_moid=moid, count=len(found))


def _template_moid(session: Session, item: str, what: str) -> str | None:
    """Return the moid of the latest version's VM template; None if unknown."""
    try:
        found = session.rest.get(f"{TEMPLATES}/{quote(item)}", what)
    except NotFound:
        return None
    moid = found.get("vm_template") if isinstance(found, dict) else None
    return moid if isinstance(moid, str) and moid else None


def _find(session: Session, path: str, spec: dict[str, str], what: str) -> list[str]:
    return _ids(session, session.rest.act(path, "find", {"spec": spec}, what), what)


def _names(session: Session, path: str, ids: Iterable[str], what: str) -> tuple[str, ...]:
    told = (mapping_of(session.rest.get(_of(path, one), what), what, session.address) for one in ids)
    return tuple(sorted({text_of(one, "name", what, session.address) for one in told}))


def _ids(session: Session, answer: Any, what: str) -> list[str]:
    return ids_of(answer, what, session.address)


def _of(path: str, one: str) -> str:
    return f"{path}/id:{quote(one)}"


_SPEC_MANAGER = "vim.CustomizationSpecManager"
_SPECS = (Paths(_SPEC_MANAGER, ("info", "encryptionKey")),)
_Customization: Any = vim.vm.customization


def read_customization_specs(session: Session, names: Iterable[str]) -> tuple[CustomizationSpec, ...] | None:
    """Return what there is of each specification: one round trip, and one for each name.

    None where the account may not read them, or the server has none.
    """
    manager = session.service_content.customizationSpecManager
    if manager is None:
        return None
    with translated("reading the customization specifications", session.address):
        try:
            found = {name: find_spec(session, name) for name in sorted(names)}
        except vim.fault.NoPermission:
            return None
    told = next(iter(collect_from(session, _SPECS, [Start(_SPEC_MANAGER, str(manager._moId))])), None)
    others = tuple(sorted(info.name for info in _told(told, "info")))
    key = list(_told(told, "encryptionKey"))
    return tuple(
        CustomizationSpec(name=name, is_there=False, others=others)
        if item is None
        else _spec(name, item, key)
        for name, item in found.items()
    )


def find_spec(session: Session, name: str) -> Any:
    """Return the vim `CustomizationSpecItem` of a name, None where there is none."""
    try:
        return session.service_content.customizationSpecManager.GetCustomizationSpec(name)
    except vim.fault.NotFound:
        return None


def _told(item: Item | None, path: str) -> Iterable[Any]:
    return (item.get(path) if item is not None else None) or ()


def _spec(name: str, item: Any, key: list[int]) -> CustomizationSpec:
    spec = item.spec
    is_encrypted = any(not password.plainText for password in _passwords(spec.identity))
    return CustomizationSpec(
        name=name,
        kind=_kind(spec.identity),
        change_version=item.info.changeVersion or "",
        domain=getattr(spec.identity, "domain", None) or "",
        nics=tuple(_nic(one.adapter.ip) for one in spec.nicSettingMap or ()),
        is_foreign=is_encrypted and bool(key) and list(spec.encryptionKey or ()) != key,
    )


def _kind(identity: Any) -> Literal["linux", "windows", "other"]:
    match identity:
        case _Customization.LinuxPrep():
            return "linux"
        case _Customization.Sysprep():
            return "windows"
        case _:
            return "other"


def _nic(generator: Any) -> SpecNic:
    match generator:
        case _Customization.DhcpIpGenerator():
            return SpecNic(kind="dhcp")
        case _Customization.FixedIp():
            return SpecNic(kind="fixed", address=generator.ipAddress)
        case _Customization.UnknownIpGenerator():
            return SpecNic(kind="ask")
        case _:
            return SpecNic(kind="other")


def _passwords(identity: Any) -> Iterator[Any]:
    """Yield the passwords of a specification: no more is looked at than whether they are encrypted."""
    found = [getattr(identity, "password", None)]
    if isinstance(identity, _Customization.Sysprep):
        found += [identity.guiUnattended.password, identity.identification.domainAdminPassword]
    return (password for password in found if password is not None)


_KEY_MANAGER = "vim.encryption.CryptoManagerKmip"


_KEY_PROVIDERS = (Paths(_KEY_MANAGER, ("kmipServers",)),)


def read_key_providers(session: Session) -> tuple[str, ...] | None:
    """Return the names of the key providers; None where the account may not read them."""
    manager = session.service_content.cryptoManager
    if manager is None:
        return ()
    found = collect_from(session, _KEY_PROVIDERS, [Start(_KEY_MANAGER, str(manager._moId))])
    if not found or "kmipServers" in found[0].faults:
        return None
    return tuple(str(cluster.clusterId.id) for cluster in found[0].get("kmipServers") or ())


_LICENCE_MANAGER = "vim.LicenseManager"


_ASSIGNMENTS = (Paths(_LICENCE_MANAGER, ("licenseAssignmentManager",)),)


def read_licences(session: Session) -> Mapping[str, tuple[SeenLicence, ...]] | None:
    """Return the licences by the moid of their host, in two round trips: all, without an entity.

    None if vCenter does not report them, or not to this account. Raises VCenterError.
    """
    manager = session.service_content.licenseManager
    if manager is None:
        return None
    found = collect_from(session, _ASSIGNMENTS, [Start(_LICENCE_MANAGER, str(manager._moId))])
    assignments = found[0].get("licenseAssignmentManager") if found else None
    if assignments is None:
        return None
    try:
        assigned = assignments.QueryAssignedLicenses()
    except vmodl.MethodFault as fault:
        if isinstance(fault, vim.fault.NoPermission) or is_not_offered(fault):
            return None
        raise to_error(fault, "reading licenses", session.address) from fault
    licences: dict[str, dict[SeenLicence, None]] = defaultdict(dict)
    for entry in assigned or ():
        name = str(entry.assignedLicense.name)
        licences[str(entry.entityId)][SeenLicence(name=name, ends=_end_of(entry))] = None
    return {moid: tuple(found) for moid, found in licences.items()}


def _end_of(entry: Any) -> datetime | None:
    """Return when a license ends: its own date, or that of the evaluation.

    Belief: licenses-name-their-end.
    """
    periods = [one.value for one in entry.properties or () if one.key.casefold() == "evaluation"]
    for about in (entry.assignedLicense, *periods):
        for one in getattr(about, "properties", None) or ():
            if one.key.casefold() == "expirationdate" and isinstance(one.value, datetime):
                return one.value
    return None


_TRIGGERED, _COLOURS = "triggeredAlarmState", ("red", "yellow")


def read_alarms(session: Session, host_moids: Iterable[str]) -> Mapping[str, tuple[HostAlarm, ...]]:
    """Return the red and yellow alarms by host, without acknowledged ones and those of this tool.

    If the account may not read the alarms of a host, or the name of an alarm, it is left out. Two round
    trips, one if no alarm is triggered. Raises VCenterError. Source: vSphere API reference, AlarmState.
    """
    starts = [Start("vim.HostSystem", moid) for moid in host_moids]
    hosts = collect_from(session, (Paths("vim.HostSystem", (_TRIGGERED,)),), starts)
    found = {
        item.moid: [
            one
            for one in item.get(_TRIGGERED) or ()
            # Those of objects below an object are listed with its own.
            if one.entity._moId == item.moid and one.overallStatus in _COLOURS and not one.acknowledged
        ]
        for item in hosts
        if _TRIGGERED not in item.faults
    }
    moids = dict.fromkeys(str(one.alarm._moId) for states in found.values() for one in states)
    alarms = [Start("vim.alarm.Alarm", moid) for moid in moids]
    named = collect_from(session, (Paths("vim.alarm.Alarm", ("info.name",)),), alarms)
    names = {item.moid: str(item.get("info.name", OWN)) for item in named}
    return {
        moid: tuple(
            HostAlarm(name=name, is_red=one.overallStatus == "red", since=one.time)
            for one in states
            if not (name := names.get(str(one.alarm._moId), OWN)).startswith(OWN)
        )
        for moid, states in found.items()
    }
