"""The search index: objects by path, name, UUID or address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.renderers.vm import addresses_of, vmx_path
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Host, Managed, VirtualMachine, children_of


def _child(context: Context, thing: Managed, name: str) -> Managed | None:
    for moid in children_of(thing):
        found = context.state.objects.get(moid)
        if found is not None and found.name == name:
            return found
    return None


@answers("SearchIndex", "FindByInventoryPath")
def find_by_inventory_path(context: Context, thing: Managed, *, inventoryPath: str) -> Any:
    """Walk a path like `dc1/vm/folder/name` down from the root folder; None where it leads nowhere."""
    at: Managed | None = context.state.objects[context.state.root]
    for name in filter(None, inventoryPath.split("/")):
        at = _child(context, at, name) if at is not None else None
    return None if at is None else reference(at)


@answers("SearchIndex", "FindChild")
def find_child(context: Context, thing: Managed, *, entity: Any, name: str) -> Any:
    """Return the child of that name, None where there is none."""
    parent = directory.find(context, entity._moId)
    if parent is None:
        raise object_gone(entity)
    found = _child(context, parent, name)
    return None if found is None else reference(found)


def _candidates(context: Context, datacenter: Any, *, vms: bool) -> Iterator[Host | VirtualMachine]:
    found: list[Any] = context.state.all(VirtualMachine if vms else Host)
    for each in found:
        above = context.state.datacenter_of(each)
        if datacenter is None or (above is not None and above.moid == datacenter._moId):
            yield each


def _first(found: list[Any]) -> Any:
    return found[0] if found else None


@answers("SearchIndex", "FindAllByUuid")
def find_all_by_uuid(
    context: Context,
    thing: Managed,
    *,
    datacenter: Any,
    uuid: str,
    vmSearch: bool,
    instanceUuid: bool | None,
) -> list[Any]:
    """Return the hosts or VMs of a UUID, of VMs the BIOS's or vCenter's own."""
    attribute = "instance_uuid" if vmSearch and instanceUuid else "uuid"
    return [
        reference(each)
        for each in _candidates(context, datacenter, vms=vmSearch)
        if getattr(each, attribute).lower() == uuid.lower()
    ]


@answers("SearchIndex", "FindByUuid")
def find_by_uuid(context: Context, thing: Managed, **arguments: Any) -> Any:
    """Return the first of them."""
    return _first(find_all_by_uuid(context, thing, **arguments))


@answers("SearchIndex", "FindAllByDnsName")
def find_all_by_dns_name(
    context: Context, thing: Managed, *, datacenter: Any, dnsName: str, vmSearch: bool
) -> list[Any]:
    """Return the hosts of a name, or the running VMs whose guest has it."""
    return [
        reference(each)
        for each in _candidates(context, datacenter, vms=vmSearch)
        if each.name == dnsName and (isinstance(each, Host) or each.is_on)
    ]


@answers("SearchIndex", "FindByDnsName")
def find_by_dns_name(context: Context, thing: Managed, **arguments: Any) -> Any:
    """Return the first of them."""
    return _first(find_all_by_dns_name(context, thing, **arguments))


@answers("SearchIndex", "FindAllByIp")
def find_all_by_ip(
    context: Context, thing: Managed, *, datacenter: Any, ip: str, vmSearch: bool
) -> list[Any]:
    """Return the running VMs of an address; the lab's hosts have none."""
    if not vmSearch:
        return []
    return [
        reference(each)
        for each in _candidates(context, datacenter, vms=True)
        if isinstance(each, VirtualMachine) and ip in addresses_of(context, each)
    ]


@answers("SearchIndex", "FindByIp")
def find_by_ip(context: Context, thing: Managed, **arguments: Any) -> Any:
    """Return the first of them."""
    return _first(find_all_by_ip(context, thing, **arguments))


@answers("SearchIndex", "FindByDatastorePath")
def find_by_datastore_path(context: Context, thing: Managed, *, datacenter: Any, path: str) -> Any:
    """Return the VM of a configuration file, `[datastore] folder/name.vmx`."""
    for each in _candidates(context, datacenter, vms=True):
        if isinstance(each, VirtualMachine) and vmx_path(context, each) == path:
            return reference(each)
    return None
