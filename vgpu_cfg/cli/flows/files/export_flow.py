"""How a command comes from an estate to a plan file that says what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.planning.exporting.export import Export
    from vgpu_cfg.planning.exporting.selection import Choice
    from vgpu_cfg.ports import ReadScope


def export(flags: ConnectionFlags, choice: Choice, *, name: str = "", template: str = "") -> Export:
    """Read what is meant, and write a plan file for it.

    Raises NotFound where a glob or the template's name matches nothing.
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
    """Say what a reading must cover: who is named is read in detail, besides all VMs on hosts with GPUs."""
    from vgpu_cfg.ports import HostScope, ReadScope

    return ReadScope(
        datacenter=datacenter,
        template_names=frozenset({template} if template else ()),
        hosts=(HostScope(names=choice.hosts),) if choice.hosts else (),
        vm_globs=choice.vms,
        folder_globs=choice.folders,
        option_names=True,
    )
