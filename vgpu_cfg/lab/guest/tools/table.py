"""The programs of a guest, by name, and the search for one."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell import Result, Session, StillRunning, Tool, run_words
from vgpu_cfg.lab.guest.staging.command import LOCK, STAGE, STAGING, begin_command
from vgpu_cfg.lab.guest.staging.modules_training import TRAIN
from vgpu_cfg.lab.guest.system.rdma import has_dcb
from vgpu_cfg.lab.guest.system.sysfs import FULL_STACKS
from vgpu_cfg.lab.guest.tools import bandwidth, base, containers, nvidia, peers, rdma, system
from vgpu_cfg.lab.state.guest import ROOT

PROGRAM_FOLDERS = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/vgpu-cfg"}
)

WRAPPERS: dict[str, Tool] = {
    "sudo": base.sudo,
    "sh": base.shell,
    "bash": base.shell,
    "dash": base.shell,
    **dict.fromkeys(("env", "nohup", "timeout", "nice", "setsid", "exec", "ionice", "stdbuf"), base.wrapped),
    "docker": containers.docker,
    "nerdctl": containers.docker,
    "apptainer": containers.apptainer,
}

BUILTINS: dict[str, Tool] = {
    "cd": base.change_folder,
    "umask": base.umask,
    "ulimit": base.ulimit,
    "export": base.export,
    "set": base.true,
}

PLAIN: dict[str, Tool] = {
    "echo": base.echo,
    "printf": base.printf,
    "true": base.true,
    ":": base.true,
    "false": base.false,
    "cat": base.cat,
    "mkdir": base.mkdir,
    "rm": base.remove,
    "mv": base.move,
    "chmod": base.chmod,
    "chown": base.chown,
    "test": base.test,
    "[": base.test,
    "ls": base.listing,
    "grep": system.grep,
    "find": system.find,
    "head": system.head,
    "wc": system.wc,
    "install": base.install,
    "tee": system.tee,
    "cloud-init": system.cloud_init,
    "ping": peers.ping,
    "getent": peers.getent,
    "ssh": peers.ssh,
    "ethtool": peers.ethtool,
    "sync": base.true,
    "ip": system.ip,
    "df": system.df,
    "systemctl": system.systemctl,
    "hostname": system.host_name,
    "uname": system.uname,
    "id": system.user_id,
    "date": system.date,
    "chronyc": system.chronyc,
    "timedatectl": system.timedatectl,
    "dmesg": system.dmesg,
    "findmnt": system.findmnt,
    "curl": system.curl,
    "sha256sum": base.sha256sum,
    "sleep": system.sleep,
    "vmtoolsd": system.vmtoolsd,
    "modinfo": system.modinfo,
    "nvidia-smi": nvidia.run_nvidia_smi,
    "lspci": system.lspci,
    "lsmod": rdma.lsmod,
    "ibv_devinfo": rdma.ibv_devinfo,
    "show_gids": rdma.show_gids,
    "ibdev2netdev": rdma.ibdev2netdev,
    "rdma": rdma.rdma_link,
    "mlnx_qos": rdma.mlnx_qos,
    "dcb": rdma.dcb,
    "mlxconfig": rdma.mlxconfig,
    "mstconfig": rdma.mstconfig,
    "mst": rdma.mst,
    "ib_write_bw": bandwidth.ib_write_bw,
    "all_reduce_perf": bandwidth.all_reduce_perf,
    "train": bandwidth.train,
}


def stage(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Run the stage command; it goes on by itself. Raises StillRunning until it is over."""
    if session.user != ROOT:
        return base.fail("vgpu-cfg-stage: only root may stage")
    running = session.guest.staging
    is_busy = running is not None and running.status is None
    if session.history.resumes == STAGING:
        if is_busy:
            raise StillRunning(STAGING)
        return Result(running.status or 0 if running is not None else base.GONE)
    if is_busy:
        raise StillRunning(LOCK)
    status = begin_command(session.lab, session.vm, arguments)
    if status is None:
        raise StillRunning(STAGING)
    return Result(status)


def command(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the place of a program: `command -v NAME`."""
    if len(arguments) != 2 or arguments[0] != "-v":
        return base.fail("sh: command: the lab's guests support only -v", status=base.WRONG_USE)
    known = find(session, arguments[1])
    if known is None or _is_absent(session, arguments[1]):
        return Result(127)
    return base.out(f"/usr/bin/{arguments[1]}")


def _is_absent(session: Session, name: str) -> bool:
    """Whether a program is one that only some guests have, and not this one."""
    guest = session.guest
    full = guest.ofed in FULL_STACKS
    having = {
        **dict.fromkeys(("show_gids", "ibdev2netdev", "mlnx_qos", "mlxconfig", "mst"), full),
        "mstconfig": full or rdma.has_mstflint(guest),
        "dcb": has_dcb(guest),
        **dict.fromkeys(("ibv_devinfo", "ib_write_bw"), guest.ofed != "none"),
        "docker": "docker" in guest.runtimes,
        "nerdctl": "containerd" in guest.runtimes,
        "apptainer": "apptainer" in guest.runtimes,
        "nvidia-smi": bool(guest.driver),
        "cloud-init": guest.cloud_init,
        "chronyc": guest.services.get("chrony", False),
        "vmtoolsd": session.vm.tools_installed,
        "all_reduce_perf": False,
        "train": TRAIN in guest.files,
    }
    return not having.get(name, True)


def systemd_run(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Start a program of its own under a unit's name; it goes on by itself."""
    words, unit = list(arguments), ""
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        unit = value if name == "--unit" else unit
    if session.user != ROOT:
        return base.fail("Failed to start transient service unit: Access denied")
    if unit:
        session.guest.services[unit] = True
    try:
        return run_words(session.as_transient(unit), words, stdin)
    except StillRunning:
        return Result()


def find(session: Session, name: str) -> Tool | None:
    """Return the program of a name or a path, None where the guest has none."""
    folder, base_name = posixpath.split(name)
    if folder and folder not in PROGRAM_FOLDERS:
        return None
    if base_name == posixpath.basename(STAGE):
        return stage if STAGE in session.guest.files else None
    if base_name == "command":
        return command
    if base_name == "systemd-run":
        return systemd_run
    if base_name in WRAPPERS:
        return _Builtin(WRAPPERS[base_name])
    if base_name in BUILTINS:
        return _Builtin(BUILTINS[base_name])
    return PLAIN.get(base_name)


class _Builtin:
    """A program that changes the shell itself: it runs again whenever its line does."""

    is_wrapper = True

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def __call__(self, session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
        return self._tool(session, arguments, stdin)
