"""Which API version comes out of a server's list."""

from __future__ import annotations

import pytest

from vgpu_cfg.errors import Unreachable, VersionTooOld
from vgpu_cfg.vsphere.wire import versions


def document(newest: str, *prior: str, name: str = "urn:vim25") -> bytes:
    older = "".join(f"<version>{version}</version>" for version in prior)
    return (
        '<?xml version="1.0" encoding="UTF-8"?><namespaces version="1.0"><namespace>'
        f"<name>{name}</name><version>{newest}</version><priorVersions>{older}</priorVersions>"
        "</namespace></namespaces>"
    ).encode()


@pytest.mark.parametrize(
    ("newest", "prior", "expected"),
    [
        ("8.0.3.0", (), "8.0.3.0"),
        ("8.0.3.0", ("8.0.2.0", "6.5"), "8.0.3.0"),
        ("9.9.0.0", ("8.0.3.0", "8.0.2.0"), "8.0.3.0"),
        ("8.0.3", ("8.0.2.0", "6.5"), "8.0.2.0"),
        ("6.5", ("6.0",), "6.5"),
        ("m5CA1EF4D", ("9.1.0.0",), "9.1.0.1"),
    ],
    ids=["exact", "newest of several", "newer than known", "a spelling that counts not", "old", "coded"],
)
def test_the_newest_version_that_both_speak_is_taken(
    newest: str, prior: tuple[str, ...], expected: str
) -> None:
    assert versions.dotted(versions.negotiate(document(newest, *prior), "vc01")) == expected


def test_a_server_older_than_supported_is_refused() -> None:
    with pytest.raises(VersionTooOld, match=r"6\.5"):
        versions.negotiate(document("6.0", "5.5"), "vc01")


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"<html></html>", document("8.0.3.0", name="urn:pbm")],
    ids=["empty", "broken", "a web page", "another service"],
)
def test_what_is_no_list_of_versions_is_no_vcenter(answer: bytes) -> None:
    with pytest.raises(Unreachable) as caught:
        versions.negotiate(answer, "vc01")
    assert caught.value.subject == "vc01"


@pytest.mark.parametrize(
    ("have", "wanted", "expected"),
    [
        ("8.0.3.0", "8.0.3.0", True),
        ("8.0.3.0", "8.0.3", True),
        ("8.0", "8.0.0.0", True),
        ("8.0.2.0", "8.0.3.0", False),
        ("9.0.0.0", "8.0.3.0", True),
        ("6.5", "7.0.3.0", False),
        ("10.0.0.0", "9.1.1.0", True),
    ],
)
def test_versions_are_compared_as_numbers(have: str, wanted: str, *, expected: bool) -> None:
    assert versions.is_at_least(have, wanted) is expected
