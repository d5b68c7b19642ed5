"""Guests that boot: Debian and Ubuntu under systemd in systemd-nspawn.

cloud-init's VMware datasource sets them up. A guest's root folder is one that script/build-guest-root made,
with an overlay over it. What a hypervisor gives is played: the product name of DMI, guestinfo by `vmtoolsd
--cmd "info-get KEY"` as open-vm-tools have it, and NICs with a device. So is what a GPU gives: nvidia-smi,
nvidia-gridd, nvidia-ctk, the kernel's modules. A guest that shares a folder serves by NFS-Ganesha what
exportfs has read, since the kernel may have no NFS server. All else is the distribution's own: systemd,
cloud-init, netplan, networkd, apt, docker, sshd, tc, Open MPI. There is no udev.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.proof.hosts import NotPermitted

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vgpu-cfg" / "guest-roots"
DEBIAN, UBUNTU = "trixie", "noble"
STORE = "/var/lib/guestinfo"
SECONDS = 300.0

PROGRAMS = {
    "/usr/bin/systemd-detect-virt": """#!/bin/sh
# A virtual machine, and no container.
case "$*" in *-c*) exit 1 ;; esac
echo vmware
""",
    "/usr/sbin/dmidecode": """#!/bin/sh
case "$*" in *system-product-name*) echo VMware7,1 ;; esac
""",
    "/usr/bin/vmtoolsd": f"""#!/bin/sh
