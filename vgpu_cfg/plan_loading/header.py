"""The statements of a plan's files on the plan itself: name, vCenter, protection, secrets, variables.

The values of `${name}` come from `vars` of every file, --vars files, and --set; text in, text out. Later
files go before earlier ones, --vars files before `vars`, --set before all. A variable is always text: a
number or a truth value is taken as written. `$${x}` is the text `${x}` itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from vgpu_cfg.documents import MOST_FILE_BYTES, Document, Loc, build, did_you_mean, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.plan_file import FileHeader, PlanFile, ProtectEntry, Server, VerifyEntry
from vgpu_cfg.model.plan_values import SecretReference

_REFERENCE = re.compile(r"\$(\$?)\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_UNTOUCHED = ("vars", "include")
"""Sections in which nothing is replaced: they are read before the variables are known."""
_SET = "--set"


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
    """The merged header; empty texts for those with a fault in `faults`."""

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
    """Merge the files' statements, the last (the plan file itself) before the others.

    Mappings merge key by key; `protect` and `allow` only ever grow.
    """
    header = Header()
    main = documents[-1]
    for document in documents:
        try:
            stated = build(document, _Sections, hints=PlanFile)
        except DocumentError as error:
            header.faults += error.faults
        else:
            _take(header, stated, os.path.relpath(Path(document.name).parent, Path(main.name).parent))
    for key in ("version", "name"):
        if key not in main.data:
            hint = (
                "the first line must be version: 1"
                if key == "version"
                else "the name is used to mark this plan's VMs"
            )
            header.faults.append(main.fault((), f"missing key {key!r}", hint))
    if not any("vcenter" in document.data for document in documents):
        hint = "specify a context name, an address, or lab:two-a100 to try it out"
        header.faults.append(main.fault((), "missing key 'vcenter'", hint))
    header.faults += _faults_of_period(header, main)
    return header


def _faults_of_period(header: Header, main: Document) -> list[DocumentFault]:
    """Find a reservation without a beginning or an end, or with an end that is not after it."""
    if header.begins is None and header.ends is None:
        return []
    if header.begins is None or header.ends is None:
        there, missing = ("from", "until") if header.ends is None else ("until", "from")
        hint = f"also set `{missing}`: a reservation requires a start and an end"
        return [main.fault((there,), f"`{there}` is set without `{missing}`", hint, at_key=True)]
    if header.ends <= header.begins:
        return [main.fault(("until",), "`until` must be later than `from`", "specify a later time")]
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
        said = {name: getattr(stated.verify, name) for name in stated.verify.model_fields_set}
        header.verify = (header.verify or VerifyEntry()).model_copy(update=said)


def _joined(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))


@dataclass(slots=True)
class Variables:
    """The values, the used ones among them, and their faults."""

    values: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    faults: list[DocumentFault] = field(default_factory=list)
    grown: int = 0
    """How many signs the values have added to all texts together."""

    def replaced_in(self, document: Document) -> Document:
        """Return the document with every reference replaced by its value."""
        data = {
            key: value if key in _UNTOUCHED else self._replaced(document, value, (key,))
            for key, value in document.data.items()
        }
        return replace(document, data=data)

    def _replaced(self, document: Document, value: Any, loc: Loc) -> Any:
        match value:
            case str() if "${" in value:
                return self._replaced_text(document, value, loc)
            case dict():
                return {key: self._replaced(document, inner, (*loc, key)) for key, inner in value.items()}
            case list():
                return [self._replaced(document, inner, (*loc, index)) for index, inner in enumerate(value)]
            case _:
                return value

    def _replaced_text(self, document: Document, text: str, loc: Loc) -> str:
        most, before = MOST_FILE_BYTES.value, self.grown

        def value_of(found: re.Match[str]) -> str:
            escaped, name = found.groups()
            if escaped:
                return found[0][1:]
            if name not in self.values:
                hint = (
                    did_you_mean(name, self.values, noun="variables")
                    or f"add it to `vars`, or use {_SET} {name}=…"
                )
                self.faults.append(document.fault(loc, f"unknown variable {name!r}", hint))
                return found[0]
            self.used.add(name)
            self.grown += len(self.values[name])
            return self.values[name] if self.grown <= most else ""

        if "${" in _REFERENCE.sub("", text):
            self.faults.append(
                document.fault(loc, "this `${` has no closing `}`", "use ${name}, or $${ for a literal ${")
            )
            return text
        replaced = _REFERENCE.sub(value_of, text)
        if before <= most < self.grown:
            message = f"the variables expand to more than {most:,} characters"
            hint = f"use fewer or shorter variables{MOST_FILE_BYTES.remedy}"
            self.faults.append(document.fault(loc, message, hint))
        return replaced


def read_variables(
    documents: Sequence[Document], files: Sequence[Path], overrides: Mapping[str, str]
) -> Variables:
    """Gather the variables of a plan; the shape of `vars` itself is the header's model's matter."""
    found = Variables()
    for document in documents:
        stated = document.data.get("vars")
        if isinstance(stated, Mapping):
            _add(found, document, stated, ("vars",))
    for path in files:
        try:
            document = read_document(path)
        except DocumentError as error:
            found.faults += error.faults
            continue
        _add(found, document, document.data, ())
        found.faults += [
            document.fault(
                (name,),
                f"the variable {name!r} must be text",
                "variables are plain text and cannot contain expressions",
            )
            for name, value in document.data.items()
            if not isinstance(value, str | int | float)
        ]
    found.values.update(overrides)
    return found


def _add(found: Variables, document: Document, stated: Mapping[str, Any], loc: Loc) -> None:
    for name, value in stated.items():
        if not isinstance(value, str | int | float):
            continue
        if isinstance(value, str) and "${" in value:
            message = f"the variable {name!r} must not refer to another variable"
            found.faults.append(
                document.fault(
                    (*loc, name), message, "variables are plain text and cannot contain expressions"
                )
            )
        found.values[name] = document.node((*loc, name)).written


def unused_overrides(
    variables: Variables, overrides: Mapping[str, str], declared: set[str]
) -> list[DocumentFault]:
    """Complain of --set names that no file declares and nothing uses: most likely they are mistyped."""
    known = declared | variables.used
    return [
        DocumentFault(
            _SET,
            1,
            1,
            f"the variable {name!r} is not defined in any file",
            did_you_mean(name, known, noun="variables"),
        )
        if _NAME.fullmatch(name)
        else DocumentFault(_SET, 1, 1, f"{name!r} is not a valid variable name", "use name=value")
        for name in overrides
        if name not in known
    ]
