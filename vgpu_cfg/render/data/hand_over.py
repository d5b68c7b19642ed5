"""The JSON of what is handed over to another tool: its files, and the hosts in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.render.data.format import FORMAT, Data


def hand_over_data(tool: str, hosts: HostList, files: Mapping[str, str], notes: Sequence[str]) -> Data:
    """Return the files by name, and the hosts that they were written from."""
    listed = hosts.model_dump(mode="json")
    return {
        "kind": "hand-over",
        "format": FORMAT,
        "plan": hosts.plan,
        "tool": tool,
        "files": [{"name": name, "text": text} for name, text in files.items()],
        "notes": list(notes),
        "head": listed["head"],
        "workers": listed["workers"],
        "mesh_port": hosts.mesh_port,
        "absent": list(hosts.absent),
        "lost": list(hosts.lost),
    }
