"""A site without a way out: a mirror with a proxy, a guest, and a world that notes who turns to it.

The guest's default route and its name server lead to the world. The world answers no name and lets no
connection through; it notes each packet that comes to it, so that whatever a guest tries is seen.
"""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.proof.guests import wait_for_port
from tests.proof.hosts import Host, NotPermitted, Port, host, switch

NETWORK = "site"
MIRROR, GUEST, WORLD = "10.9.0.1", "10.9.0.2", "10.9.0.254"
NAMES = ("mirror.example.com", "proxy.example.com")
HTTP_PORT, PROXY_PORT = 80, 3128
LOG = "/tmp/packets"

WATCH = r"""
import socket, struct, sys
taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
taken.bind(("eth0", 0))
with open(sys.argv[1], "a", buffering=1) as log:
    log.write("ready\n")
    while True:
        packet = taken.recv(65535)[14:]
        size, kind = (packet[0] & 15) * 4, packet[9]
        if kind not in (6, 17) or socket.inet_ntoa(packet[12:16]) != sys.argv[2]:
            continue
        port = struct.unpack("!H", packet[size + 2 : size + 4])[0]
        name = b""
        if kind == 17 and port == 53:
            at = size + 8 + 12
            while at < len(packet) and packet[at]:
                name += packet[at + 1 : at + 1 + packet[at]] + b"."
                at += 1 + packet[at]
            log.write(f"asks for {name.decode('ascii', 'replace').rstrip('.')}\n")
        else:
            log.write(f"turns to {socket.inet_ntoa(packet[16:20])}:{port}\n")
"""
"""What the world runs: it notes packets of the guest at address `$2` in the file `$1`."""

NAME_SERVER = r"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("0.0.0.0", 53))
    while True:
        question, who = server.recvfrom(4096)
        server.sendto(question[:2] + b"\x81\x83" + question[4:6] + bytes(6) + question[12:], who)
"""
"""It knows no name (NXDOMAIN), at once: nobody waits for it."""

PROXY = r"""
import base64, http.client, http.server, sys, urllib.parse
wanted = "Basic " + base64.b64encode(sys.argv[2].encode()).decode()
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        with open("/tmp/proxied", "a") as log:
            log.write(self.path + "\n")
        if self.headers.get("Proxy-Authorization") != wanted:
            self.send_response(407)
            self.send_header("Proxy-Authenticate", 'Basic realm="site"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        to = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=20)
        to.request("GET", parts.path)
        answer = to.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_HEAD = do_GET
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Proxy).serve_forever()
"""
"""A proxy for http that wants the login `$2`, and notes what it is asked for."""


@dataclass(slots=True)
class Site:
    """The running site. `repository` is the folder that the mirror serves, seen from this machine."""

    guest: Host
    mirror: Host
    world: Host

    def seen(self) -> list[str]:
        """Return what the world saw of the guest since the last time this was asked, each thing once.

        Questions for the site's own names are none of it: apt asks for their SRV records too.
        """
        lines = set(self.world.read(LOG).splitlines()) - {"ready"}
        self.world.write(LOG, "")
        own = tuple(f"{space}{name}" for name in NAMES for space in (" ", "."))
        return sorted(line for line in lines if not (line.startswith("asks for ") and line.endswith(own)))

    def proxied(self) -> list[str]:
        """Return what the proxy was asked for."""
        done = self.mirror.execute("cat", "/tmp/proxied")
        return done.stdout.splitlines()


@contextmanager
def open_site(folder: Path, login: str) -> Iterator[Site]:
    """Make the site; its mirror serves the Debian repository in `folder`, and the proxy wants `login`."""
    with ExitStack() as leaving:
        on = leaving.enter_context(switch([NETWORK]))
        made = [
            leaving.enter_context(
                host(
                    name,
                    [Port(NETWORK, f"02:00:00:00:09:{number:02x}", f"{address}/24")],
                    on,
                    [NETWORK],
                    number,
                )
            )
            for number, (name, address) in enumerate(
                (("mirror", MIRROR), ("guest", GUEST), ("world", WORLD)), 1
            )
        ]
        mirror, guest, world = made
        _route(guest)
        python = sys.executable
        world.start(python, "-c", NAME_SERVER)
        world.start("sh", "-c", 'exec "$@"', "sh", python, "-c", WATCH, LOG, GUEST)
        _until(world, f"grep -q ready {LOG}")
        # A host's root folder is this machine's own with what the host writes over it.
        mirror.start(python, "-m", "http.server", str(HTTP_PORT), "--directory", str(folder))
        mirror.write("/etc/hosts", "".join(f"{MIRROR} {name}\n" for name in NAMES))
        mirror.start(python, "-c", PROXY, str(PROXY_PORT), login)
        for port in (HTTP_PORT, PROXY_PORT):
            wait_for_port(mirror, port)
        guest.write("/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{MIRROR} {name}\n" for name in NAMES))
        guest.write("/etc/resolv.conf", f"nameserver {WORLD}\noptions timeout:2 attempts:1\n")
        guest.write("/etc/nsswitch.conf", "hosts: files dns\n")
        yield Site(guest, mirror, world)


def _route(guest: Host) -> None:
    words = ["ip", "-n", guest.namespace, "route", "add", "default", "via", WORLD]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise NotPermitted(done.stderr)


def _until(on: Host, condition: str) -> None:
    done = on.execute("timeout", "100", "sh", "-c", f"until {condition}; do sleep 0.1; done")
    assert done.returncode == 0, f"{condition} on {on.name}"


def make_repository(folder: Path, packages: Mapping[str, Mapping[str, str]]) -> bytes:
    """Make a repository of Debian's form, and return the public key that it is signed with.

    `packages` are the files of each package by path, all of them programs.
    """
    pool = folder / "debian/pool"
    index = [_package(pool, "pool/", name, "1.0", files) for name, files in packages.items()]
    binary = pool.parent / "dists/stable/main/binary-amd64"
    binary.mkdir(parents=True)
    return _sign(_release(binary, index, binary.parents[1], "main/binary-amd64/"))


def make_flat_repository(folder: Path, version: str, packages: Mapping[str, Mapping[str, str]]) -> bytes:
    """Make a repository as NVIDIA's of the container toolkit: all in one folder. Return its key in ASCII."""
    index = [_package(folder, "./", name, version, files) for name, files in packages.items()]
    return _sign(_release(folder, index, folder, ""), "--armor")


