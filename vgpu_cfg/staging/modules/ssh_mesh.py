"""ssh between hosts that train together: /etc/vgpu-cfg/mesh, in guests and containers.

known_hosts holds the host keys that guests have reported to vCenter; a guest without a known key has no line,
and is refused until it has. The sshd in a container shows the guest's own host key. The container mounts the
folder where it lies, and sshd and ssh read authorized_keys, known_hosts and ssh_config at each login: a
worker that is added changes those three, and nothing is restarted.

Belief: selinux-allows-2222.
"""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import DERIVED
from vgpu_cfg.model.guests.training_modules import MeshPeer, SshMeshModule, WorkerModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, secret_file, source_file, two_scripts

FOLDER = "/etc/vgpu-cfg/mesh"

PUBLIC = {
    "sshd_config": "644",
    "id.pub": "644",
    "authorized_keys": "644",
    "known_hosts": "644",
    "ssh_config": "644",
    "bin/ssh": "755",
}
"""The folder's files without a secret that are the same wherever they are made, by their permissions."""

HOST_KEY_PUBLIC = "host_key.pub"
HOST_KEYS = tuple(f"/etc/ssh/ssh_host_{kind}_key" for kind in ("ed25519", "ecdsa", "rsa"))
"""The guest's own host keys; the first existing one is the one that it reports and shows."""
UNIT = "vgpu-cfg-mesh.service"


def stage_ssh_mesh(module: SshMeshModule, context: StagingContext) -> Staged:
    """Write the mesh's folder, and an sshd of its own on the guest where no container has one.

    Raises `GuestError` for a name, an address or a user that these files cannot carry.
    """
    user = values.user_name(module.user)
    peers = tuple(_checked(peer) for peer in module.peers)
    others = [peer for peer in peers if peer.vm != module.vm]
    ports = sorted(
        {values.port(module.port, "training.port"), values.port(module.host_port, "the guest's SSH port")}
    )
    is_derived = context.host_keys.get(module.vm) == DERIVED
    mesh = context.keys.mesh_key()
    content = {
        "sshd_config": render("mesh-sshd_config.j2", port=module.port, user=user),
        "id.pub": f"{mesh.public}\n",
        "authorized_keys": f"restrict,pty {mesh.public}\n",
        "known_hosts": "".join(
            f"{','.join(_patterns(peer, ports))} {key}\n"
            for peer in peers
            if (key := context.host_key(peer.vm))
        ),
        "ssh_config": render("mesh-ssh_config.j2", peers=peers, port=module.port, user=user),
        "bin/ssh": render("mesh-ssh.sh.j2"),
    }
    worker = context.spec.get(WorkerModule)
    on_guest = worker is None or not worker.sshd
    files = [source_file(f"mesh/{name}", content[name]) for name in PUBLIC]
    if on_guest:
        files.append(source_file(f"mesh/{UNIT}", render("mesh.service.j2")))
    public, private = dict(PUBLIC), ["id"]
    if is_derived:
        own = context.keys.host_key(module.vm)
        files += [
            source_file(f"mesh/{HOST_KEY_PUBLIC}", f"{own.public}\n"),
            secret_file("mesh-host_key", own.private),
        ]
        public, private = {HOST_KEY_PUBLIC: "644", **public}, ["host_key", "id"]
    files.append(secret_file("mesh-id", mesh.private))
    return two_scripts(
        "ssh-mesh",
        *files,
        public=public,
        private=private,
        user=user,
        unit=UNIT,
        on_guest=on_guest,
        own_keys=() if is_derived else HOST_KEYS,
        port=module.port,
        trusted=sorted({one for peer in others for one in peer.addresses}),
        unknown=[peer.names[0] for peer in others if not peer.addresses],
    )


def _checked(peer: MeshPeer) -> MeshPeer:
    for name in peer.names:
        values.domain_name(name)
    for address in peer.addresses:
        values.address(address)
    if not peer.names:
        raise GuestError(
            "a host in the SSH mesh has no name", subject=peer.vm, remedy="set a hostname for the guest"
        )
    return peer


def _patterns(peer: MeshPeer, ports: list[int]) -> list[str]:
    """List what ssh looks for in known_hosts: a bare name for port 22, `[name]:port` for others."""
    return [
        name if port == 22 else f"[{name}]:{port}"
        for name in (*peer.names, *peer.addresses)
        for port in ports
    ]
