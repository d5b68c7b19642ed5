"""No recorded vCenter tells how to get into one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from vcr.cassette import Cassette

from tests.recorded.make import PASSWORD

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples/site-repository/vcenter.json.gz"
FILES = [*sorted([*HERE.glob("recordings/*"), *HERE.glob("cassettes/*")]), EXAMPLE]
_CASSETTE: Any = Cassette  # vcrpy has no type information
LARGEST = 300_000
SECRET_ELEMENTS = {"password", "ticket", "sessionId", "token", "vnc", "cookie"}
COOKIE_HEADERS = {"cookie", "set-cookie", "authorization"}


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def messages_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each recorded body with the headers around it."""
    if path.suffix == ".gz":
        for exchange in json.loads(text_of(path))["exchanges"]:
            assert set(exchange) == {"call", "key", "status", "answer"}
            yield exchange["answer"], {}
        return
    for request, response in _CASSETTE.load(path=str(path)).data:
        yield (request.body or b"").decode(), request.headers
        yield response["body"]["string"].decode(), response["headers"]


def elements_of(body: str) -> Iterator[tuple[str, str]]:
    for element in ET.fromstring(body).iter() if body else ():  # noqa: S314 - these files are our own
        yield element.tag.rpartition("}")[2], (element.text or "").strip()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_holds_no_password_no_cookie_and_no_ticket(path: Path) -> None:
    assert PASSWORD not in text_of(path)
    assert "vmware_soap_session" not in text_of(path)
    for body, headers in messages_of(path):
        assert COOKIE_HEADERS.isdisjoint(name.lower() for name in headers)
        elements = list(elements_of(body))
        for name, text in elements:
            assert not (name.lower() in SECRET_ELEMENTS and text not in ("", "scrubbed")), name
            assert not text.startswith("session[")
        if "LoginResponse" in body:
            assert {text for name, text in elements if name == "key"} == {"scrubbed"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST


def test_there_are_some() -> None:
    assert len(FILES) >= 10
