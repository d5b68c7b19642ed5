"""The lab behind HTTPS, with its own certificate: any vSphere client can talk to it over the loopback."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import socket
import ssl
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyVmomi import VmomiSupport, vmodl

from vgpu_cfg.lab.api.answer import write_fault
from vgpu_cfg.lab.simulation.faults import ConnectionDropped
from vgpu_cfg.lab.simulation.restart import ConnectionRefused, is_away
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS, Credentials
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.soap import dispatch

NAMES = ("localhost", "127.0.0.1", "127.0.0.2", "::1")
LIFETIME = timedelta(days=825)
CERTIFICATE_FILE = "server.crt"
KEY_FILE = "server.key"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes

    @property
    def thumbprint(self) -> str:
        """The SHA-256 thumbprint as browsers and govc print it, `AB:CD:…`."""
        der = ssl.PEM_cert_to_DER_cert(self.certificate_pem.decode())
        digest = hashlib.sha256(der).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def is_usable(self) -> bool:
        """Whether both are PEM and belong together."""
        try:
            self.server_context()
        except (ssl.SSLError, ValueError):
            return False
        return True

    def server_context(self) -> ssl.SSLContext:
        """Return a TLS context that shows it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "both.pem"
            with os.fdopen(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(self.certificate_pem + self.key_pem)
            context.load_cert_chain(place)
        return context


def make_certificate() -> Certificate:
    """Make a new one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vgpu-cfg lab")])
    now = datetime.now(UTC)
    alternatives: list[x509.GeneralName] = []
    for text in NAMES:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            alternatives.append(x509.DNSName(text))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def keep_certificate(folder: Path) -> Certificate:
    """Return the certificate kept in a folder, made and put there the first time, or where it is damaged."""
    certificate_file, key_file = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if certificate_file.exists() and key_file.exists():
        kept = Certificate(certificate_file.read_bytes(), key_file.read_bytes())
        if kept.is_usable():
            return kept
    folder.mkdir(parents=True, exist_ok=True)
    made = make_certificate()
    certificate_file.write_bytes(made.certificate_pem)
    with os.fdopen(os.open(key_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(made.key_pem)
    return made


LOGGER = logging.getLogger("vgpu_cfg.lab.server")
LARGEST_BODY = 64 * 1024 * 1024
"""Bytes of a request that the server still takes."""


class LabServer:
    """A running server. `url` ends in /sdk; `thumbprint` is SHA-256, empty on plain HTTP.

    It listens from construction on, and answers after `start` (or inside `with`); `stop` ends
    it, with every connection.
    """

    def __init__(
        self,
        lab: Simulation,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        is_https: bool = True,
        certificate: Certificate | None = None,
        credentials: Credentials = LAB_CREDENTIALS,
    ) -> None:
        self.lab = lab
        self.credentials = credentials
        self.certificate = (certificate or make_certificate()) if is_https else None
        self._http = _HttpServer((address, port), self)
        host, bound_port = self._http.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        self.url = f"{'https' if is_https else 'http'}://{shown}:{bound_port}/sdk"
        self.thumbprint = self.certificate.thumbprint if self.certificate is not None else ""
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    def start(self) -> None:
        """Answer, from another thread."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Serve until stopped."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stop answering, and close every connection."""
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        self._http.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _HttpServer(ThreadingHTTPServer):
    """Knows its open connections, so that it can close them."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], owner: LabServer) -> None:
        self.owner = owner
        self.connections: set[socket.socket] = set()
        self.guard = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        if owner.certificate is not None:
            context = owner.certificate.server_context()
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def close(self) -> None:
        """Close the listening socket and all connections."""
        self.server_close()
        with self.guard:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Hang up before a word is said while vCenter restarts."""
        with self.owner.lab.transaction():
            return not is_away(self.owner.lab)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.guard:
            self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.guard:
            self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note what went wrong on one connection: a client that hangs up is no reason for a traceback."""
        LOGGER.debug("connection from %s ended", client_address)


class _Handler(BaseHTTPRequestHandler):
    """Bytes of HTTP to the lab's exchange and back."""

    protocol_version = "HTTP/1.1"
    server_version = "vgpu-cfg-lab"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _HttpServer

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_HEAD(self) -> None:
        self._answer("HEAD", b"")

    def do_POST(self) -> None:
        self._take("POST")

    def do_PUT(self) -> None:
        self._take("PUT")

    def do_PATCH(self) -> None:
        self._take("PATCH")

    def do_DELETE(self) -> None:
        self._answer("DELETE", b"")

    def _take(self, method: str) -> None:
        body = self._read_body()
        if body is None:
            self.close_connection = True
            self.send_error(413)
            return
        self._answer(method, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        LOGGER.debug(format, *args)

    def _read_body(self) -> bytes | None:
        """Return the body, in one piece or in chunks (as govc sends it); None for one too large."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._read_chunks()
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length) if length <= LARGEST_BODY else None

    def _read_chunks(self) -> bytes | None:
        chunks: list[bytes] = []
        total = 0
        while True:
            size = int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16)
            if size == 0:
                break
            total += size
            if total > LARGEST_BODY:
                return None
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _answer(self, method: str, body: bytes) -> None:
        owner = self.server.owner
        try:
            status, headers, content = dispatch.exchange(
                owner.lab, method, self.path, dict(self.headers.items()), body, owner.credentials
            )
        except (ConnectionDropped, ConnectionRefused):
            self.close_connection = True
            return
        except Exception as error:
            LOGGER.exception("the lab failed on %s %s", method, self.path)
            fault = vmodl.fault.SystemError(reason=repr(error), msg="A general system error occurred")
            status, headers = 500, {"Content-Type": dispatch.XML}
            content = write_fault(fault, VmomiSupport.BASE_VERSION)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value if owner.certificate is not None else value.replace(" Secure;", ""))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(content)
