"""HTTPS exchanges with a vCenter: the trust in its certificate, and limits in time and bytes.

The certificate is checked while the connection is made, so before any request, and
with it any password, goes out.

One exchange has limits whatever the other end does meanwhile. Every step on its socket first checks the time
left: single bytes at long intervals, a handshake or headers without an end cannot delay it. Bytes are counted
as they come from the network. Only the resolution of a name has limits of its own, those of the system.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.exceptions import TimeoutError as Urllib3Timeout
from urllib3.util.connection import create_connection

from vgpu_cfg.errors import (
    AnswerLate,
    CertificateRejected,
    NoConnectionInTime,
    NotSent,
    TooMuch,
    Unreachable,
    VCenterError,
)
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.vsphere.wire.allowances import CERTIFICATE, PATIENCE

DEFAULT_PORT = 443
CHUNK_BYTES = 256 * 1024

_SHA256_DIGITS, _SHA1_DIGITS = 64, 40
_HOST = re.compile(r"[A-Za-z0-9_.~-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9_.~-]+)?")
"""A name, an IPv4 address, or an IPv6 address with or without a zone."""
_MISMATCH = "Fingerprints did not match"

_HEADERS_BYTES = 1024 * 1024
"""The bytes that may come in addition to the body: the status line, headers, the sizes of chunks."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose certificate is believed: the system's authorities, those of a file, one certificate, or any.

    `thumbprint` is the SHA-256 of the server's certificate in hex, with or without
    colons; it replaces the authorities. `insecure` believes everything.
    """

    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False

    @property
    def pinned_digits(self) -> str | None:
        """The thumbprint as bare lower-case hex digits.

        Raises CertificateRejected where it is no SHA-256. A SHA-1 is refused: two certificates can be made
        to have the same (shattered.io).
        """
        if self.thumbprint is None:
            return None
        digits = re.sub(r"[\s:]", "", self.thumbprint).lower()
        is_hex = re.fullmatch(r"[0-9a-f]+", digits) is not None
        if is_hex and len(digits) == _SHA1_DIGITS:
            raise CertificateRejected(
                "the thumbprint is a SHA-1 hash, which can be forged",
                subject=self.thumbprint,
                remedy="use the certificate's SHA-256 thumbprint: `openssl x509 -noout -fingerprint "
                "-sha256 -in FILE`; without --thumbprint, the error shows the server's thumbprint",
            )
        if not is_hex or len(digits) != _SHA256_DIGITS:
            raise CertificateRejected(
                f"the thumbprint is not a SHA-256 hash, which has {_SHA256_DIGITS} hex digits",
                subject=self.thumbprint,
                remedy="use the certificate's SHA-256 thumbprint in hex, with or without colons",
            )
        return digits

    def context(self) -> ssl.SSLContext:
        """Make the TLS context of this trust."""
        if self.insecure or self.thumbprint is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ssl.SSLError, ValueError) as error:
                raise CertificateRejected(
                    f"cannot use the file of trusted CA certificates: {error}",
                    subject=str(self.ca_file),
                    remedy="specify a PEM file that contains the CA certificate",
                ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = BudgetSocket
        return context


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `vc01`, `vc01:8443` or `https://vc01/sdk`.

    Raises Unreachable for any other form.
    """
    text = address if "//" in address else f"//{address}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    is_host = bool(host and _HOST.fullmatch(host)) and not re.search(r"\s", address)
    if not host or not is_host or urlsplit(text).scheme not in ("", "https"):
        raise Unreachable(
            "this is not a vCenter address",
            subject=address if address.isprintable() and address.strip() else repr(address),
            remedy="use a host name, or host:port",
        )
    return host, port or DEFAULT_PORT


