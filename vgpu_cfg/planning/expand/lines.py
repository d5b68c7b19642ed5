"""The lines of `vms` written out: each VM's desired state from its merged keys, every fault at its place.

Counts are written out, and defaults are filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from vgpu_cfg.documents import Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import (
    DesiredDisk,
    DesiredDiskGrowth,
    DesiredFunction,
    DesiredNewDisk,
    DesiredNic,
    DesiredPower,
    DesiredVm,
    ScratchSource,
    TemplateSource,
)
from vgpu_cfg.model.plan_file import (
    DiskEntry,
    GpuEntry,
    LibraryTemplate,
    NicEntry,
    Scratch,
    VmEntry,
    VmKeys,
    check_vm_name,
    parse_mac,
    parse_nic_address,
)
from vgpu_cfg.model.plan_file.entries import stated_options
from vgpu_cfg.model.plan_values import DesiredNuma, NumaPolicy, Spread
from vgpu_cfg.model.ranges import SAMPLE_MEMBER, Member, has_templates, read_members
from vgpu_cfg.planning.expand.guests import check_guest, host_name, make_guest, read_user_data, stated_in
from vgpu_cfg.planning.expand.merging import Layers, fill_part, first_of_each_place
from vgpu_cfg.planning.expand.networks import check_nic_networks, check_same_addresses, counted
from vgpu_cfg.planning.expand.site import VmContext, value_of

_Checked: TypeAlias = tuple[VmKeys, str]
"""A VM's keys that nothing is wrong with, and the text of its user data."""

_NO_STATE = frozenset({"ignore", "lock", "expires"})
"""Keys that speak of the VM without asking for anything in it."""


@dataclass(slots=True)
class Expansion:
    """The VMs, and the faults; VMs with faults are left out."""

    vms: list[DesiredVm] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)
    places: dict[str, Part] = field(default_factory=dict)
    """Which line made the VM of a name (in lower case)."""
    guest_keys: dict[str, frozenset[str]] = field(default_factory=dict)
    """The keys of `guest` that are stated for the VM of a name."""


def expand_vms(lines: Part | None, defaults: Sequence[Part], context: VmContext | None = None) -> Expansion:
    """Write out every line of `vms`, laid upon the `defaults` (weakest first).

    `context` is the rest of the plan; without it there are no networks, secrets and files.
    """
    out = Expansion()
    context = context or VmContext()
    usable = [part for part in defaults if isinstance(part.data, Mapping)]
    for part in defaults:
        filled, faults = fill_part(part, SAMPLE_MEMBER)
        out.faults += faults or _complaints(filled, VmKeys)
    if lines is None:
        return out
    if not isinstance(lines.data, list):
        out.faults.append(lines.fault((), "'vms' must be a list", "write each VM as an item: - name: hvd-01"))
        return out
    for index in range(len(lines.data)):
        _expand_line(lines.child(index), usable, out, context)
    _check_macs(out)
    out.faults += check_same_addresses(out.vms, out.places)
    return out


def _expand_line(line: Part, defaults: Sequence[Part], out: Expansion, context: VmContext) -> None:
    if not isinstance(line.data, Mapping):
        hint = f"use {{name: {line.data}}}" if isinstance(line.data, str) else ""
        out.faults.append(line.fault((), "a VM must be a mapping of keys to values", hint))
        return
    own = Part(line.document, line.loc, {key: line.data[key] for key in line.data if key != "except"})
    members = _members(line, out)
    exceptions = _exceptions(line, members, out)
    keys_only = Part(own.document, own.loc, {key: own.data[key] for key in own.data if key != "name"})
    layers = [*defaults, keys_only, *(part for _, part in exceptions)]
    differing = {id(part) for part in layers if has_templates(part.data)}
    seen: set[tuple[str, int, int]] = set()
    first: dict[tuple[int, ...], tuple[DesiredVm, VmKeys] | None] = {}
    for member in members or (SAMPLE_MEMBER,):
        chosen = [part for names, part in exceptions if member.name in names]
        parts = [*defaults, keys_only, *chosen]
        signature = tuple(id(part) for part in parts)
        if signature in first and differing.isdisjoint(signature):
            like = first[signature]
            made = None if like is None else (with_name(member.name, *like), like[1])
        else:
            assessed, faults = _member_keys(parts, own, member, context)
            out.faults += first_of_each_place(faults, seen)
            made = None
            if assessed is not None and members:
                keys, user_data = assessed
                name = str(line.data["name"])
                made = make_vm(member.name, name, keys, line.origin, user_data), keys
            first[signature] = made
        if made is not None:
            out.vms.append(made[0])
            out.guest_keys[member.name] = stated_in(made[1])


