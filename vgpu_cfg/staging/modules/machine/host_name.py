"""Set a guest's name, now and at every boot."""

from __future__ import annotations

from vgpu_cfg.model.guests.modules import HostNameModule, HostsModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, source_file


def stage_host_name(module: HostNameModule, context: StagingContext) -> Staged:
    """Write the name; where no address of the plan goes by it, the loopback does."""
    name = values.host_name(module.host_name)
    full = values.domain_name(f"{name}.{module.domain}") if module.domain else ""
    hosts = context.spec.get(HostsModule)
    listed = hosts is not None and any(name in entry.names for entry in hosts.entries)
    line = "" if listed else " ".join(filter(None, ("127.0.1.1", full, name))) + "\n"
    return halves("host-name.sh.j2", source_file("own-name", line), name=name)
