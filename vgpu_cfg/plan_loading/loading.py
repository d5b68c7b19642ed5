"""The order of reading a plan file, its result, its certificates, and a limit on the names it writes out.

The files with certificates that a plan's `site` names are found within reach, and read. The number of names
is limited because a line of a few letters can mean millions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgpu_cfg.documents import MOST_NAMES, Document, Limit, Loc, Part, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.ranges import count_members
from vgpu_cfg.model.verdicts import VerdictFile
from vgpu_cfg.plan_loading.header import read_header, read_variables, unused_overrides
from vgpu_cfg.plan_loading.side_files import (
    id_file_of,
    pin_file_of,
    read_all_verdicts,
    read_id_file,
    read_pins,
)
from vgpu_cfg.plan_loading.sources import Reach, read_sources
from vgpu_cfg.plan_loading.user_data import UserDataFiles
from vgpu_cfg.planning.expand.hosts import expand_hosts
from vgpu_cfg.planning.expand.lines import expand_vms
from vgpu_cfg.planning.expand.moved import expand_moved
from vgpu_cfg.planning.expand.networks import check_host_names, expand_networks
from vgpu_cfg.planning.expand.site import VmContext, expand_site
from vgpu_cfg.planning.expand.training import expand_training

MOST_BYTES = Limit("", 64 * 1024)
"""A CA with all between it and its servers has a tenth of this; a system's whole bundle is no site's."""

_NO_VGPU_NAME = re.compile(r"'([^']+)' is not a valid vGPU name: ")


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan file, read to the end.

    `documents` are the files it came from, in the order they were merged, the plan file last. `sha256` is
    that of the plan's requests: comments, the order of keys and its distribution over files do not change it.
    """

    path: Path
    desired: DesiredPlan
    documents: tuple[Document, ...]


def load_plan(
    path: str | Path,
    *,
    variables: Mapping[str, str] | None = None,
    variable_files: Sequence[str | Path] = (),
    text: str | None = None,
) -> LoadedPlan:
    """Read a plan file with everything it includes; `text` replaces the plan file's content.

    `variables` are those of --set, `variable_files` the files of --vars, later before earlier. Raises
    DocumentError with every fault of every file.
    """
    overrides = dict(variables or {})
    reach = Reach(Path(path).parent)
    try:
        return _load(Path(path), overrides, [Path(file) for file in variable_files], text, reach)
    except DocumentError as error:
        faults = [with_near_names(fault) for fault in reach.without_content(error.faults)]
        raise DocumentError(faults, remedy=error.stated_remedy) from error


def _load(
    path: Path, overrides: dict[str, str], variable_files: Sequence[Path], text: str | None, reach: Reach
) -> LoadedPlan:
    sources = read_sources(path, text, reach)
    known = read_variables(sources.documents, variable_files, overrides)
    declared = set(known.values) - overrides.keys() | {
        name for document in sources.documents for name in _mapping(document.data.get("vars"))
    }
    documents = [known.replaced_in(document) for document in sources.documents]
    header = read_header(documents)
    main = documents[-1]
    if fault := beyond(documents, MOST_NAMES):
        raise DocumentError([*known.faults, fault])
    networks = expand_networks(_sections(documents, "networks"))
    secrets = {name for document in documents for name in _mapping(document.data.get("secrets"))}
    context = VmContext(
        None if networks.faults else {network.name: network for network in networks.networks},
        frozenset(secrets),
        UserDataFiles(reach).read,
    )
    expansion = expand_vms(_section(main, "vms"), _sections(documents, "defaults"), context)
    site = expand_site(_sections(documents, "site"), secrets, CertificateFiles(reach).read)
    training = expand_training(_section(main, "training"), expansion, context, site.site)
    host_names = check_host_names(training.vms, expansion.places)
    moved = expand_moved(_section(main, "moved"), expansion.places and [vm.name for vm in expansion.vms])
    hosts = expand_hosts(
        _sections(documents, "hosts"),
        networks=networks.networks,
        secrets=secrets,
        has_vms=bool(main.data.get("vms")),
    )
    early = [*sources.faults, *known.faults, *unused_overrides(known, overrides, declared)]
    late = [
        *expansion.faults,
        *networks.faults,
        *hosts.faults,
        *training.faults,
        *moved.faults,
        *host_names,
        *site.faults,
    ]
    kept_id, id_faults = _kept_id(path, header.id, main)
    late += id_faults
    verdicts: tuple[VerdictFile, ...] = ()
    try:
        verdicts = read_all_verdicts(id_file_of(path).parent)
    except DocumentError as error:
        late += error.faults
    pins: Mapping[str, str] = {}
    try:
        pins = read_pins(pin_file_of(path))
    except DocumentError as error:
        late += error.faults
    faults = _without_repeats(early, [*header.faults, *late])
    if faults:
        raise DocumentError(faults)
    desired = DesiredPlan(
        name=header.name,
        id=kept_id,
        id_file="" if kept_id else id_file_of(path).name,
        vcenter=header.vcenter,
        datacenter=header.datacenter,
        protect=header.protect,
        verdicts=verdicts,
        downloads=pins,
        checks=header.checks,
        secrets=header.secrets,
        hosts=tuple(hosts.hosts),
        networks=tuple(networks.networks),
        vms=tuple(training.vms),
        moved=moved.names,
        site=site.site,
        training=training.training,
        verify=header.verify,
        begins=header.begins,
        ends=header.ends,
        allow=header.allow,
        unpinned=header.unpinned,
    )
    return LoadedPlan(path, desired, tuple(sources.documents))