def _member_keys(
    parts: Sequence[Part], own: Part, member: Member, context: VmContext
) -> tuple[_Checked | None, list[DocumentFault]]:
    """Check each layer by itself, so that a fault is reported at its place, then all together."""
    faults: list[DocumentFault] = []
    filled: list[Part] = []
    for part in parts:
        whole, complaints = fill_part(part, member)
        filled.append(whole)
        if part.loc == own.loc and part.document is own.document:
            named = Part(own.document, own.loc, {**whole.data, **_name_of(own)})
            faults += complaints or _complaints(named, VmEntry)
        else:
            faults += complaints or _complaints(whole, VmKeys)
    if faults:
        return None, faults
    layers = Layers(tuple(filled), own)
    try:
        keys = build(own.document, VmKeys, loc=own.loc, data=layers.merged())
    except DocumentError as error:  # each layer is right by itself, and together they are not
        return None, list(error.faults)
    faults = list(check_keys(keys, layers, context))
    if faults:
        return None, faults
    path = keys.guest.user_data if "user_data" in stated_in(keys) else None
    return (keys, read_user_data(layers, path, context) if path else ""), []


def _name_of(own: Part) -> dict[str, object]:
    return {"name": own.data["name"]} if "name" in own.data else {}


def _complaints(part: Part, model: type[VmKeys]) -> list[DocumentFault]:
    try:
        build(part.document, model, loc=part.loc, data=part.data)
    except DocumentError as error:
        return list(error.faults)
    return []


def _members(line: Part, out: Expansion) -> tuple[Member, ...]:
    """Read the names of a line; none if they are wrong, which is reported here unless the type is."""
    name = line.data.get("name")
    if not isinstance(name, str) or not name:
        return ()
    try:
        members = read_members(name)
        for member in members:
            check_vm_name(member.name)
    except ValueError as error:
        out.faults.append(line.refused(("name",), error))
        return ()
    for member in members:
        other = out.places.setdefault(member.name.casefold(), line)
        if other is not line:
            where = ":".join(other.origin.split(":")[-2:-1])
            message = f"the VM name {member.name!r} is already used on line {where}"
            out.faults.append(line.fault(("name",), message, "each VM in a plan requires a unique name"))
            break
    return members


def _exceptions(line: Part, members: Sequence[Member], out: Expansion) -> list[tuple[frozenset[str], Part]]:
    """Read which members each `except` changes, in the order of the file."""
    if "except" not in line.data:
        return []
    exceptions = line.child("except")
    if not isinstance(exceptions.data, Mapping):
        hint = "example: except: {hvd-02: {memory: 96GiB}}"
        out.faults.append(exceptions.fault((), "'except' must be a mapping of VM names to keys", hint))
        return []
    known = [member.name for member in members]
    found: list[tuple[frozenset[str], Part]] = []
    for key in exceptions.data:
        part = exceptions.child(key)
        try:
            names = [member.name for member in read_members(key)]
        except ValueError as error:
            out.faults.append(part.refused((), error, at_key=True))
            continue
        unknown = [name for name in names if name not in known]
        if unknown and members:
            message = f"{unknown[0]!r} is not a VM in this item"
            hint = did_you_mean(unknown[0], known) or f"the VMs are named {line.data['name']}"
            out.faults.append(part.fault((), message, hint, at_key=True))
        if unknown or not isinstance(part.data, Mapping):
            filled, faults = fill_part(part, SAMPLE_MEMBER)
            out.faults += faults or _complaints(filled, VmKeys)
            continue
        found.append((frozenset(names), part))
    return found


def _check_macs(out: Expansion) -> None:
    """Complain of a MAC that two NICs of the file share: it would cut both off."""
    owners: dict[str, str] = {}
    for vm in out.vms:
        for mac in [nic.mac for nic in vm.nics if nic.mac]:
            if mac in owners:
                line = out.places[vm.name.casefold()]
                message = f"the MAC address {mac} of {vm.name!r} is also used by {owners[mac]!r}"
                hint = "assign a different address to each NIC (use {n}, {i} or {k}), or omit it"
                out.faults.append(line.fault(("nics",), message, hint))
            owners[mac] = vm.name


