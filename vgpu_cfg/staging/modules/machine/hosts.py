"""The plan's hosts in a guest's /etc/hosts: in a block of their own, and never after the loopback."""

from __future__ import annotations

from vgpu_cfg.model.guests.modules import HostsModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves, source_file


def stage_hosts(module: HostsModule) -> Staged:
    """Write the block; the file is rewritten in place, since containers have it mounted."""
    lines = [
        " ".join([values.address(entry.address), *(values.domain_name(name) for name in entry.names)])
        for entry in module.entries
    ]
    return halves("hosts.sh.j2", source_file("hosts", "".join(f"{line}\n" for line in lines)))
