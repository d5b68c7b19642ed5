"""vCenter's customization specifications, as far as a plan needs them; none of their secrets is kept.

Source: vSphere API reference, CustomizationSpecManager and CustomizationSpec. A server can decrypt the
passwords in one if its `encryptionKey` matches the manager's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pyVmomi import vim

from vgpu_cfg.model.observed.customization import CustomizationSpec, SpecNic
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_TYPE = "vim.CustomizationSpecManager"
_PATHS = (Paths(_TYPE, ("info", "encryptionKey")),)
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
    told = next(iter(collect_from(session, _PATHS, [Start(_TYPE, str(manager._moId))])), None)
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
