"""The order in which a plan file is read, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_cfg.documents import MOST_NAMES, Document, Part
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading.certificates import CertificateFiles
from vgpu_cfg.plan_loading.extent import beyond
from vgpu_cfg.plan_loading.header import read_header
from vgpu_cfg.plan_loading.id_file import id_file_of, read_id_file
from vgpu_cfg.plan_loading.reach import Reach
from vgpu_cfg.plan_loading.sources import read_sources
from vgpu_cfg.plan_loading.user_data import UserDataFiles
from vgpu_cfg.plan_loading.variables import read_variables, unused_overrides
from vgpu_cfg.planning.expand.addresses import check_host_names
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.hosts import expand_hosts
from vgpu_cfg.planning.expand.lines import expand_vms
from vgpu_cfg.planning.expand.moved import expand_moved
from vgpu_cfg.planning.expand.networks import expand_networks
from vgpu_cfg.planning.expand.site import expand_site
from vgpu_cfg.planning.expand.training import expand_training


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan file, read to the end.

    `documents` are the files it came from, in the order they were merged, the plan
    file last. `sha256` is that of what the plan asks: comments, the order of keys and
    the way it is spread over files do not change it.
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
    """Read a plan file with everything it includes; `text` stands in for what is in the plan file.

    `variables` are those of --set, `variable_files` the files of --vars, later before earlier.
    Raises DocumentError with every fault of every file.
    """
    overrides = dict(variables or {})
    reach = Reach(Path(path).parent)
    try:
        return _load(Path(path), overrides, [Path(file) for file in variable_files], text, reach)
    except DocumentError as error:
        raise DocumentError(reach.without_content(error.faults), remedy=error.stated_remedy) from error


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
    """Return the plan's id, "" where it has none yet: from the plan file, else from the file beside it."""
    file = id_file_of(path)
    try:
        kept = read_id_file(file)
    except DocumentError as error:
        return stated, list(error.faults)
    if stated and kept and stated != kept:
        message = f"the plan file says the id {stated}, and {file.name} beside it {kept}"
        hint = "keep the one that the marks of the plan's VMs hold (extraConfig vgpu_cfg.plan)"
        return stated, [main.fault(("id",), message, hint)]
    return stated or kept, []


def _section(document: Document, key: str) -> Part | None:
    return Part(document, (key,), document.data[key]) if key in document.data else None


def _sections(documents: Sequence[Document], key: str) -> list[Part]:
    return [Part(document, (key,), document.data[key]) for document in documents if key in document.data]


def _without_repeats(early: Sequence[DocumentFault], late: Sequence[DocumentFault]) -> list[DocumentFault]:
    """Leave out what is only the echo of an earlier fault at the same place."""
    places = {(fault.file, fault.line, fault.column) for fault in early}
    return [*early, *(fault for fault in late if (fault.file, fault.line, fault.column) not in places)]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
