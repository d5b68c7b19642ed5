"""Write an estate to a plan file: an exported one, an updated one, or a first one with a free vGPU.

An update is planned, shown, confirmed, and written completely or not at all; a first plan file is planned
before it is written.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.flow import locate, plan_once
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, read_request
from vgpu_cfg.cli.flows.running.run_flow import ask
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.options.shared import OutputFormat, UpdateOptions
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import MOST_FILE_BYTES, did_you_mean, dump, put_whole, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault, DoesNotFit, NotFound, UnsafePlan
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.environment import config_file
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.suggestion import AsFound
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.exporting.export import Export
    from vgpu_cfg.planning.exporting.selection import Choice
    from vgpu_cfg.ports import ReadScope
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.flags import ConnectionFlags

_MOST_TRIED = 8
_CONTEXT = "default"
_PLAN = """\
# Written by vgpu-cfg for {server}. Next: vgpu-cfg plan {file}
version: 1
name: first
vcenter: {vcenter}
vms:
- name: first-01
  template: {template}
  cpus: 8
  memory: 32GiB
  gpus: {profile}{others}
"""


def export(flags: ConnectionFlags, choice: Choice, *, name: str = "", template: str = "") -> Export:
    """Read the selected VMs, and write a plan file for them.

    Raises NotFound if a glob or the template's name matches nothing.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.exporting.export import Asked
    from vgpu_cfg.planning.exporting.export import export as written

    connection = resolve_connection(flags)
    with compose.connect_reader(connection) as reader:
        observed = reader.read_inventory(scope_of(choice, connection.datacenter, template))
    server = connection.server if connection.recording is None else observed.vcenter.address
    return written(observed, load_catalog(), Asked(choice, server, connection.datacenter, name, template))


def scope_of(choice: Choice, datacenter: str | None, template: str) -> ReadScope:
    """Return the scope of a reading: named VMs in detail, in addition to all VMs on hosts with GPUs."""
    from vgpu_cfg.ports import HostScope, ReadScope

    return ReadScope(
        datacenter=datacenter,
        template_names=frozenset({template} if template else ()),
        hosts=(HostScope(names=choice.hosts),) if choice.hosts else (),
        vm_globs=choice.vms,
        folder_globs=choice.folders,
        option_names=True,
    )


def update(
    path: Path,
    flags: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    options: UpdateOptions,
) -> bool:
    """Write the findings of some VMs into their plan file; return whether no differences remain.

    Raises NotFound if no VM of the file matches.
    """
    request = read_request(path, variables, variable_files)
    if request.reviewed is not None:
        fault = DocumentFault(str(path), 1, 1, "a saved plan is not a plan file")
        raise DocumentError([fault], remedy="specify the plan file that it was created from")
    names = _named(request.desired, options.globs)
    before = read_bytes(path, MOST_FILE_BYTES)
    found = _write_found(request, flags, names)
    will_write = bool(found.lines) and not options.dry_run
    if options.output is OutputFormat.TEXT:
        show.found(found, str(path), is_only_shown=options.dry_run)
    if will_write:
        ask(f"Write {path}?", yes=options.yes)
        _replace(path, before, found.text)
    if options.output is OutputFormat.JSON:
        show.found_data(found, str(path), is_written=will_write)
    elif will_write:
        show.say(f"{path}: written")
    return not found.left


def _named(desired: DesiredPlan, globs: Sequence[str]) -> tuple[str, ...]:
    from vgpu_cfg.planning.findings.options import matches_any

    known = [vm.name for vm in desired.vms]
    for glob in globs:
        if not any(matches_any(name, [glob]) for name in known):
            raise NotFound(
                f"the plan file contains no VM named {glob!r}",
                subject=desired.name,
                remedy=did_you_mean(glob, known, noun="VMs"),
            )
    return tuple(name for name in known if matches_any(name, globs))


def _write_found(request: PlanRequest, flags: ConnectionFlags, names: Sequence[str]) -> AsFound:
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.suggestions import PlanSource, write_found

    planned = plan_once(request, flags, PlanOptions(allow_power_cycle=True))
    source = PlanSource(
        path=request.path,
        catalog=load_catalog(),
        options=planned.options,
        observe=lambda _desired: planned.observed,
        mean=lambda again: locate(replace(request, desired=again), flags)[1],
        variables=request.variables,
        variable_files=request.variable_files,
    )
    return write_found(source, names)