def _kept_id(path: Path, stated: str, main: Document) -> tuple[str, list[DocumentFault]]:
    """Return the plan's id, "" if it has none yet: from the plan file, else from the file next to it."""
    file = id_file_of(path)
    try:
        kept = read_id_file(file)
    except DocumentError as error:
        return stated, list(error.faults)
    if stated and kept and stated != kept:
        message = f"the plan file has the ID {stated}, but {file.name} contains {kept}"
        hint = "keep the ID that is stored in the plan's VMs (extraConfig vgpu_cfg.plan)"
        return stated, [main.fault(("id",), message, hint)]
    return stated or kept, []


def _section(document: Document, key: str) -> Part | None:
    return Part(document, (key,), document.data[key]) if key in document.data else None


def _sections(documents: Sequence[Document], key: str) -> list[Part]:
    return [Part(document, (key,), document.data[key]) for document in documents if key in document.data]


def with_near_names(fault: DocumentFault) -> DocumentFault:
    """Return a fault of a wrong vGPU name with the closest of the catalog, or one of a board of that name."""
    found = _NO_VGPU_NAME.match(fault.message)
    if fault.hint or found is None:
        return fault
    from vgpu_cfg.catalog import load_catalog

    word, catalog = found[1], load_catalog()
    if near := catalog.suggest(word):
        message = f"'{word}' is not a valid vGPU name"
        return replace(fault, message=message, hint=f"did you mean '{near[0]}'?")
    if profile := catalog.whole_profile(word):
        hint = f"use '{profile}' for a whole GPU; `vgpu-cfg profiles {word}` lists all profiles"
        return replace(fault, message=f"'{word}' is a board, but a vGPU profile is required", hint=hint)
    return fault


def _without_repeats(early: Sequence[DocumentFault], late: Sequence[DocumentFault]) -> list[DocumentFault]:
    """Leave out echoes of an earlier fault at the same place."""
    places = {(fault.file, fault.line, fault.column) for fault in early}
    return [*early, *(fault for fault in late if (fault.file, fault.line, fault.column) not in places)]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Reads files as text, each by its path from the document that names it."""

    reach: Reach

    def read(self, document: str, path: str) -> str:
        """Return a file's text. Raises ValueError where it cannot be read."""
        target = Path(document).parent / path
        shown = os.path.normpath(target)
        if problem := self.reach.problem(target, path, shown):
            raise ValueError("\n".join(problem))
        if not target.is_file():
            raise ValueError(f"file {path!r} not found\npaths are relative to the file that contains them")
        try:
            return read_bytes(target, MOST_BYTES).decode("ascii", "replace")
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "specify a PEM file that contains only the CA's certificates"
            raise ValueError(f"cannot read the file {path!r}: {reason}\n{hint}") from error


def beyond(documents: Sequence[Document], limit: Limit) -> DocumentFault | None:
    """Return a fault at the name with which a plan writes out too many, None where it does not."""
    count, most = 0, limit.value
    for document in documents:
        for loc, name in _names(document.data):
            count += count_members(name)
            if count > most:
                message = f"with this name, the plan file expands to {count:,} names; the limit is {most:,}"
                return document.fault(loc, message, f"split it into several plans{limit.remedy}")
    return None


def _names(data: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    """Yield every text in which ranges are written out."""
    for section, keys in (("vms", ("name",)), ("networks", ("name",)), ("moved", ("from", "to"))):
        for loc, item in _items(data, section):
            yield from _texts(loc, {"": item} if isinstance(item, str) else item, ("", *keys))
    for loc, item in _items(data, "vms"):
        exceptions = item.get("except") if isinstance(item, Mapping) else None
        yield from (
            ((*loc, "except", key), key) for key in exceptions or () if isinstance(exceptions, Mapping)
        )
    for loc, item in _items(data, "hosts"):
        yield from _texts(loc, item, ("names",))
    if isinstance(data.get("training"), Mapping):
        yield from _texts(("training",), data["training"], ("workers",))


def _items(data: Mapping[str, Any], section: str) -> Iterator[tuple[Loc, Any]]:
    items = data.get(section)
    yield from (
        ((section, index), item) for index, item in enumerate(items if isinstance(items, list) else ())
    )


def _texts(loc: Loc, item: Any, keys: Sequence[str]) -> Iterator[tuple[Loc, str]]:
    """Yield the texts of a mapping at some of its keys, one or a list at each."""
    for key in keys:
        value = item.get(key) if isinstance(item, Mapping) else None
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield (*loc, key), text
