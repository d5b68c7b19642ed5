"""The next plan on an exported file, made before anybody has it: what it would change is left alone.

A VM that nobody made with this tool may differ from what a key asks besides its value: memory that is not
reserved, MMIO that is too small. Such a key is written all the same, since the VM is to be made again with
it, and stands under `ignore`, with what would change in a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.documents import Part, parse_text
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.estate.ownership import as_imported
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.hosts import expand_hosts
from vgpu_cfg.planning.expand.lines import expand_vms
from vgpu_cfg.planning.expand.networks import expand_networks
from vgpu_cfg.planning.exporting.vm_keys import KEY_OF_DEVICE, ExportedVm
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.vms.settings.table import vm_setting

_NO_KEY = frozenset({"power"})
_VERSION = "hardware_version"
"""What a VM that exists gets only with devices that need it."""


def desired_of(text: str, identity: PlanIdentity, vcenter: str, datacenter: str | None) -> DesiredPlan:
    """Read an exported file back. Raises DocumentError where it cannot be read, which is a bug."""
    document = parse_text(text, "export")

    def section(key: str) -> list[Part]:
        return [Part(document, (key,), document.data[key])] if key in document.data else []

    networks = expand_networks(section("networks"))
    context = VmContext({network.name: network for network in networks.networks})
    vms = expand_vms(next(iter(section("vms")), None), section("defaults"), context)
    hosts = expand_hosts(
        section("hosts"), networks=networks.networks, secrets=set(), has_vms=bool(document.data.get("vms"))
    )
    faults = [*networks.faults, *vms.faults, *hosts.faults]
    if faults:
        raise DocumentError(faults)
    return DesiredPlan(
        name=identity.name,
        id=identity.id,
        vcenter=vcenter,
        datacenter=datacenter,
        hosts=tuple(hosts.hosts),
        networks=tuple(networks.networks),
        vms=tuple(vms.vms),
    )


def next_plan(
    desired: DesiredPlan, observed: Inventory, found: Sequence[ExportedVm], catalog: Catalog
) -> Plan:
    """Make the plan that would be made of the file if its VMs were its own."""
    taken_in = as_imported(observed, {one.vm.moid for one in found}, desired.identity)
    return make_plan(desired, taken_in, catalog)


def changed_hosts(plan: Plan) -> set[str]:
    """Return the hosts that the plan would change: something of them waits, or is set GPU by GPU."""
    return {change.subject.name for change in plan.changes if change.subject.kind == "host"}


def settle(plan: Plan, found: Sequence[ExportedVm]) -> bool:
    """Leave alone what the plan would change; whether anything new is left alone."""
    by_name = {one.name: one for one in found}
    news = False
    for change in plan.changes:
        for name, edits in _by_vm(change).items():
            one = by_name.get(name)
            for edit in edits if one is not None else ():
                news |= _ignore(one, change, edit) if one is not None else False
    return news


def _by_vm(change: Change) -> Mapping[str, Sequence[Edit]]:
    if change.ruled:
        return {vm.name: change.edits[:1] for vm in change.ruled}
    return {change.subject.name: change.edits} if change.subject.kind == "vm" else {}


def _ignore(one: ExportedVm, change: Change, edit: Edit) -> bool:
    """Put the first key under `ignore` that the edit may come from and that is not there yet."""
    return any(
        key in one.keys and one.ignore(key, f"but for `ignore: {key}`, {_says(change, edit)}")
        for key in _keys_of(change, edit, one)
    )


def _says(change: Change, edit: Edit) -> str:
    if change.ruled:
        return f"the next plan would {change.id}"
    return f"the next plan would set {edit.key} to {edit.after or 'nothing'}"


def _keys_of(change: Change, edit: Edit, one: ExportedVm) -> Iterator[str]:
    row = vm_setting(edit.key)
    if change.ruled:
        yield "place"
    elif edit.key == _VERSION:
        yield from ("gpus", "nics", "vtpm")
    elif row is not None:
        yield from (row.plan_key,) if row.plan_key else row.follows
    elif edit.key in KEY_OF_DEVICE:
        yield KEY_OF_DEVICE[edit.key]
    elif edit.key in one.keys.get("extra_config", {}):
        yield "extra_config"
    elif edit.key in one.keys.get("attributes", {}):
        yield "attributes"
    elif edit.key not in _NO_KEY:
        yield "gpus"