def make_vm(name: str, line: str, keys: VmKeys, origin: str, user_data: str = "") -> DesiredVm:
    """Make the desired VM; `check_keys` must have found nothing against its keys.

    `user_data` is the text of the file that `guest` names.
    """
    stated = frozenset(key for key in keys.model_fields_set if getattr(keys, key) is not None)
    return DesiredVm(
        name=name,
        line=line,
        source=_source(keys),
        clusters=keys.cluster or (),
        folder=keys.folder,
        resource_pool=keys.resource_pool,
        datastore=keys.datastore,
        storage_policy=keys.storage_policy or None,
        **dict(stated_options(keys)),
        cpus=keys.cpus,
        memory_mib=keys.memory,
        gpus=tuple(gpu for number, entry in enumerate(keys.gpus or (), 1) for gpu in _gpus(entry, number)),
        numa=keys.numa if "numa" in stated else DesiredNuma(),
        nics=tuple(nic for entry in keys.nics or () for nic in _nics(entry, has_gpus=bool(keys.gpus))),
        disks=tuple(_disk(entry) for entry in keys.disks or ()),
        extra_config=dict(sorted((keys.extra_config or {}).items())),
        place=keys.place,
        power=_power(keys.power) if "power" in stated else DesiredPower.ON,
        expires=keys.expires,
        guest=make_guest(name, keys, user_data),
        ignore=frozenset(keys.ignore or ()),
        lock=bool(keys.lock),
        managed=stated - _NO_STATE,
        defaulted=frozenset(VmKeys.model_fields) - stated - _NO_STATE,
        origin=origin,
    )


def with_name(name: str, vm: DesiredVm, keys: VmKeys) -> DesiredVm:
    """Return another VM of the keys that a VM was made of: all but what follows from its name is shared."""
    own: dict[str, object] = {"name": name}
    if vm.guest is not None:
        own["guest"] = vm.guest.model_copy(update={"host_name": host_name(name, keys)})
    return vm.model_copy(update=own)


def check_keys(keys: VmKeys, layers: Layers, context: VmContext) -> Iterator[DocumentFault]:
    """Yield the conflicts between keys that are right one by one."""
    given = keys.model_fields_set
    if isinstance(keys.template, Scratch):
        yield from _check_scratch(keys, layers)
    growing = [index for index, disk in enumerate(keys.disks or ()) if disk.grow]
    for index in growing[1:]:
        message = "there are two `grow` items, but `grow` always applies to the template's first disk"
        yield layers.fault(("disks", index), message, "keep only one")
    yield from _check_place(keys, layers)
    for index, nic in enumerate(keys.nics or ()):
        yield from _check_counted_mac(nic, index, layers)
    pins = [entry.pin for entry in keys.gpus or ()]
    for index, pin in enumerate(pins):
        if pin and pin in pins[:index]:
            yield layers.fault(("gpus", index, "pin"), f"the GPU at {pin} is pinned twice", "remove one")
    yield from _check_peers(keys.gpus or (), layers)
    yield from _check_functions(keys, pins, layers)
    yield from check_nic_networks(keys, layers, context.networks)
    if "guest" in given:
        yield from check_guest(keys, layers, context)


def _check_peers(entries: Sequence[GpuEntry], layers: Layers) -> Iterator[DocumentFault]:
    """Report groups for NVLink that cannot be of one board."""
    first: set[str] | None = None
    for index, entry in enumerate(entries):
        if entry.nvlink is None or entry.memory is not None:
            continue
        boards = {profile.prefix for profile in entry.profile}
        if first is not None and not boards & first:
            message = (
                "all of a VM's vGPUs must use the same board model, but an earlier item with `nvlink` uses "
                "a different one"
            )
            yield layers.fault(("gpus", index, "profile"), message, "use profiles of the same board")
        first = boards if first is None else first & boards or first


def _check_place(keys: VmKeys, layers: Layers) -> Iterator[DocumentFault]:
    place = keys.place
    if place.spread is Spread.GPUS and not keys.gpus:
        yield layers.fault(
            ("place", "spread"), "`spread: gpus` requires `gpus` in the VM", "use `spread: hosts`"
        )
    if place.spread is Spread.NUMA and not _has_nodes(keys):
        message = "`spread: numa` requires the VM to be bound to a NUMA node"
        hint = "add `gpus`, or set `numa: node`; or spread over hosts"
        yield layers.fault(("place", "spread"), message, hint)
    if place.spread is Spread.HOSTS and (place.max_per_host or place.max_hosts):
        message = "`spread: hosts` puts each VM on its own host, so the number of hosts cannot be limited"
        yield layers.fault(
            ("place", "spread"), message, "remove `spread`, or remove `max_per_host` and `max_hosts`"
        )
    if place.pack and place.spread is Spread.HOSTS:
        message = "`pack` minimizes the number of hosts, but `spread: hosts` requires one host per VM"
        yield layers.fault(("place", "pack"), message, "remove one of them")
    if place.keep_free and not keys.gpus:
        message = "`keep_free` reserves hosts without GPU VMs, but this VM has no `gpus`"
        yield layers.fault(("place", "keep_free"), message, "remove it")


def _has_nodes(keys: VmKeys) -> bool:
    """Whether the VM will be tied to NUMA nodes."""
    policy = keys.numa.policy if "numa" in keys.model_fields_set else NumaPolicy.FOLLOW_GPU
    return policy is NumaPolicy.NODE or (policy is NumaPolicy.FOLLOW_GPU and bool(keys.gpus))


