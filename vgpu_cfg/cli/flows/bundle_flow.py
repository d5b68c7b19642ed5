"""The parts of a support bundle: each is read from its source, or listed with the reason why it is missing.

Nothing is started or changed: the shell of a host is used only if its SSH service already runs.

Source: VMware, "ESXi Log File Locations" (vmkernel.log).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import server_of
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import PRIVATE, put_whole, take_name
from vgpu_cfg.errors import DocumentError, HostShellError, VgpuCfgError
from vgpu_cfg.model.wording import as_json

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.desired import DesiredHosts
    from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
    from vgpu_cfg.ports import HostShell
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.flags import ConnectionFlags

KERNEL_LOG = "/var/log/vmkernel.log"
_NO_LINES = 1
"""The status of grep if no line matches."""
_SERIAL = re.compile(r"^\s*((?:Serial Number|GPU UUID|VBIOS Version)\s*:\s*(?!N/A)\S.*)$", re.MULTILINE)
_NO_PLAN = "no plan file with access to the host was specified; add --plan"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle and its source; if it is missing, `content` is "" and `why` the reason."""

    name: str
    source: str
    content: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts about one GPU; `names` are those of the site that occur in them."""

    pci_id: str
    parts: tuple[Part, ...]
    names: frozenset[str]


def collect(flags: ConnectionFlags, word: str, request: PlanRequest | None) -> Bundle:
    """Read everything about the GPU that a word names. Raises NotFound if it does not name exactly one."""
    from vgpu_cfg.model.observed.host_facts import FactGroup
    from vgpu_cfg.planning.upkeep.targets import one_gpu
    from vgpu_cfg.ports import ReadScope

    connection = server_of(flags, request.desired if request is not None else None)
    is_of_plan = not (flags.server or flags.context)
    here = replace(flags, server=connection.server) if is_of_plan else flags
    with show.working(connection.server) as tell, compose.connect_reader(connection) as reader:
        tell("reading the host")
        observed = reader.read_inventory(ReadScope(datacenter=connection.datacenter))
        target = one_gpu(word if word.startswith("gpu:") else f"gpu:{word}", observed)
        host, gpu = target.host, target.gpu
        facts = reader.read_facts([host.moid], frozenset({FactGroup.BASE}))
        observed = observed.model_copy(update={"facts": facts})
        access = access_of(connection, observed, host, request)
        tell("reading logs")
        parts = (
            _part("gpu.json", "vCenter", lambda: as_json(_known(observed, host, gpu), indent=2)),
            *_of_shell(connection, observed, host, gpu, access),
            _of_bmc(connection, host, access),
        )
    downloads, asked = _downloads(request)
    history, named = _history(here, host, gpu)
    names = {connection.server, connection.user, *named, *asked, *(one.name for one in observed.clusters)}
    names |= {part for one in observed.hosts for part in (one.name, one.name.partition(".")[0])}
    names |= {one.name for one in (*observed.vms, *observed.datastores, *observed.networks)}
    names |= {text for one in host.cordons for text in (one.by, one.reason)}
    return Bundle(gpu.pci_id, (*parts, downloads, history), frozenset(names - {""}))


def save(bundle: Bundle, path: Path, *, scrub: bool) -> Iterator[str]:
    """Write the archive, and yield a line for each part. Raises DocumentError for a file that is there."""
    from vgpu_cfg.errors import DocumentFault

    parts = _scrubbed(bundle) if scrub else bundle.parts
    manifest = {"kind": "support-bundle", "format": 1, "gpu": bundle.pci_id, "is_scrubbed": scrub}
    manifest["parts"] = [_row(part) for part in parts]
    try:
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb") as zipped,
            tarfile.TarFile(fileobj=zipped, mode="w") as archive,
        ):
            _add(archive, "manifest.json", as_json(manifest, indent=2) + "\n")
            for part in parts:
                if not part.why:
                    _add(archive, part.name, part.content)
        put_whole(path, packed.getvalue(), lambda draft: take_name(draft, path), mode=PRIVATE)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot write the file: {error.strerror or error}")
        raise DocumentError([fault], remedy="specify a new file in a writable folder with -o") from error
    for part in parts:
        yield f"missing: {part.name}: {part.why}" if part.why else f"{part.name}: from {part.source}"
    done = "names and addresses are replaced; " if scrub else ""
    yield f"{path}: {done}check its contents before you send it"


def _row(part: Part) -> dict[str, Any]:
    if part.why:
        return {"file": None, "name": part.name, "source": part.source, "why_missing": part.why}
    raw = part.content.encode()
    digest = hashlib.sha256(raw).hexdigest()
    return {"file": part.name, "source": part.source, "bytes": len(raw), "sha256": digest}


def _add(archive: tarfile.TarFile, name: str, content: str) -> None:
    raw = content.encode()
    row = tarfile.TarInfo(name)
    row.size, row.mode = len(raw), PRIVATE
    archive.addfile(row, io.BytesIO(raw))


def _scrubbed(bundle: Bundle) -> tuple[Part, ...]:
    from vgpu_cfg.recording.anonymous import Anonymous

    scrubber = Anonymous(frozenset())
    return tuple(
        replace(
            part,
            source=scrubber.in_text(part.source, bundle.names),
            content=scrubber.in_text(part.content, bundle.names),
            why=scrubber.in_text(part.why, bundle.names),
        )
        for part in bundle.parts
    )


def _part(name: str, source: str, read: Callable[[], str]) -> Part:
    """Read a part; an error is why it is missing."""
    try:
        content = read()
    except VgpuCfgError as error:
        return Part(name, source, why=_reason(error))
    return Part(name, source, content, "" if content else "no entries for this GPU")


def _known(observed: Inventory, host: Host, gpu: Gpu) -> dict[str, Any]:
    return {
        "host": host.name,
        "gpu": gpu.model_dump(mode="json"),
        "vms_now": [vm.name for vm in observed.vms if vm.moid in gpu.vm_moids],
        "cordons": [one.model_dump(mode="json") for one in host.cordons if one.pci_id in ("", gpu.pci_id)],
        "read_at": observed.read_at.isoformat(),
    }


def _of_shell(
    connection: Connection, observed: Inventory, host: Host, gpu: Gpu, access: Access | None
) -> tuple[Part, ...]:
    """Read what only the host's shell has; Xids are a part of its kernel log."""
    from vgpu_cfg.parsers.guest_system import xids_of
    from vgpu_cfg.shells.esxi.shell import NVIDIA_SMI

    query = (NVIDIA_SMI, "-q", "-i", gpu.pci_id)
    search = ("grep", "-iE", f"NVRM|nvidia|{gpu.pci_id}", KERNEL_LOG)
    smi, log = ("nvidia-smi.txt", " ".join(query)), ("kernel.log", f"{KERNEL_LOG}, without rotated files")
    serial, xids = ("serial.txt", "nvidia-smi.txt"), ("xids.txt", "kernel.log")
    try:
        shell = shell_on(connection, observed, host, access)
    except VgpuCfgError as error:
        return tuple(Part(*one, why=_reason(error)) for one in (serial, smi, xids, log))
    try:
        asked = _part(*smi, lambda: _printed(shell, query, host))
        lines = _part(*log, lambda: _printed(shell, search, host))
    finally:
        shell.close()
    return (
        _derived(serial, asked, "\n".join(_SERIAL.findall(asked.content))),
        asked,
        _derived(xids, lines, xids_of(lines.content, gpu.pci_id)),
        lines,
    )