class HttpsTransport:
    """A Transport over HTTPS with a pool of kept connections; every exchange has its limits.

    A path that is a whole URL goes to that host: files of guests are on the host that runs the VM.
    """

    def __init__(
        self,
        address: str,
        *,
        trust: Trust,
        limits: Limits | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self._limits = limits or Limits()
        self._now = now
        self._host, self._port = split_address(address)
        self._trust = trust
        self._others: dict[tuple[str, str | None], HttpsTransport] = {}
        pinned = trust.pinned_digits
        verifies = not trust.insecure and pinned is None
        if trust.insecure:
            # The user has said so; a warning at every request tells nothing new.
            urllib3.disable_warnings(InsecureRequestWarning)
        # Belief: requests-side-by-side, endpoint-limits, four-requests-per-session.
        self._pool = urllib3.HTTPSConnectionPool(
            self._host,
            self._port,
            maxsize=self._limits.in_flight + 1,
            ssl_context=trust.context(),
            cert_reqs="CERT_REQUIRED" if verifies else "CERT_NONE",
            assert_hostname=None if verifies else False,
            assert_fingerprint=pinned,
        )
        self._pool.ConnectionCls = BudgetConnection

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return (status, headers, body).

        Raises NotSent where no connection came about, CertificateRejected where the server's
        certificate is not believed, Unreachable where the connection broke after the request may
        have gone out, AnswerLate where the whole did not end in time, TooMuch for an answer too large.
        """
        if path.startswith("https://"):
            return self._other(path).exchange(method, _path_of(path), headers, body)
        budget = self._budget()
        try:
            with spending(budget):
                return self._exchange(method, path, headers, body, budget)
        except (HTTPError, OSError) as error:
            raise self._failure(error, budget) from error

    def _budget(self) -> Budget:
        seconds = self._limits.timeout_seconds + PATIENCE.get()
        return Budget(self._now, self._now() + seconds, self._limits.answer_bytes)

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, budget: Budget
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = self._pool.urlopen(
            method,
            path,
            body=body or None,
            headers=dict(headers),
            timeout=budget.left(),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        content = BytesIO()  # it gives its bytes away without a copy of them
        try:
            while part := answer.read(CHUNK_BYTES):
                content.write(part)
                if content.tell() > budget.most_bytes:
                    budget.flood()
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()
        return answer.status, answer.headers, content.getvalue()

    def _failure(self, error: HTTPError | OSError, budget: Budget) -> VCenterError:
        """Return the meaning of a failed exchange, by the data sent and received."""
        where = f"{self._host}:{self._port}"
        if budget.is_flooded:
            return TooMuch(
                f"{where} sent a response of more than {self._limits.answer_mib} MiB",
                subject=self.address,
                remedy="if this vCenter is that large, raise `answer_mib` (VGPU_CFG_ANSWER_MIB); otherwise "
                "check which server responds at this address",
            )
        if not budget.is_sent and isinstance(error, SSLError):
            return self._rejection(error)
        if not budget.is_sent and _is_timeout(error):
            return NoConnectionInTime(
                f"no connection to {where}: no response within {self._limits.timeout_seconds:g} s",
                subject=self.address,
                remedy="check the address and firewalls, or increase --timeout",
            )
        if not budget.is_sent:
            return NotSent(
                f"no connection to {where}: {_reason(error)}",
                subject=self.address,
                remedy="check the address, name resolution, and firewalls",
            )
        if _is_timeout(error):
            return AnswerLate(
                f"{where} did not respond in time",
                subject=self.address,
                remedy="increase the time limit (--timeout), or check whether vCenter is overloaded",
            )
        return Unreachable(
            f"the connection to {where} was interrupted: {_reason(error)}",
            subject=self.address,
            remedy="try again; vCenter may be restarting",
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        for other in self._others.values():
            other.close()

    def _other(self, url: str) -> HttpsTransport:
        """Return the transport to another host, made once for each certificate given for it."""
        key = (urlsplit(url).netloc, None if self._trust.insecure else CERTIFICATE.get())
        if key not in self._others:
            trust = replace(self._trust, thumbprint=key[1])
            self._others[key] = HttpsTransport(key[0], trust=trust, limits=self._limits, now=self._now)
        return self._others[key]

    def _rejection(self, error: SSLError) -> Unreachable | CertificateRejected:
        text = str(error)
        if _MISMATCH in text:
            return CertificateRejected(
                f"{self._host} presents a different certificate than the pinned one{self._shown()}",
                subject=self.address,
                remedy="if the certificate was replaced intentionally, pin the new thumbprint; otherwise "
                "the connection may be intercepted",
            )
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return CertificateRejected(
                f"the certificate from {self._host} is not trusted: {_verify_message(error)}{self._shown()}",
                subject=self.address,
                remedy="specify its CA with --ca-file, or compare the thumbprint with the server's and "
                "pin it with --thumbprint",
            )
        return NotSent(
            f"no TLS connection to {self._host}:{self._port}: {text}",
            subject=self.address,
            remedy="check that this is vCenter's HTTPS port",
        )

    def _shown(self) -> str:
        """Fetch the server's thumbprint, to be shown; nothing where that fails."""
        try:
            pem = ssl.get_server_certificate(
                (self._host, self._port), timeout=min(self._limits.timeout_seconds, 10.0)
            )
        except OSError:
            return ""
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
        return f" (its SHA-256 is {':'.join(re.findall('..', digest))})"


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _verify_message(error: BaseException) -> str:
    """Dig out OpenSSL's own words for why a certificate did not verify."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return found.verify_message
        inner = found.args[0] if found.args else None
        found = inner if isinstance(inner, BaseException) else found.__cause__
    return "verification failed"


def _is_timeout(error: BaseException) -> bool:
    """Whether time ran out; urllib3 counts a refused connection among those, too."""
    return isinstance(error, Urllib3Timeout | TimeoutError) and not isinstance(error, NewConnectionError)


def _reason(error: BaseException) -> str:
    """Return the plain cause of an urllib3 error, without its object's address."""
    return str(error).rsplit(": ", 1)[-1] if str(error) else type(error).__name__


class Flooded(OSError):
    """More bytes came than an answer may have."""


@dataclass(slots=True)
class Budget:
    """The rest of one exchange. `is_sent` says whether a byte of the request may have gone out."""

    now: Callable[[], float]
    deadline: float
    most_bytes: int
    received: int = 0
    is_sent: bool = False
    is_flooded: bool = field(default=False, init=False)

    def left(self) -> float:
        """Return how many seconds are left. Raises TimeoutError where none are."""
        seconds = self.deadline - self.now()
        if seconds <= 0:
            raise TimeoutError("the exchange took too long")
        return seconds

    def take(self, count: int) -> None:
        """Count bytes of an answer as they come. Raises Flooded where they are too many."""
        self.received += count
        if self.received > self.most_bytes + _HEADERS_BYTES:
            self.flood()

    def flood(self) -> None:
        """Raise Flooded, and remember why: libraries put errors of their own in its place."""
        self.is_flooded = True
        raise Flooded("the response is too large")


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Hold every socket of this room that is used inside to a budget."""
    before = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(before)


class BudgetSocket(ssl.SSLSocket):
    """A TLS socket that is held to the budget of the exchange that uses it."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the library's signature
        """Shake hands within the time left."""
        self._hurry()
        super().do_handshake(block)

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - the library's name
        """Read within the time left, and count."""
        budget = self._hurry()
        found: Any = super().read(len, buffer)
        if budget is not None:
            budget.take(found if isinstance(found, int) else memoryview(found).nbytes)
        return found

    def send(self, data: Any, flags: int = 0) -> int:
        """Send within the time left."""
        budget = self._hurry()
        if budget is not None:
            budget.is_sent = True
        return super().send(data, flags)

    def _hurry(self) -> Budget | None:
        budget = _BUDGET.get()
        if budget is not None:
            self.settimeout(budget.left())
        return budget


class BudgetConnection(HTTPSConnection):
    """A connection whose addresses share the time left of the exchange."""

    def _new_conn(self) -> socket.socket:
        budget = _BUDGET.get()
        if budget is None:
            return super()._new_conn()
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise NameResolutionError(self.host, self, _as_gai(error)) from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        problem: OSError = OSError("the host name has no address")
        for number, address in enumerate(addresses):
            try:
                share = budget.left() / (len(addresses) - number)
                return create_connection((address, self.port), share, socket_options=self.socket_options)
            except OSError as error:
                problem = error
        if isinstance(problem, TimeoutError):
            raise ConnectTimeoutError(self, f"Connection to {self.host} timed out.") from problem
        raise NewConnectionError(self, f"Failed to establish a new connection: {problem}") from problem


def _as_gai(error: socket.gaierror | UnicodeError) -> socket.gaierror:
    return error if isinstance(error, socket.gaierror) else socket.gaierror("it is not a host name")
