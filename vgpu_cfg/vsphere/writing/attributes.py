"""Texts on hosts and VMs as custom attributes, which two clients may define at once.

vCenter's reference names no limit for the length of a value, and none was tried: whether one that is too long
is refused or cut off is unproven. A truncated text parses as no JSON.

Belief: custom-attribute-holds-255.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.vsphere.reading.tags import fields_for
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.session import Session


def set_host_attribute(session: Session, host_moid: str, attribute: HostAttribute, text: str | None) -> None:
    """Set an attribute of a host, or clear it with None or an empty text.

    One round trip; one more for the first attribute of a session, and for one that has to be defined.
    """
    set_host_attributes(session, host_moid, {str(attribute): text or ""})


def set_host_attributes(session: Session, host_moid: str, values: Mapping[str, str]) -> None:
    """Set attributes of a host by their names, or clear them with an empty text; trips as with a VM's."""
    host = vim.HostSystem(host_moid, session.stub)
    with translated(f"storing {', '.join(values)} on the host", host_moid):
        _set(session, host, values)


def set_vm_attributes(session: Session, vm_moid: str, values: Mapping[str, str]) -> None:
    """Set attributes of a VM by their names, or clear them with an empty text; a round trip each, and one."""
    vm = vim.VirtualMachine(vm_moid, session.stub)
    with translated(f"setting custom attributes {', '.join(values)}", vm_moid):
        _set(session, vm, values)


def _set(session: Session, entity: Any, values: Mapping[str, str]) -> None:
    """Set attributes of a host or a VM; one that nothing of its kind has is defined first.

    The first definition wins (`DuplicateName`), and the value goes under the name instead of the key.
    """
    manager = session.service_content.customFieldsManager
    if manager is None:
        raise not_offered("this vCenter does not support custom attributes", session.address)
    kind = type(entity)._wsdlName
    keys = session.attribute_keys.setdefault(kind, {})
    if not keys.keys() >= values.keys():
        keys.update(_keys(session, manager, kind))
    for name, text in values.items():
        key = keys.get(name)
        if key is None and not text:
            continue
        if key is None:
            try:
                key = manager.AddCustomFieldDef(name, type(entity), None, None).key
            except vim.fault.DuplicateName:
                entity.setCustomValue(name, text)
                continue
        _set_field(session, manager, entity, key, text)


def _set_field(session: Session, manager: Any, entity: Any, key: int, text: str) -> None:
    """Set an attribute by its key; if it has been defined anew since, the next call learns that."""
    try:
        manager.SetField(entity, key, text)
    except vmodl.MethodFault:
        session.attribute_keys.clear()
        raise


def _keys(session: Session, manager: Any, kind: str) -> dict[str, int]:
    """Return the keys of the attributes that objects of a kind can have, by name."""
    return {field.name: int(field.key) for field in fields_for(session, manager, kind)}
