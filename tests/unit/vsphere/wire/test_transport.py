"""Addresses, thumbprints and authorities, as far as no connection is needed."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from vgpu_cfg.errors import CertificateRejected, Unreachable
from vgpu_cfg.vsphere.wire.transport import Trust, split_address

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


@pytest.mark.parametrize("thumbprint", [SHA256, SHA256.lower(), f" {SHA256} "])
def test_a_thumbprint_is_taken_with_or_without_colons(thumbprint: str) -> None:
    digits = Trust(thumbprint=thumbprint).pinned_digits
    assert digits is not None
    assert len(digits) == 64
    assert digits == digits.lower()


def test_a_sha_1_is_refused_as_that() -> None:
    with pytest.raises(CertificateRejected, match="is a SHA-1"):
        _ = Trust(thumbprint=SHA1).pinned_digits


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


def test_a_file_of_authorities_that_is_none_is_refused(tmp_path: Path) -> None:
    no_pem = tmp_path / "ca.pem"
    no_pem.write_text("hello", encoding="ascii")
    for path in (no_pem, tmp_path / "missing.pem"):
        with pytest.raises(CertificateRejected) as caught:
            Trust(ca_file=path).context()
        assert caught.value.subject == str(path)