def _package(pool: Path, within: str, name: str, version: str, files: Mapping[str, str]) -> str:
    """Build a package into a folder, and return its part of the index."""
    with tempfile.TemporaryDirectory(prefix="package-") as made:
        root, path = Path(made), pool / f"{name}_{version}_all.deb"
        root.chmod(0o755)
        pool.mkdir(parents=True, exist_ok=True)
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.com>\nDescription: a package of the site\n"
        )
        for inside, text in {"DEBIAN/control": control, **files}.items():
            (root / inside).parent.mkdir(parents=True, exist_ok=True)
            (root / inside).write_text(text)
            (root / inside).chmod(0o755)
        words = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(path)]
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        size = path.stat().st_size
        return f"{control}Filename: {within}{path.name}\nSize: {size}\nSHA256: {digest}\n"


def _release(binary: Path, index: list[str], folder: Path, within: str) -> Path:
    """Write the index into `binary`, and the release that names it into a folder."""
    text = "\n".join(index)
    (binary / "Packages").write_text(text)
    (binary / "Packages.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    lines = [
        "Origin: site",
        "Suite: stable",
        "Codename: stable",
        "Architectures: amd64 all",
        "Components: main",
    ]
    lines += ["Date: Mon, 01 Jan 2024 00:00:00 UTC", "SHA256:"]
    for one in ("Packages", "Packages.gz"):
        content = (binary / one).read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {within}{one}")
    release = folder / "Release"
    release.write_text("\n".join([*lines, ""]))
    return release


def _sign(release: Path, *form: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        gpg = [
            "gpg",
            "--homedir",
            home,
            "--batch",
            "--no-tty",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ]
        who = ["--quick-generate-key", "the site <site@example.com>", "ed25519", "sign", "1d"]
        subprocess.run([*gpg, *who], check=True, capture_output=True, timeout=120)
        signed = release.with_name("InRelease")
        subprocess.run([*gpg, "--clearsign", "--output", str(signed), str(release)], check=True, timeout=120)
        key = subprocess.run([*gpg, *form, "--export"], check=True, capture_output=True, timeout=120).stdout
        ended = ["gpgconf", "--homedir", home, "--kill", "all"]
        subprocess.run(ended, check=False, timeout=120)
    return key
