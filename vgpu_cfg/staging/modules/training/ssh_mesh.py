"""How hosts that train together reach each other by ssh: /etc/vgpu-cfg/mesh, in guests and containers.

Every key follows from the plan's, so known_hosts is right before any sshd has answered. The container
mounts the folder where it lies, and sshd and ssh read authorized_keys, known_hosts and ssh_config at each
login: a worker that is added changes those three, and nothing is restarted.
"""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.training_modules import MeshPeer, SshMeshModule, WorkerModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.container_values import checked_port
from vgpu_cfg.staging.module import Staged, StagingContext
from vgpu_cfg.staging.rendering import render
from vgpu_cfg.staging.scripts import secret_file, source_file

FOLDER = "/etc/vgpu-cfg/mesh"

PUBLIC = {
    "sshd_config": "644",
    "host_key.pub": "644",
    "id.pub": "644",
    "authorized_keys": "644",
    "known_hosts": "644",
    "ssh_config": "644",
    "bin/ssh": "755",
}
"""The folder's files without a secret, by their permissions."""

PRIVATE = ("host_key", "id")
UNIT = "vgpu-cfg-mesh.service"


def stage(module: SshMeshModule, context: StagingContext) -> Staged:
    """Write the mesh's folder, and an sshd of its own where no container has one.

    Raises `GuestError` for a name, an address or a user that these files cannot carry.
    """
    user = values.user_name(module.user)
    peers = tuple(_checked(peer) for peer in module.peers)
    ports = sorted(
        {checked_port(module.port, "training.port"), checked_port(module.host_port, "the guest's ssh port")}
    )
    own, mesh = context.keys.host_key(module.vm), context.keys.mesh_key()
    content = {
        "sshd_config": render("mesh-sshd_config.j2", port=module.port, user=user),
        "host_key.pub": f"{own.public}\n",
        "id.pub": f"{mesh.public}\n",
        "authorized_keys": f"restrict,pty {mesh.public}\n",
        "known_hosts": "".join(
            f"{','.join(_patterns(peer, ports))} {_bare(context.keys.host_key(peer.vm).public)}\n"
            for peer in peers
        ),
        "ssh_config": render("mesh-ssh_config.j2", peers=peers, port=module.port, user=user),
        "bin/ssh": render("mesh-ssh.sh.j2"),
    }
    on_guest = context.spec.get(WorkerModule) is None
    files = [source_file(f"mesh/{name}", content[name]) for name in PUBLIC]
    if on_guest:
        files.append(source_file(f"mesh/{UNIT}", render("mesh.service.j2")))
    files += [secret_file("mesh-host_key", own.private), secret_file("mesh-id", mesh.private)]
    words = {"public": PUBLIC, "private": PRIVATE, "user": user, "unit": UNIT, "on_guest": on_guest}
    return Staged(
        check=render("ssh-mesh.check.sh.j2", **words),
        apply=render("ssh-mesh.apply.sh.j2", **words),
        files=tuple(files),
    )


def _checked(peer: MeshPeer) -> MeshPeer:
    for name in peer.names:
        values.domain_name(name)
    for address in peer.addresses:
        values.address(address)
    if not peer.names:
        raise GuestError(
            "a host of the ssh mesh has no name", subject=peer.vm, remedy="give the VM's guest a hostname"
        )
    return peer


def _patterns(peer: MeshPeer, ports: list[int]) -> list[str]:
    """List what ssh looks for in known_hosts: a bare name for port 22, `[name]:port` for others."""
    return [
        name if port == 22 else f"[{name}]:{port}"
        for name in (*peer.names, *peer.addresses)
        for port in ports
    ]


def _bare(public: str) -> str:
    """Return a public key without its comment."""
    return " ".join(public.split()[:2])
