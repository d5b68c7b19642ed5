"""How a text is kept on a host as a custom attribute, and that two may define it at once.

vCenter's reference names no limit for the length of a value, and none was tried: whether one
that is too long is refused or cut off is unproven. What was cut off parses as no JSON.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.host_facts import HostAttribute
from vgpu_cfg.vsphere.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.faults import not_offered, translated
from vgpu_cfg.vsphere.session import Session

_FIELDS = (Paths("vim.CustomFieldsManager", ("field",)),)


def set_host_attribute(session: Session, host_moid: str, attribute: HostAttribute, text: str | None) -> None:
    """Set an attribute of a host, or clear it with None or an empty text.

    Two round trips, three where the attribute has to be defined first. Whoever defines it at the
    same moment wins (`DuplicateName`), and the value goes under the name instead of the key.
    """
    manager = session.service_content.customFieldsManager
    if manager is None:
        raise not_offered("this vCenter keeps no custom attributes", session.address)
    key = _key(session, manager, attribute)
    if key is None and not text:
        return
    host = vim.HostSystem(host_moid, session.stub)
    with translated(f"keeping {attribute} on the host", host_moid):
        if key is None:
            try:
                key = manager.AddCustomFieldDef(str(attribute), vim.HostSystem, None, None).key
            except vim.fault.DuplicateName:
                host.setCustomValue(str(attribute), text)
                return
        manager.SetField(host, key, text or "")


def _key(session: Session, manager: Any, attribute: HostAttribute) -> int | None:
    """Find the attribute's key among those that hosts can have."""
    found = collect_from(session, _FIELDS, [Start("vim.CustomFieldsManager", str(manager._moId))])
    for item in found:
        for field in item.get("field") or ():
            kind = getattr(field.managedObjectType, "_wsdlName", "")
            if field.name == str(attribute) and kind in ("", "ManagedEntity", "HostSystem"):
                return int(field.key)
    return None