# vmtoolsd --cmd "info-get KEY" | "info-set KEY VALUE", with the answers of open-vm-tools.
case $2 in
"info-get "*)
    key=${{2#info-get }}
    [ -f "{STORE}/$key" ] || {{ printf 'No value found' >&2; exit 1; }}
    cat "{STORE}/$key"
    ;;
"info-set "*)
    rest=${{2#info-set }}
    printf '%s' "${{rest#* }}" >"{STORE}/${{rest%% *}}"
    ;;
*) exit 1 ;;
esac
""",
    "/usr/bin/vmware-rpctool": '#!/bin/sh\nexec vmtoolsd --cmd "$1"\n',
    "/usr/local/sbin/play-the-machine": """#!/bin/sh
# Before cloud-init: no sign of a container, and NICs with a device of VMware's driver.
set -eu
mount --bind /dev/null /proc/1/environ
mkdir -p /run/play/drivers/vmxnet3 /run/play/net
for path in /sys/devices/virtual/net/*; do
    name=${path##*/}
    mkdir "/run/play/net/$name"
    ln -s "$path"/* "/run/play/net/$name/"
    [ "$name" != lo ] || continue
    mkdir "/run/play/net/$name/device"
    ln -s /run/play/drivers/vmxnet3 "/run/play/net/$name/device/driver"
done
mount --bind /run/play/net /sys/class/net
if [ -d /sys/class/dmi/id ]; then
    mount -t tmpfs tmpfs /sys/class/dmi/id
    echo VMware7,1 >/sys/class/dmi/id/product_name
fi
""",
    # A veth has no permanent address, by which netplan has networkd find a NIC.
    "/usr/local/sbin/by-address": """#!/bin/sh
for file in /run/systemd/network/*.network; do
    [ ! -f "$file" ] || sed -i 's/^PermanentMACAddress=/MACAddress=/' "$file"
done
""",
    "/usr/local/sbin/modprobe": "#!/bin/sh\nexit 0\n",
    "/usr/local/sbin/update-initramfs": "#!/bin/sh\nexit 0\n",
    "/usr/local/bin/nvidia-smi": """#!/bin/sh
case "$*" in
*driver_version*) echo 580.65.06 ;;
*-q*)
    token=/etc/nvidia/ClientConfigToken/client_configuration_token_vgpu-cfg.tok
    if systemctl -q is-active nvidia-gridd && [ -s $token ]; then
        echo '        License Status                    : Licensed (Expiry: 2027-1-1 0:0:0 GMT)'
    else
        echo '        License Status                    : Unlicensed (Unrestricted)'
    fi
    ;;
*) echo 'GPU 0: GRID A100-40C (UUID: GPU-0)' ;;
esac
""",
    "/usr/local/bin/nvidia-ctk": """#!/usr/bin/python3
# nvidia-ctk runtime configure --runtime=docker --config=FILE: it adds its runtime, and keeps all else.
import json, os, sys
path = next(word.partition("=")[2] for word in sys.argv if word.startswith("--config="))
said = json.load(open(path)) if os.path.exists(path) else {}
said.setdefault("runtimes", {})["nvidia"] = {"args": [], "path": "nvidia-container-runtime"}
os.makedirs(os.path.dirname(path), exist_ok=True)
json.dump(said, open(path, "w"), indent=4)
""",
}
GANESHA = ("nfs-ganesha", "nfs-ganesha-vfs", "libntirpc*", "liburcu8t64", "libwbclient0")
"""The packages that are unpacked, not installed, into a guest that shares a folder."""
SERVE = """#!/bin/sh
# Serve by NFS-Ganesha, again and again, what exportfs has read into its table: lines PATH CLIENT(OPTION,...).
set -eu
folder=/opt/ganesha/usr/lib
export LD_LIBRARY_PATH=$folder/x86_64-linux-gnu:$folder/ganesha
mkdir -p /run/ganesha /var/lib/nfs/ganesha
while :; do
cat >/run/ganesha.conf <<END
NFS_CORE_PARAM {
    Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; allow_set_io_flusher_fail = true;
    Plugins_Dir = $folder/x86_64-linux-gnu/ganesha;
}
NFSv4 { Graceless = true; }
END
number=0
while read -r path client; do
    number=$((number + 1)) access=RO squash=Root_Squash
    case $client in *'(rw,'* | *,rw,*) access=RW ;; esac
    case $client in *no_root_squash*) squash=No_Root_Squash ;; esac
    cat >>/run/ganesha.conf <<END
EXPORT {
    Export_Id = $number; Filesystem_Id = $number.$number; Path = $path; Pseudo = $path;
    SecType = sys; FSAL { Name = VFS; }
    CLIENT { Clients = ${client%%(*}; Access_Type = $access; Squash = $squash; }
}
END
done </var/lib/nfs/etab
/opt/ganesha/usr/bin/ganesha.nfsd -F -L /var/log/ganesha.log -f /run/ganesha.conf -p /run/ganesha.pid || :
done
"""
SERVER_UNITS = {
    "nfs-server.service": (
        "[Service]\nExecStart=/usr/local/sbin/serve-exports\n[Install]\nWantedBy=multi-user.target\n"
    ),
    # The kernel's server sees at once what exportfs reads. The unit stays active meanwhile.
    "exports-change.path": "[Path]\nPathChanged=/var/lib/nfs/etab\n",
    "exports-change.service": "[Service]\nType=oneshot\nExecStart=-/usr/bin/pkill -x ganesha.nfsd\n",
}
UNITS = {
    "play-the-machine.service": (
        "[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\n"
        "Before=cloud-init-main.service cloud-init-local.service\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/sbin/play-the-machine\n"
    ),
    "nvidia-gridd.service": (
        "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "systemd-networkd.service.d/by-address.conf": "[Service]\nExecStartPre=+/usr/local/sbin/by-address\n",
}


@dataclass(slots=True)
class Booted:
    """A guest that runs; its root folder is at `root` on this machine."""

    name: str
    root: Path
    leader: int
    console: Path

    def execute(self, *words: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a command in the guest to its end."""
        inside = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        clean = [
            "env",
            "-i",
            "HOME=/root",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ]
        return subprocess.run(
            [*inside, *clean, *words], capture_output=True, text=True, check=False, timeout=seconds,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start_mesh(self) -> None:
        """Start the mesh's sshd, as the worker's container does."""
        unit = ["systemd-run", "--quiet", "--collect", "--unit=mesh-of-the-proof", "--property=Type=exec"]
        sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/vgpu-cfg/mesh/sshd_config"]
        look = "timeout 100 sh -c 'until ss -Hltn sport = :2222 | grep -q LISTEN; do sleep 0.1; done'"
        for words in ([*unit, *sshd], ["sh", "-c", look]):
            done = self.execute(*words)
            assert done.returncode == 0, done.stderr

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        """Put a file into the guest."""
        write(self.root, path, content, mode)

    def read(self, path: str) -> str:
        """Return a file of the guest."""
        return (self.root / path.lstrip("/")).read_text()

    def told(self, key: str) -> str:
        """Return what the guest told vCenter, "" for nothing."""
        path = self.root / STORE.lstrip("/") / key
        return path.read_text() if path.exists() else ""


def write(root: Path, path: str, content: str, mode: int = 0o644) -> None:
    """Put a file into a root folder."""
    there = root / path.lstrip("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    there.unlink(missing_ok=True)
    there.touch(mode=0o600)
    there.write_text(content)
    there.chmod(mode)


def check_bootable() -> None:
    """Raise NotPermitted, with the reason, where no guest can boot here."""
    if os.geteuid():
        raise NotPermitted("only root can boot guests")
    for tool in ("systemd-nspawn", "ip", "nsenter", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NotPermitted(f"{tool} is not on this machine")
    if not is_made(DEBIAN):
        raise NotPermitted("there is no root folder of a guest: script/build-guest-root says why")


def is_made(release: str) -> bool:
    """Whether there is a root folder of a release."""
    return (CACHE / release / "made").exists()


@contextmanager
def boot(
    name: str,
    release: str,
    number: int,
    mac: str,
    on: str,
    guestinfo: Mapping[str, str],
    folder: Path,
    *,
    shares: bool,
) -> Iterator[Booted]:
    """Boot a guest with one NIC on the bridge of a switch; `wait_for_boot` waits for its end.

    `release` names the root folder that it starts from. One that `shares` a folder has an NFS server, and
    /srv on a file system of its own.
    """
    namespace = f"vgpu-cfg-boot-{os.getpid()}-{number}"
    with ExitStack() as leaving:
        root = leaving.enter_context(_overlay(CACHE / release / "root", folder))
        _furnish(root, guestinfo)
        more: list[str] = []
        if shares:
            _furnish_server(root, CACHE / release / "root")
            more = leaving.enter_context(_shared_place())
        leaving.enter_context(_namespace(namespace, mac, on, f"b{number}"))
        machine = leaving.enter_context(
            _machine(root, namespace, f"vgpu-cfg-{os.getpid()}-{number}", folder / "console", more)
        )
        yield Booted(name, root, _leader(machine), folder / "console")


@contextmanager
def _overlay(lower: Path, folder: Path) -> Iterator[Path]:
    for part in ("upper", "scratch", "root"):
        (folder / part).mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/scratch"
    _run("mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root"))
    try:
        yield folder / "root"
    finally:
        _run("umount", "--lazy", str(folder / "root"))


def _furnish(root: Path, guestinfo: Mapping[str, str]) -> None:
    for path, text in PROGRAMS.items():
        write(root, path, text, 0o755)
    for name, text in UNITS.items():
        write(root, f"/etc/systemd/system/{name}", text)
    wants = root / "etc/systemd/system/sysinit.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "play-the-machine.service").symlink_to("../play-the-machine.service")
    write(root, "/etc/cloud/cloud.cfg.d/99-datasource.cfg", "datasource_list: [VMware]\n")
    for key, value in guestinfo.items():
        write(root, f"{STORE}/{key}", value)


@contextmanager
def _shared_place() -> Iterator[list[str]]:
    """Give /srv a file system with handles: an NFS server that is a program takes no overlay and no tmpfs."""
    with tempfile.TemporaryDirectory(prefix="srv-", dir=CACHE) as folder:
        yield [f"--bind={folder}:/srv", "--system-call-filter=name_to_handle_at open_by_handle_at"]


def _furnish_server(root: Path, lower: Path) -> None:
    for name in GANESHA:
        (package,) = (lower / "var/cache/apt/archives").glob(f"{name}_*.deb")
        _run("dpkg-deb", "--extract", str(package), str(root / "opt/ganesha"))
    write(root, "/usr/local/sbin/serve-exports", SERVE, 0o755)
    for name, text in SERVER_UNITS.items():
        write(root, f"/etc/systemd/system/{name}", text)
    (root / "etc/systemd/system/sysinit.target.wants/exports-change.path").symlink_to(
        "../exports-change.path"
    )


@contextmanager
def _namespace(name: str, mac: str, on: str, far: str) -> Iterator[None]:
    _run("ip", "netns", "add", name)
    try:
        pair = ("type", "veth", "peer", "name", far, "netns", on)
        _run("ip", "-n", name, "link", "add", "eth0", "address", mac, *pair)
        _run("ip", "-n", on, "link", "set", far, "master", "br0", "up")
        yield
    finally:
        _run("ip", "netns", "del", name)


@contextmanager
def _machine(
    root: Path, namespace: str, name: str, console: Path, more: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={root}"]
    words += [f"--machine={name}", f"--network-namespace-path=/run/netns/{namespace}", "--resolv-conf=off"]
    words += ["--capability=CAP_NET_ADMIN", "--timezone=off", "--bind=/dev/autofs", *more]
    with console.open("wb") as shown:
        machine = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=shown,
            # dockerd turns forwarding on.
            env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"},
        )
        try:
            yield machine
        finally:
            machine.terminate()
            try:
                machine.wait(timeout=120)
            except subprocess.TimeoutExpired:
                machine.kill()
                machine.wait(timeout=120)


def _leader(machine: subprocess.Popen[bytes]) -> int:
    """Return the guest's first process, seen from here; nspawn tells nobody when it is there."""
    children = f"/proc/{machine.pid}/task/{machine.pid}/children"
    look = f'set -- $(cat {children}) && [ "$(cat /proc/$1/comm)" = systemd ] && echo $1'
    wait = f"until {{ {look}; }} 2>/dev/null; do [ -e {children} ] || exit 1; sleep 0.1; done"
    words = ["timeout", "120", "sh", "-c", wait]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    if done.returncode:
        raise NotPermitted("systemd-nspawn does not start a guest here")
    return int(done.stdout.split()[0])


def wait_for_boot(guest: Booted) -> None:
    """Return once cloud-init and the boot have ended. Raises NotPermitted, with what was shown."""
    done = guest.execute("timeout", "570", "sh", "-c", WAIT, seconds=580)
    if done.returncode:
        tail = guest.console.read_text(errors="replace")[-1500:]
        raise NotPermitted(f"{guest.name} does not come up: {done.stdout}{done.stderr}{tail}")


WAIT = (
    "until [ -S /run/systemd/private ]; do sleep 0.1; done; "
    "cloud-init status --wait >/dev/null; systemctl is-system-running --wait || true"
)
"""Ends when cloud-init and the boot have; what failed is the test's to look at."""


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise NotPermitted(f"{' '.join(words)}: {done.stderr.strip()}")
