"""What the files of a plan say together besides VMs: name, vCenter, protection, secrets, networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Document, Part, build
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork, Protection, SecretReference
from vgpu_cfg.model.plan_file import FileHeader, NetworkEntry, Server
from vgpu_cfg.planning.expand import read_members


class _Sections(FileHeader):
    """A file's header, with the sections that are read elsewhere let through."""

    defaults: Any = None
    networks: Any = None
    vms: Any = None


@dataclass(slots=True)
class Header:
    """The merged header; empty texts where a fault stands in `faults`."""

    name: str = ""
    vcenter: str = ""
    datacenter: str | None = None
    protect: Protection = field(default_factory=Protection)
    checks: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, SecretReference] = field(default_factory=dict)
    networks: list[DesiredNetwork] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def read_header(documents: Sequence[Document]) -> Header:
    """Merge what the files say, the last (the plan file itself) before the others.

    Mappings merge key by key; `protect` and `networks` only ever grow.
    """
    header = Header()
    main = documents[-1]
    for document in documents:
        try:
            stated = build(document, _Sections)
        except DocumentError as error:
            header.faults += error.faults
        else:
            _take(header, stated)
        _take_networks(header, document)
    for key in ("version", "name"):
        if key not in main.data:
            hint = (
                "the first line is version: 1"
                if key == "version"
                else "it marks the VMs of this plan as its own"
            )
            header.faults.append(main.fault((), f"the key {key!r} is missing", hint))
    if not any("vcenter" in document.data for document in documents):
        hint = "a context's name, an address, or lab:two-a100 to try it out"
        header.faults.append(main.fault((), "the key 'vcenter' is missing", hint))
    return header


def _take(header: Header, stated: FileHeader) -> None:
    given = stated.model_fields_set
    if "name" in given:
        header.name = stated.name
    if "vcenter" in given:
        if isinstance(stated.vcenter, Server):
            header.vcenter, header.datacenter = stated.vcenter.server, stated.vcenter.datacenter
        else:
            header.vcenter, header.datacenter = stated.vcenter, None
    if "protect" in given:
        before, more = header.protect, stated.protect
        header.protect = Protection(
            folders=_joined(before.folders, more.folders),
            names=_joined(before.names, more.names),
            clusters=_joined(before.clusters, more.clusters),
        )
    header.checks.update(stated.checks if "checks" in given else {})
    header.secrets.update(stated.secrets if "secrets" in given else {})


def _joined(before: tuple[str, ...], more: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *(more or ()))))


def _take_networks(header: Header, document: Document) -> None:
    if "networks" not in document.data:
        return
    networks = Part(document, ("networks",), document.data["networks"])
    if not isinstance(networks.data, list):
        hint = "write each as an item: - name: vm-network"
        header.faults.append(networks.fault((), "'networks' must be a list", hint))
        return
    for index, item in enumerate(networks.data):
        part = networks.child(index)
        try:
            data = {"name": item} if isinstance(item, str) else item
            entry = build(document, NetworkEntry, loc=part.loc, data=data)
            names = [member.name for member in read_members(entry.name)]
        except DocumentError as error:
            header.faults += error.faults
        except ValueError as error:
            message, _, hint = str(error).partition("\n")
            loc = ("name",) if isinstance(item, Mapping) else ()
            header.faults.append(part.fault(loc, message, hint))
        else:
            _add_networks(header, part, names)


def _add_networks(header: Header, part: Part, names: Sequence[str]) -> None:
    for name in names:
        if any(network.name == name for network in header.networks):
            header.faults.append(part.fault((), f"the network {name!r} is listed twice", "remove one"))
        else:
            header.networks.append(DesiredNetwork(name=name, origin=part.origin))