def _derived(row: tuple[str, str], of: Part, content: str) -> Part:
    """Return a part that is made of another one."""
    return Part(*row, why=of.why) if of.why else _part(*row, lambda: content)


def _reason(error: VgpuCfgError) -> str:
    return f"{error.message}; {error.remedy}" if error.remedy else error.message


def shell_on(connection: Connection, observed: Inventory, host: Host, access: Access | None) -> HostShell:
    """Log in, if that needs no service to be started. Raises HostShellError."""
    if access is None:
        raise HostShellError(_NO_PLAN, subject=host.name)
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or not facts.is_ssh_running:
        raise HostShellError(
            "the host's SSH service is not running", subject=host.name, remedy="start it first"
        )
    return compose.make_logins(connection, access.secrets()).connect(host.name, access.entry.access)


def _printed(shell: HostShell, words: tuple[str, ...], host: Host) -> str:
    answer = shell.run(words, timeout_seconds=120)
    if answer.status > (_NO_LINES if words[0] == "grep" else 0):
        said = " ".join((answer.stderr or answer.stdout).split())[:200]
        raise HostShellError(f"{words[0]} exited with status {answer.status}: {said}", subject=host.name)
    return answer.stdout


@dataclass(frozen=True, slots=True)
class Access:
    """The plan file's entry for the host; `secrets` fetches those that it names."""

    entry: DesiredHosts
    secrets: Callable[[], Mapping[str, str]]


