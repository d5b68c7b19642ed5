"""Hosts made of namespaces: each has its own network, host name and root folder, and runs what a guest runs.

A root folder is this machine's own with a tmpfs over it: what a host writes is gone with it. Hosts are joined
by two networks, bridges in a namespace of their own that lead nowhere else. It takes root, with the right to
make namespaces and to mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

ROOT_SCRIPT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/scratch" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/scratch" "$1/root"
mount -t proc proc "$1/root/proc"
mount -t sysfs sysfs "$1/root/sys"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mkdir -p "$1/root/run/sshd"
# bash reads .bashrc at each ssh: what it starts on this machine would delay the host.
rm -rf "$1"/root/etc/ssh/ssh_host_* "$1/root/root/.ssh" "$1/root/root/.bashrc"
hostname "$2"
echo ready
exec sleep infinity
"""
"""What keeps a host's namespaces open: `$1` is a folder for it, `$2` the host's name."""

SECONDS = 300.0
"""The time limit of a command; a hung one must not hang the tests."""


class NotPermitted(Exception):
    """This machine does not let namespaces be made, or lacks a tool for that."""


@dataclass(frozen=True, slots=True)
class Port:
    """A network interface of a host: the network it is on, its MAC address and its address in CIDR."""

    network: str
    mac: str
    address: str


@dataclass(slots=True)
class Host:
    """A running host. `execute` runs a command in it, in its own root folder."""

    name: str
    pid: int
    root: Path
    namespace: str
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, words: Sequence[str]) -> list[str]:
        """Return what runs these words on the host."""
        inside = ["nsenter", "-t", str(self.pid), "-m", "-u", "-p", "-i"]
        entered = entering(self.namespace, inside)
        return [*entered, "chroot", str(self.root), "env", "-i", f"PATH={os.environ['PATH']}", *HOME, *words]

    def execute(
        self, *words: str, text: str = "", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(words),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start what runs until the host goes."""
        daemon = subprocess.Popen(self.command(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.daemons.append(daemon)
        return daemon

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        """Put a file into the host's root folder."""
        done = self.execute("sh", "-c", 'umask 077; mkdir -p "${1%/*}"; cat >"$1"', "sh", path, text=content)
        assert done.returncode == 0, done.stderr
        done = self.execute("chmod", f"{mode:o}", path)
        assert done.returncode == 0, done.stderr

    def read(self, path: str) -> str:
        """Return a file of the host."""
        done = self.execute("cat", path)
        assert done.returncode == 0, done.stderr
        return done.stdout


def entering(namespace: str, words: Sequence[str]) -> list[str]:
    """Return what runs words in a network namespace."""
    return ["ip", "netns", "exec", namespace, *words]


HOME = ("HOME=/root", "LANG=C.UTF-8", "TERM=dumb")


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise NotPermitted(f"{' '.join(words)}: {done.stderr.strip()}")


def check_permitted() -> None:
    """Raise NotPermitted, with the reason, where hosts cannot be made here."""
    if os.geteuid():
        raise NotPermitted("only root can make network namespaces")
    for tool in ("ip", "nsenter", "unshare", "chroot", "sshd"):
        if shutil.which(tool) is None:
            raise NotPermitted(f"{tool} is not on this machine")
    name = f"vgpu-cfg-try-{os.getpid()}"
    _run("ip", "netns", "add", name)
    _run("ip", "netns", "del", name)
    with tempfile.TemporaryDirectory() as folder:
        _run("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", folder)


_SWITCHES = count(1)
"""Hosts of one module may still be there when those of the next are made."""


@contextmanager
def switch(networks: Sequence[str]) -> Iterator[str]:
    """Make a namespace with a bridge for each network; yield its name."""
    name = f"vgpu-cfg-{os.getpid()}-{next(_SWITCHES)}"
    _run("ip", "netns", "add", name)
    try:
        for index, _ in enumerate(networks):
            _run("ip", "-n", name, "link", "add", f"br{index}", "type", "bridge")
            _run("ip", "-n", name, "link", "set", f"br{index}", "up", "mtu", "9000")
        yield name
    finally:
        _run("ip", "netns", "del", name)


@contextmanager
def host(name: str, ports: Sequence[Port], on: str, networks: Sequence[str], number: int) -> Iterator[Host]:
    """Make a host with these ports on a switch; it goes with all that runs on it."""
    namespace = f"{on}-{number}"
    _run("ip", "netns", "add", namespace)
    with ExitStack() as leaving:
        leaving.callback(_run, "ip", "netns", "del", namespace)
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
        for index, port in enumerate(ports):
            far = f"p{number}n{index}"
            pair = ("type", "veth", "peer", "name", far, "netns", on)
            _run("ip", "-n", namespace, "link", "add", f"eth{index}", "address", port.mac, *pair)
            _run("ip", "-n", on, "link", "set", far, "master", f"br{networks.index(port.network)}", "up")
            _run("ip", "-n", on, "link", "set", far, "mtu", "9000")
            _run("ip", "-n", namespace, "link", "set", f"eth{index}", "up")
            if port.address:
                _run("ip", "-n", namespace, "addr", "add", port.address, "dev", f"eth{index}")
        folder = Path(leaving.enter_context(tempfile.TemporaryDirectory(prefix="vgpu-cfg-host-")))
        keeper = subprocess.Popen(
            entering(namespace, [*UNSHARE, "sh", "-c", ROOT_SCRIPT, "sh", str(folder), name]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        made = Host(name, 0, folder / "root", namespace)
        leaving.callback(_end, keeper, made)
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline().strip() != "ready":
            raise NotPermitted(f"no root folder for {name}: {keeper.stderr.read().strip()}")
        made.pid = _child_of(keeper.pid)
        yield made


UNSHARE = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")


def _child_of(pid: int) -> int:
    """Return the process that unshare forked: the first of the new PID namespace."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else pid


def _end(keeper: subprocess.Popen[str], made: Host) -> None:
    # The first process of a PID namespace takes all others with it.
    keeper.kill()
    keeper.communicate(timeout=120)
    for daemon in made.daemons:
        daemon.kill()
        daemon.communicate(timeout=120)
