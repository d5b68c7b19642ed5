"""Share data and code: the head exports a folder over NFS, the workers mount it at its first use."""

from __future__ import annotations

import re

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import SharedFolderModule
from vgpu_cfg.model.plan_file.guest_values import check_folder
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, source_file, two_scripts

EXPORTS = "/etc/exports.d/vgpu-cfg.exports"


def stage_shared_folder(module: SharedFolderModule, context: StagingContext) -> Staged:
    """Export the folder, or mount it. Raises `GuestError` for a path or an address that neither can carry."""
    path = values.asserted(check_folder, "a shared folder", module.path).rstrip("/")
    if module.role == "server":
        return _server(module, path, context.spec.vm)
    unit = unit_name(path)
    server = (
        values.address(module.server) if _is_address(module.server) else values.domain_name(module.server)
    )
    source = f"[{server}]" if ":" in server else server
    files = {
        f"/etc/systemd/system/{unit}.mount": render("shared.mount.j2", path=path, source=source),
        f"/etc/systemd/system/{unit}.automount": render("shared.automount.j2", path=path),
    }
    named = [(target, f"shared/{number}", "644") for number, target in enumerate(files, 1)]
    return two_scripts(
        "shared-client",
        *(source_file(name, files[target]) for target, name, _ in named),
        files=named,
        unit=unit,
        path=path,
        server=server,
    )


def unit_name(path: str) -> str:
    """Return what systemd calls the unit of a path (systemd-escape --path)."""
    text = path.strip("/")
    escaped = "".join(
        "-" if sign == "/" else sign if re.match(r"[A-Za-z0-9:_.]", sign) else f"\\x{ord(sign):02x}"
        for sign in text
    )
    return f"\\x2e{escaped[1:]}" if escaped.startswith(".") else escaped


def _server(module: SharedFolderModule, path: str, vm: str) -> Staged:
    clients = tuple(values.network(client, f"the clients of {path} on {vm}") for client in module.clients)
    if not clients:
        raise GuestError(
            "a shared folder without clients would be open to everyone",
            subject=vm,
            remedy="assign the workers addresses in the plan (ip: pool), or set a subnet for their network",
        )
    # In a container one works as root: to squash it would take the right to write away from all of them.
    options = "rw,sync,no_subtree_check,no_root_squash"
    line = f"{path} {' '.join(f'{client}({options})' for client in clients)}\n"
    return two_scripts(
        "shared-server",
        source_file("shared/exports", line),
        files=[(EXPORTS, "shared/exports", "644")],
        path=path,
    )


def _is_address(text: str) -> bool:
    return ":" in text or text.replace(".", "").isdigit()
