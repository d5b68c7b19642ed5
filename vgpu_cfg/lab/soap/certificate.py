"""The certificate that the lab's server shows: self-signed, for this machine's own names, kept if asked."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
