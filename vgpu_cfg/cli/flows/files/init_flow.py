"""A first plan file for a vCenter: a VM of a template with a free vGPU, planned before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DoesNotFit, NotFound
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.folders import config_file

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory
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
        ("free vGPU", profiles, "run `vgpu-cfg doctor` to see what the hosts lack"),
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
