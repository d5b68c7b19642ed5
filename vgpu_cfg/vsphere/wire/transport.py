"""How bytes reach a vCenter over HTTPS, and whose certificate is believed.

The certificate is checked while the connection is made, so before any request, and
with it any password, goes out.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from vgpu_cfg.errors import CertificateRejected, Unreachable

DEFAULT_PORT = 443
LEAST_READ_TIMEOUT_SECONDS = 30.0
"""A wait for task news is answered within `tasks.LONGEST_WAIT_SECONDS`, which must be less than this."""

PATIENCE: ContextVar[float] = ContextVar("patience", default=0.0)
"""Within how many seconds an answer is awaited at least, beside the connection's own limit: see `patient`."""

CERTIFICATE: ContextVar[str | None] = ContextVar("certificate", default=None)
"""The thumbprint by which another host than vCenter is believed: see `believing`."""

_HASH_BY_DIGITS = {40: hashlib.sha1, 64: hashlib.sha256}
_HOST = re.compile(r"[A-Za-z0-9_.~-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9_.~-]+)?")
"""A name, an IPv4 address, or an IPv6 address with or without a zone."""
_MISMATCH = "Fingerprints did not match"


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Give what is asked inside so many seconds to be answered, where the connection's own limit is less."""
    before = PATIENCE.set(seconds)
    try:
        yield
    finally:
        PATIENCE.reset(before)


@contextmanager
def believing(thumbprint: str | None) -> Iterator[None]:
    """Believe another host than vCenter, where one is asked inside, by the certificate with this thumbprint.

    With None it is believed as vCenter is, except for a thumbprint, which is vCenter's alone.
    """
    before = CERTIFICATE.set(thumbprint)
    try:
        yield
    finally:
        CERTIFICATE.reset(before)


class NotSent(Unreachable):
    """No connection came about, so the server has seen nothing of the request: it may be repeated."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose certificate is believed: the system's authorities, those of a file, one certificate, or any.

    `thumbprint` is the SHA-256 or SHA-1 of the server's certificate in hex, with or without
    colons; it replaces the authorities. `insecure` believes everything.
    """

    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False

    @property
    def pinned_digits(self) -> str | None:
        """The thumbprint as bare lower-case hex digits.

        Raises CertificateRejected where it is neither a SHA-1 nor a SHA-256.
        """
        if self.thumbprint is None:
            return None
        digits = re.sub(r"[\s:]", "", self.thumbprint).lower()
        if len(digits) not in _HASH_BY_DIGITS or not re.fullmatch(r"[0-9a-f]+", digits):
            raise CertificateRejected(
                "the thumbprint is no SHA-256 (64 hex digits) and no SHA-1 (40)",
                subject=self.thumbprint,
                remedy="give the certificate's SHA-256 in hex, with or without colons",
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
                    f"the file of trusted authorities cannot be used: {error}",
                    subject=str(self.ca_file),
                    remedy="name a PEM file that holds the authority's certificate",
                ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `vc01`, `vc01:8443` or `https://vc01/sdk`.

    Raises Unreachable for what is none of these.
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
            "this is no address of a vCenter",
            subject=address if address.isprintable() and address.strip() else repr(address),
            remedy="write a host name, or host:port",
        )
    return host, port or DEFAULT_PORT


class HttpsTransport:
    """A Transport over HTTPS with a pool of kept connections; every wait has its limit.

    A path that is a whole URL goes to that host: files of guests are on the host that runs the VM.
    """

    def __init__(self, address: str, *, trust: Trust, timeout_seconds: float = 60.0) -> None:
        self.address = address
        self._host, self._port = split_address(address)
        self._trust = trust
        self._others: dict[tuple[str, str | None], HttpsTransport] = {}
        pinned = trust.pinned_digits
        verifies = not trust.insecure and pinned is None
        self._connect_seconds = timeout_seconds
        self._read_seconds = max(timeout_seconds, LEAST_READ_TIMEOUT_SECONDS)
        if trust.insecure:
            # The user has said so; a warning at every request tells nothing new.
            urllib3.disable_warnings(InsecureRequestWarning)
        self._pool = urllib3.HTTPSConnectionPool(
            self._host,
            self._port,
            maxsize=2,
            timeout=urllib3.Timeout(connect=timeout_seconds, read=self._read_seconds),
            ssl_context=trust.context(),
            cert_reqs="CERT_REQUIRED" if verifies else "CERT_NONE",
            assert_hostname=None if verifies else False,
            assert_fingerprint=pinned,
        )

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return (status, headers, body).

        Raises NotSent where no connection came about, CertificateRejected where the server's
        certificate is not believed, Unreachable where the connection broke or fell silent
        after the request may have gone out.
        """
        if path.startswith("https://"):
            return self._other(path).exchange(method, _path_of(path), headers, body)
        try:
            answer = self._pool.urlopen(
                method,
                path,
                body=body or None,
                headers=dict(headers),
                timeout=urllib3.Timeout(
                    connect=self._connect_seconds, read=max(self._read_seconds, PATIENCE.get())
                ),
                retries=False,
                redirect=False,
            )
        except SSLError as error:
            raise self._rejection(error) from error
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise NotSent(
                f"no connection to {self._host}:{self._port}: {_reason(error)}",
                subject=self.address,
                remedy="check the address, the name's resolution and the way through firewalls",
            ) from error
        except ReadTimeoutError as error:
            raise Unreachable(
                f"{self._host}:{self._port} did not answer in time",
                subject=self.address,
                remedy="raise the time limit (--timeout), or see whether vCenter is overloaded",
            ) from error
        except (HTTPError, OSError) as error:
            raise Unreachable(
                f"the connection to {self._host}:{self._port} broke: {_reason(error)}",
                subject=self.address,
                remedy="try again; vCenter may be restarting",
            ) from error
        return answer.status, answer.headers, answer.data

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        for other in self._others.values():
            other.close()

    def _other(self, url: str) -> HttpsTransport:
        """Return the transport to another host, made once for each certificate that is told of it."""
        key = (urlsplit(url).netloc, None if self._trust.insecure else CERTIFICATE.get())
        if key not in self._others:
            trust = replace(self._trust, thumbprint=key[1])
            self._others[key] = HttpsTransport(key[0], trust=trust, timeout_seconds=self._connect_seconds)
        return self._others[key]

    def _rejection(self, error: SSLError) -> Unreachable | CertificateRejected:
        text = str(error)
        if _MISMATCH in text:
            return CertificateRejected(
                f"{self._host} shows another certificate than the pinned one{self._shown()}",
                subject=self.address,
                remedy="if the certificate was replaced on purpose, pin the new thumbprint; "
                "else somebody may be in between",
            )
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return CertificateRejected(
                f"the certificate of {self._host} is not trusted: {_verify_message(error)}{self._shown()}",
                subject=self.address,
                remedy="give its authority with --ca-file, or compare the thumbprint with the server's own "
                "and pin it with --thumbprint",
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
                (self._host, self._port), timeout=min(self._connect_seconds, 10.0)
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


def _reason(error: BaseException) -> str:
    """Return the plain cause of an urllib3 error, without its object's address."""
    return str(error).rsplit(": ", 1)[-1] if str(error) else type(error).__name__