def _check_functions(keys: VmKeys, pins: Sequence[str | None], layers: Layers) -> Iterator[DocumentFault]:
    whole = [nic.pin if nic.kind == "passthrough" else None for nic in keys.nics or ()]
    for index, pin in enumerate(whole):
        if pin and (pin in whole[:index] or pin in pins):
            yield layers.fault(("nics", index, "pin"), f"the device at {pin} is pinned twice", "remove one")
    for index, nic in enumerate(keys.nics or ()):
        if nic.near == "gpu" and not keys.gpus:
            message = "`near: gpu` requires `gpus` in the VM"
            yield layers.fault(("nics", index, "near"), message, "remove it")


def _check_counted_mac(nic: NicEntry, index: int, layers: Layers) -> Iterator[DocumentFault]:
    for k in range(2, (nic.count or 1) + 1):
        try:
            parse_mac(counted(nic.mac, k) or "00:50:56:00:00:00")
        except ValueError:
            message = f"with {{k}} = {k}, {nic.mac} is not a valid MAC address"
            yield layers.fault(("nics", index, "mac"), message, "list each NIC separately")
            return


def _check_scratch(keys: VmKeys, layers: Layers) -> Iterator[DocumentFault]:
    for key in ("cpus", "memory"):
        if key not in keys.model_fields_set:
            yield layers.fault(
                ("template",),
                f"a VM created from scratch requires {key!r}",
                "there is no template to inherit it from",
            )
    if not any(disk.size for disk in keys.disks or ()):
        hint = "example: disks: [{size: 100GiB}]"
        yield layers.fault(("template",), "a VM created from scratch requires a disk with a size", hint)
    for index, disk in enumerate(keys.disks or ()):
        if disk.grow:
            message = "`grow` applies to a template's disk, but a VM created from scratch has none"
            yield layers.fault(("disks", index), message, "set `size`")
    if "clone" in keys.model_fields_set:
        yield layers.fault(
            ("clone",), "`clone` applies to templates; this VM is created from scratch", "remove it"
        )


def _source(keys: VmKeys) -> TemplateSource | ScratchSource | None:
    if "template" not in keys.model_fields_set:
        return None
    if isinstance(keys.template, Scratch):
        return ScratchSource(guest_id=keys.template.scratch)
    linked = keys.clone == "linked"
    if isinstance(keys.template, LibraryTemplate):
        return TemplateSource(path_or_name=keys.template.item, linked=linked, library=keys.template.library)
    return TemplateSource(path_or_name=keys.template, linked=linked)


def _gpus(entry: GpuEntry, number: int) -> Iterator[GpuEntry]:
    """Yield the GPUs of one item; those for NVLink have the item's number."""
    device = entry.device
    for k in range(1, entry.count + 1):
        words = {"label": counted(device.label, k), "model": counted(device.model, k)}
        counted_out = {"count": 1, "device": device.model_copy(update=words)}
        peers = {"nvlink": number} if entry.nvlink is not None else {}
        yield entry.model_copy(update=counted_out | peers)


def _nics(entry: NicEntry, *, has_gpus: bool) -> Iterator[DesiredNic]:
    for k in range(1, (entry.count or 1) + 1):
        yield DesiredNic(
            network=counted(entry.network, k),
            mac=counted(entry.mac, k),
            function=_function(entry, k, has_gpus=has_gpus),
            is_pvrdma=entry.kind == "pvrdma",
            ip=parse_nic_address(counted(entry.ip, k) or ""),
            rdma=value_of(entry, "rdma"),
        )


def _function(entry: NicEntry, k: int, *, has_gpus: bool) -> DesiredFunction | None:
    if entry.type not in ("passthrough", "sriov"):
        return None
    device = entry.device if "device" in entry.model_fields_set else None
    return DesiredFunction(
        kind=entry.type,
        pin=entry.pin,
        label=counted(device.label, k) if device is not None else None,
        model=counted(device.model, k) if device is not None else None,
        near_gpu=has_gpus and entry.near != "any",
        must_be_near=has_gpus and entry.near == "gpu",
    )


def _disk(entry: DiskEntry) -> DesiredDisk:
    policy = entry.storage_policy or None
    if entry.grow:
        return DesiredDiskGrowth(size_mib=entry.grow, storage_policy=policy)
    given = entry.model_fields_set
    return DesiredNewDisk(
        size_mib=entry.size,
        controller=entry.controller if "controller" in given else "scsi",
        storage_policy=policy,
    )


def _power(value: bool | str) -> DesiredPower:  # noqa: FBT001 - what the plan file holds
    if isinstance(value, str):
        return DesiredPower.LEAVE
    return DesiredPower.ON if value else DesiredPower.OFF
