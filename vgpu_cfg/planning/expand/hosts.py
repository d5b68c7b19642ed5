"""From the entries of `hosts` to what is desired of hosts: ranges written out, `prepare` decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.documents import Part, build
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredHosts, DesiredNetwork
from vgpu_cfg.model.plan_file import HostEntry
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.planning.expand.host_checks import HostContext, check_hosts


@dataclass(slots=True)
class HostExpansion:
    """The entries in the order of the files, and what is wrong; entries with faults are left out."""

    hosts: list[DesiredHosts] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_hosts(
    sections: Sequence[Part],
    *,
    networks: Sequence[DesiredNetwork],
    secrets: Collection[str],
    has_vms: bool,
) -> HostExpansion:
    """Make every entry of `hosts` of every file, the weakest first; they only add up.

    `networks` and the names of `secrets` are those of the whole plan. An entry that does
    not state `prepare` prepares for the VMs where the plan has any.
    """
    out = HostExpansion()
    context = HostContext({network.name: network for network in networks}, frozenset(secrets))
    for section in sections:
        if not isinstance(section.data, list):
            out.faults.append(
                section.fault((), "'hosts' must be a list", "write each entry as an item: - cluster: gpu")
            )
            continue
        for index in range(len(section.data)):
            part = section.child(index)
            try:
                entry = build(part.document, HostEntry, loc=part.loc, data=part.data)
            except DocumentError as error:
                out.faults += error.faults
                continue
            names = list(_names(entry, part, out))
            faults = list(check_hosts(entry, names, part, context))
            out.faults += faults
            if not faults:
                out.hosts.append(make_hosts(entry, names, part.origin, has_vms=has_vms))
    return out


def _names(entry: HostEntry, part: Part, out: HostExpansion) -> Iterator[str]:
    for index, name in enumerate(entry.names):
        try:
            yield from (member.name for member in read_members(name))
        except ValueError as error:
            out.faults.append(part.refused(("names", index), error))


def make_hosts(entry: HostEntry, names: Sequence[str], origin: str, *, has_vms: bool) -> DesiredHosts:
    """Make one entry; `check_hosts` must have found nothing against it. `names` have no ranges."""
    by_default = "from_vms" if has_vms else "none"
    stated = {"prepare": by_default} | {key: getattr(entry, key) for key in entry.model_fields_set}
    return DesiredHosts(**{**stated, "names": tuple(names), "origin": origin})