def access_of(
    connection: Connection, observed: Inventory, host: Host, request: PlanRequest | None
) -> Access | None:
    """Return how a plan file logs in to a host and its BMC, None if it does not."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows.preparing.host_facts import host_secrets
    from vgpu_cfg.planning.findings.collection import Findings
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.host_settings.resolved_host import resolve_hosts

    if request is None:
        return None
    found = resolve_hosts(request.desired, observed, load_catalog(), PlanOptions(), Findings())
    entry = next((one.entry for one in found if one.view.host.moid == host.moid), None)
    if entry is None:
        return None
    return Access(entry, lambda: host_secrets(request.desired, request.secrets(), is_lab=connection.is_lab))


def _of_bmc(connection: Connection, host: Host, access: Access | None) -> Part:
    from vgpu_cfg.planning.hosts.sequence import bmc_of

    name, source = "bmc-log.json", "the BMC's Redfish log services"
    if access is None:
        return Part(name, source, why=_NO_PLAN)
    bmc = bmc_of(access.entry, host.name)
    if bmc is None:
        return Part(name, source, why="the plan file's `access.bmc` has no address for this host")

    def read() -> str:
        found = compose.make_powers(connection, access.secrets()).connect(bmc).read_logs()
        return as_json(found, indent=2) if found else ""

    return _part(name, source, read)


def _downloads(request: PlanRequest | None) -> tuple[Part, set[str]]:
    """Return the downloads of the plan's guests as `validate --downloads` lists them, and their names."""
    from vgpu_cfg.cli.flows.files.downloads_flow import downloads_of
    from vgpu_cfg.cli.output.answers import downloads_data
    from vgpu_cfg.model.guests.downloads import is_public

    name, source = "downloads.json", "validate --downloads"
    if request is None:
        return Part(name, source, why="no plan file was specified; add --plan"), set()
    listed = downloads_of(request.desired)
    if not listed:
        return Part(name, source, why="the plan's guests download nothing"), set()
    addresses = {text for one in listed for text in (one.address, one.via) if not is_public(text)}
    names = addresses | {vm for one in listed for vm in one.vms}
    return Part(name, source, as_json(downloads_data(listed), indent=2)), names


def _history(flags: ConnectionFlags, host: Host, gpu: Gpu) -> tuple[Part, set[str]]:
    """Return the runs that concerned the host, with the VMs placed on the GPU; and the names in them.

    Which hosts a run concerned is in its journal only; runs without one in reach are counted.
    """
    from vgpu_cfg.cli.flows.history import look_back
    from vgpu_cfg.execution import read_journal

    name, source = "history.json", "run journals and vCenter's events"
    try:
        seen = look_back(flags)
    except VgpuCfgError as error:
        return Part(name, source, why=_reason(error)), set()
    rows: list[dict[str, Any]] = []
    unknown, names = 0, set[str]()
    for run in seen.runs:
        plan = read_journal(run.journal).plan if run.journal is not None else None
        if plan is None:
            unknown += 1
            continue
        places = [one for one in plan.placements if one.host_moid == host.moid]
        changes = [one for one in plan.changes if host.moid in (one.host_moid, one.subject.moid)]
        if not places and not changes:
            continue
        held = [one for one in places if gpu.pci_id in one.gpu_pci_ids]
        entry = run.entry
        names |= {entry.user, entry.machine, entry.account, entry.plan}
        names |= {entry.occasion.change, entry.occasion.reason, *(one.vm for one in held)}
        names |= {one.subject.name for one in changes}
        rows.append(
            entry.model_dump(mode="json")
            | {
                "vms_on_gpu": [one.vm for one in held],
                "is_gpu_certain": all(one.is_certain for one in held),
                "changes": [one.id for one in changes],
            }
        )
    notes = [*seen.notes, *([seen.failure.message] if seen.failure is not None else [])]
    found = {"runs": rows, "runs_without_journal": unknown, "notes": notes}
    return Part(name, source, as_json(found, indent=2)), names
