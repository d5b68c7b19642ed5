"""The lines of `vms` written out: every VM on its own, every fault at its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from vgpu_cfg.documents import Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.plan_file import VmEntry, VmKeys, check_vm_name
from vgpu_cfg.model.ranges import SAMPLE_MEMBER, Member, has_templates, read_members
from vgpu_cfg.planning.expand.addresses import check_same_addresses
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.desired import check_keys, make_vm, with_name
from vgpu_cfg.planning.expand.guests import read_user_data, stated_in
from vgpu_cfg.planning.expand.merging import Layers, fill_part, first_of_each_place

_Checked: TypeAlias = tuple[VmKeys, str]
"""A VM's keys that nothing is wrong with, and the text of its user data."""


@dataclass(slots=True)
class Expansion:
    """The VMs, and what is wrong; VMs with faults are left out."""

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
        hint = f"write {{name: {line.data}}}" if isinstance(line.data, str) else ""
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
    """Check each layer by itself, so that a fault is told where it stands, then all together."""
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
    """Read the names of a line; none where they are wrong, which is told here unless the type is."""
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
            message = f"the VM name {member.name!r} is taken already, on line {where}"
            out.faults.append(line.fault(("name",), message, "every VM of a plan has a name of its own"))
            break
    return members


def _exceptions(line: Part, members: Sequence[Member], out: Expansion) -> list[tuple[frozenset[str], Part]]:
    """Read which members each `except` changes, in the order of the file."""
    if "except" not in line.data:
        return []
    exceptions = line.child("except")
    if not isinstance(exceptions.data, Mapping):
        hint = "as in except: {hvd-02: {memory: 96GiB}}"
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
            message = f"{unknown[0]!r} is not one of the VMs of this line"
            hint = did_you_mean(unknown[0], known) or f"they are called {line.data['name']}"
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
                message = f"the MAC address {mac} of {vm.name!r} is that of {owners[mac]!r} too"
                hint = "give each NIC its own ({n}, {i} and {k} count), or none"
                out.faults.append(line.fault(("nics",), message, hint))
            owners[mac] = vm.name
