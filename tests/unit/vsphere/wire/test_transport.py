"""Addresses, thumbprints and authorities, as far as no connection is needed."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import urllib3

from vgpu_cfg.errors import CertificateRejected, Unreachable
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust, patient, split_address

SHA256 = "AB:" * 31 + "AB"
SHA1 = "01" * 20


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("vc01.example.com", ("vc01.example.com", 443)),
        ("vc01:8443", ("vc01", 8443)),
        ("https://vc01/sdk", ("vc01", 443)),
        ("https://vc01:9443", ("vc01", 9443)),
        ("[::1]:8989", ("::1", 8989)),
        ("10.0.0.1", ("10.0.0.1", 443)),
    ],
)
def test_an_address_is_split(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "vc01:port", "http://vc01", "ftp://vc01", "https://", "vc01:99999"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Unreachable):
        split_address(address)


@pytest.mark.parametrize("thumbprint", [SHA256, SHA256.replace(":", ""), SHA1, SHA1.upper(), f" {SHA1} "])
def test_a_thumbprint_is_taken_with_or_without_colons(thumbprint: str) -> None:
    digits = Trust(thumbprint=thumbprint).pinned_digits
    assert digits is not None
    assert len(digits) in (40, 64)
    assert digits == digits.lower()


@pytest.mark.parametrize("thumbprint", ["", "ab", "ab" * 16, "zz" * 32])
def test_what_is_no_thumbprint_is_refused(thumbprint: str) -> None:
    with pytest.raises(CertificateRejected, match="SHA-256"):
        _ = Trust(thumbprint=thumbprint).pinned_digits


def test_authorities_are_asked_unless_told_otherwise() -> None:
    context = Trust().context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_nothing_is_asked_where_that_was_said() -> None:
    assert Trust(insecure=True).context().verify_mode is ssl.CERT_NONE


class Pool:
    """Takes a request, and tells how long it would have waited for the answer."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def urlopen(self, *_words: str, timeout: urllib3.Timeout, **_fields: Any) -> urllib3.HTTPResponse:
        assert isinstance(timeout.read_timeout, float)
        self.waits.append(timeout.read_timeout)
        return urllib3.HTTPResponse(b"", status=200)


def test_only_what_is_slow_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    transport, pool = HttpsTransport("vc01", trust=Trust(), timeout_seconds=60.0), Pool()
    monkeypatch.setattr(transport, "_pool", pool)
    transport.exchange("POST", "/sdk", {}, b"")
    with patient(900.0):
        transport.exchange("POST", "/sdk", {}, b"")
        with patient(0.0):
            transport.exchange("POST", "/sdk", {}, b"")
    with patient(10.0):
        transport.exchange("POST", "/sdk", {}, b"")
    with pytest.raises(KeyError), patient(900.0):
        raise KeyError
    transport.exchange("POST", "/sdk", {}, b"")
    assert pool.waits == [60.0, 900.0, 60.0, 60.0, 60.0]


def test_a_file_of_authorities_that_is_none_is_refused(tmp_path: Path) -> None:
    no_pem = tmp_path / "ca.pem"
    no_pem.write_text("hello", encoding="ascii")
    for path in (no_pem, tmp_path / "missing.pem"):
        with pytest.raises(CertificateRejected) as caught:
            Trust(ca_file=path).context()
        assert caught.value.subject == str(path)
