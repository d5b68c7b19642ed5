"""The product that manages a VM, by the marks that products leave on their VMs.

Belief: vm-operator-marks-vms, bosh-names-its-deployment, eam-marks-agents.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.observed.vm import NAMESPACED_NAME_KEY, Manager
from vgpu_cfg.vsphere.reading.passes import extra_config_path
from vgpu_cfg.vsphere.wire.collector import Item

VM_OPERATOR = "com.vmware.vcenter.wcp"
AGENT_MANAGER = "com.vmware.vim.eam"
_BOSH = ("director", "deployment")
"""The custom attributes by which BOSH's vSphere CPI names who deployed a VM, and with what."""


def manager_of(item: Item, attributes: Mapping[str, str]) -> Manager | None:
    """Return the product that manages a VM, by its extension (vim `ManagedByInfo`) or other marks."""
    managed_by = item.get("config.managedBy")
    extension = getattr(managed_by, "extensionKey", None) or ""
    named = item.get(extra_config_path(NAMESPACED_NAME_KEY))
    namespace, slash, _ = str(named.value if named is not None else "").partition("/")
    if slash and namespace:
        return Manager(product="VM Operator", group=f"namespace {namespace}")
    if extension == VM_OPERATOR:
        return Manager(product="VM Operator")
    if extension == AGENT_MANAGER:
        return Manager(product="ESX Agent Manager", is_agent=True)
    if extension:
        return Manager(product=f"the extension {extension}")
    if all(attributes.get(name) for name in _BOSH):
        return Manager(product="BOSH", group=f"deployment {attributes['deployment']}")
    return None
