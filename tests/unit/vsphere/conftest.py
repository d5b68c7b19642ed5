"""Each error of these tests, and each request to a scripted vCenter, as stored texts.

`transcripts.txt` has a section for each test; REWRITE_TRANSCRIPTS=1 writes it anew. A test without a section
is not compared, so write one for a new test. Long ones have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sections import has_section, is_rewriting, section
from tests.unit.vsphere.scripted import Scripted
from vgpu_cfg.errors import VgpuCfgError

FILE = Path(__file__).with_name("transcripts.txt")
LONGEST = 3000
VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|127\.0\.0\.1:\d+|port \d{4,5}|_ssl\.c:\d+")
INSIDE = re.compile(r"<(?:\w+:)?Body>(.*)</(?:\w+:)?Body>", re.DOTALL)
NAMESPACES = re.compile(r' xmlns(:\w+)?="[^"]*"| xsi:type="xsd:\w+"')


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compare the errors and requests of a test with its section."""
    said: dict[str, None] = {}
    make, exchange = VgpuCfgError.__init__, Scripted.exchange

    def made(error: VgpuCfgError, *args: Any, **fields: Any) -> None:
        make(error, *args, **fields)
        said[f"{type(error).__name__}: {error.message} | {error.subject} | {error.remedy}"] = None

    def exchanged(script: Scripted, *args: Any) -> Any:
        before = len(script.calls)
        try:
            return exchange(script, *args)
        finally:
            said.update((request_text(body), None) for _, body in script.calls[before:])

    monkeypatch.setattr(VgpuCfgError, "__init__", made)
    monkeypatch.setattr(Scripted, "exchange", exchanged)
    yield
    name = request.node.nodeid.removeprefix("tests/unit/vsphere/")
    text = VARYING.sub("VARYING", "\n".join(said)).replace(str(tmp_path), "TMP").strip()
    if (is_rewriting() and 0 < len(text) < LONGEST and "VARYING" not in name) or has_section(FILE, name):
        assert text == section(FILE, name, text)


def request_text(body: str) -> str:
    """Return a request without its envelope, an element a word."""
    found = INSIDE.search(body)
    return NAMESPACES.sub("", found[1] if found else body).strip()
