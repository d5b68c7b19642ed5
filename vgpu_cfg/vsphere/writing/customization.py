"""Read a specification again right before a clone, and fill in the values of the plan.

All other fields are sent back as vCenter returned them, encrypted passwords too. Of a Linux the name servers
are those of the whole guest, of a Windows those of each adapter: so govc has it. Adapters are in the order of
their PCI slots (vSphere API reference, CustomizationAdapterMapping), which no request names.

Belief: spec-is-sent-back-as-read, customization-spec-format.
"""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.changes.kinds.guest import Customization, NicCustomization
from vgpu_cfg.errors import StalePlan
from vgpu_cfg.vsphere.reading.own_items import find_spec
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_Customization: Any = vim.vm.customization


def filled_spec(session: Session, asked: Customization, vm: str) -> Any:
    """Return the vim `CustomizationSpec` of a VM. Raises StalePlan where the specification is another one."""
    with translated(f"reading the customization specification {asked.spec}", vm):
        item = find_spec(session, asked.spec)
    if item is None or (item.info.changeVersion or "") != asked.change_version:
        became = "was deleted" if item is None else "was changed"
        raise StalePlan(
            f"the customization specification {asked.spec} {became} after planning",
            subject=vm,
            remedy="plan again, and review the changes",
        )
    spec = item.spec
    named = _Customization.FixedName(name=asked.host_name)
    if asked.kind == "windows":
        spec.identity.userData.computerName = named
    else:
        spec.identity.hostName = named
        if asked.sets_domain:
            spec.identity.domain = asked.domain
        if asked.dns:
            spec.globalIPSettings.dnsServerList = list(asked.dns)
    mappings = list(spec.nicSettingMap or ())
    for index, nic in enumerate(asked.nics):
        if index == len(mappings):
            mappings.append(_Customization.AdapterMapping(adapter=_Customization.IPSettings()))
        if nic.ip:
            _fill(mappings[index].adapter, nic, asked)
    spec.nicSettingMap = mappings
    return spec


def _fill(adapter: Any, nic: NicCustomization, asked: Customization) -> None:
    """Give an adapter its address, and no other gateway than that of its network."""
    if nic.ip == "dhcp":
        adapter.ip = _Customization.DhcpIpGenerator()
        adapter.subnetMask, adapter.gateway = None, []
    else:
        address = ip_interface(nic.ip)
        adapter.ip = _Customization.FixedIp(ipAddress=str(address.ip))
        adapter.subnetMask = str(address.netmask)
        adapter.gateway = [nic.gateway] if nic.gateway else []
    if asked.kind == "windows" and asked.dns:
        adapter.dnsServerList = list(asked.dns)