def _replace(path: Path, before: bytes, text: str) -> None:
    """Replace the file whole, with its own line ends.

    Raises UnsafePlan if it was changed meanwhile.
    """
    if read_bytes(path, MOST_FILE_BYTES) != before:
        raise UnsafePlan(
            "the file was changed while this command was running",
            subject=str(path),
            remedy="nothing was written; rerun the command",
        )
    target = path.resolve()
    content = text.replace("\n", "\r\n") if b"\r\n" in before else text
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        put_whole(target, content, lambda draft: draft.replace(target), mode=mode)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot write the file: {error.strerror or error}")
        raise DocumentError([fault], remedy="grant write access to the file's folder") from error


def write_first(path: Path, flags: ConnectionFlags) -> None:
    """Write a plan file that plans without errors, and a config file with its vCenter if there is none.

    Raises NotFound without a template or a free vGPU, DoesNotFit if each plan that was tried has errors.
    """
    connection = resolve_connection(flags)
    is_new = not connection.is_lab and not flags.context and not config_file().exists()
    vcenter = _CONTEXT if is_new else flags.context or connection.server
    refusal: DoesNotFit | None = None
    for text in _texts(path, connection, vcenter):
        refusal = _refusal_of(
            text.replace(f"vcenter: {vcenter}", f"vcenter: {connection.server}"), path, flags
        )
        if refusal is None:
            write_whole(path, text, force=False)
            if is_new:
                _write_config(connection)
            show.say(f"{path}: written. Next: vgpu-cfg plan {path}")
            return
    if refusal is not None:
        raise refusal


def _texts(path: Path, connection: Connection, vcenter: str) -> Iterator[str]:
    """Yield plan files, at most `_MOST_TRIED`: the largest free vGPUs first, by each template."""
    from vgpu_cfg.ports import ReadScope

    with compose.connect_reader(connection) as reader:
        observed = reader.read_inventory(ReadScope(datacenter=connection.datacenter, everything=True))
    templates = sorted(vm.name for vm in observed.vms if vm.is_template)
    profiles = _free_profiles(observed)
    for what, found, remedy in (
        ("free vGPU", profiles, "run `vgpu-cfg doctor` to see what the hosts are missing"),
        ("VM template", templates, "convert a VM with EFI firmware and without a GPU to a template"),
    ):
        if not found:
            raise NotFound(f"the vCenter has no {what}", subject=connection.server, remedy=remedy)
    pairs = [(template, profile) for profile in profiles for template in templates]
    for template, profile in pairs[:_MOST_TRIED]:
        others = ", ".join(one for one in profiles if one != profile)
        yield _PLAN.format(
            server=connection.server,
            file=path,
            vcenter=vcenter,
            template=dump(template).removesuffix("...\n").strip(),
            profile=profile,
            others=f"    # also free: {others}" if others else "",
        )


def _free_profiles(observed: Inventory) -> Sequence[str]:
    """Return the compute profiles that start now, the one with the most GPU memory of each board first."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.vgpu import VgpuProfile
    from vgpu_cfg.planning.pool.summary import read_pool

    best: dict[str, VgpuProfile] = {}
    for row in read_pool(observed, load_catalog()).rows:
        known = [VgpuProfile.parse(name) for name, count in row.room.items() if count]
        if known:
            found = max(known, key=lambda one: one.framebuffer_gb)
            best.setdefault(found.name, found)
    return [one.name for one in sorted(best.values(), key=lambda one: -one.framebuffer_gb)]


def _refusal_of(text: str, path: Path, flags: ConnectionFlags) -> DoesNotFit | None:
    from vgpu_cfg.plan_loading import load_plan
    from vgpu_cfg.planning.findings.options import PlanOptions

    desired = load_plan(path, text=text).desired
    made = flow.plan_once(PlanRequest(desired, path.parent, None, path), flags, PlanOptions()).plan
    return flow.refusal_of(made)


def _write_config(connection: Connection) -> None:
    """Write a context with the server, the account, and its certificate; the password is asked for."""
    context = {
        "server": connection.server,
        "user": connection.user,
        "datacenter": connection.datacenter,
        "ca_file": str(connection.ca_file.absolute()) if connection.ca_file is not None else None,
        "thumbprint": connection.thumbprint,
    }
    stated = {key: value for key, value in context.items() if value}
    target = config_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, dump({"current": _CONTEXT, "contexts": {_CONTEXT: stated}}), force=False)
    show.say(f"{target}: written, with the context {_CONTEXT}")
