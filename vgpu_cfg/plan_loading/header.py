"""What the files of a plan say together of the plan itself: name, vCenter, protection, secrets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from vgpu_cfg.documents import Document, build
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.plan_file import FileHeader, ProtectEntry, Server, VerifyEntry
from vgpu_cfg.model.plan_values import SecretReference


class _Sections(FileHeader):
    """A file's header, with the sections that are read elsewhere let through."""

    defaults: Any = None
    hosts: Any = None
    networks: Any = None
    vms: Any = None
    moved: Any = None
    site: Any = None
    training: Any = None


@dataclass(slots=True)
class Header:
    """The merged header; empty texts where a fault stands in `faults`."""

    name: str = ""
    id: str = ""
    vcenter: str = ""
    datacenter: str | None = None
    protect: ProtectEntry = field(default_factory=ProtectEntry)
    checks: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, SecretReference] = field(default_factory=dict)
    verify: VerifyEntry | None = None
    begins: datetime | None = None
    ends: datetime | None = None
    allow: tuple[Approval, ...] = ()
    unpinned: bool = False
    faults: list[DocumentFault] = field(default_factory=list)


def read_header(documents: Sequence[Document]) -> Header:
    """Merge what the files say, the last (the plan file itself) before the others.

    Mappings merge key by key; `protect` and `allow` only ever grow.
    """
    header = Header()
    main = documents[-1]
    for document in documents:
        try:
            stated = build(document, _Sections)
        except DocumentError as error:
            header.faults += error.faults
        else:
            _take(header, stated, os.path.relpath(Path(document.name).parent, Path(main.name).parent))
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
    header.faults += _faults_of_period(header, main)
    return header


def _faults_of_period(header: Header, main: Document) -> list[DocumentFault]:
    """Find a reservation without a beginning or an end, or with an end that is not after it."""
    if header.begins is None and header.ends is None:
        return []
    if header.begins is None or header.ends is None:
        there, missing = ("from", "until") if header.ends is None else ("until", "from")
        hint = f"write `{missing}`, too: a reservation has a beginning and an end"
        return [main.fault((there,), f"`{there}` stands without `{missing}`", hint, at_key=True)]
    if header.ends <= header.begins:
        return [main.fault(("until",), "`until` is not after `from`", "give it a later time")]
    return []


def _take(header: Header, stated: FileHeader, folder: str) -> None:
    """Take over what one file says; `folder` leads to it from the plan file's."""
    given = stated.model_fields_set
    if "name" in given:
        header.name = stated.name
    if "id" in given:
        header.id = stated.id
    if "vcenter" in given:
        if isinstance(stated.vcenter, Server):
            header.vcenter, header.datacenter = stated.vcenter.server, stated.vcenter.datacenter
        else:
            header.vcenter, header.datacenter = stated.vcenter, None
    if "protect" in given:
        before, more = header.protect, stated.protect
        header.protect = ProtectEntry(
            **{key: _joined(getattr(before, key), getattr(more, key)) for key in ProtectEntry.model_fields}
        )
    header.checks.update(stated.checks if "checks" in given else {})
    if "secrets" in given:
        header.secrets.update({name: one.seen_from(folder) for name, one in stated.secrets.items()})
    if "from_" in given:
        header.begins = stated.from_
    if "until" in given:
        header.ends = stated.until
    header.unpinned = header.unpinned or ("unpinned" in given and stated.unpinned)
    if "allow" in given:
        header.allow = tuple(dict.fromkeys((*header.allow, *stated.allow)))
    if "verify" in given:
        said = stated.verify.model_dump(exclude_unset=True)
        header.verify = (header.verify or VerifyEntry()).model_copy(update=said)


def _joined(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))
