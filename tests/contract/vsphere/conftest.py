"""What the lab's vCenter told in each of these tests, and each error, as stored texts.

`transcripts.txt` has a section for each test; REWRITE_TRANSCRIPTS=1 writes it anew. A test without a section
is not compared. Tests over HTTPS have none: OpenSSL's words differ by its version. `test_reading.py` compares
whole readings of estates.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.sections import has_section, is_rewriting, section
from tests.value_text import text_of
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.throw_away import VCenterThrowAway
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

FILE = Path(__file__).with_name("transcripts.txt")
LONGEST, LONGEST_LINE = 4000, 700
VARYING = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[T ][\d:.]+|127\.0\.0\.1:\d+|(?<=-)\d+"
    r"|([0-9A-Fa-f]{2}:){9,}[0-9A-Fa-f]{2}"
)
WHOLE = {"read_inventory", "read_part", "read_everything", "read_facts", "read_host", "read_hosts"}
WAITS = {"wait_for_tasks", "close"}


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compare what readers and writers of a test returned, and its errors, with its section."""
    name = request.node.nodeid.removeprefix("tests/contract/vsphere/")
    is_in_process = "vcsim" not in name and "https" not in name and "https_server" not in request.fixturenames
    if not is_in_process or not (is_rewriting() or has_section(FILE, name)):
        yield
        return
    said: list[str] = []
    errors: set[str] = set()
    make = VgpuCfgError.__init__

    def made(error: VgpuCfgError, *args: Any, **fields: Any) -> None:
        make(error, *args, **fields)
        errors.add(f"{type(error).__name__}: {error.message} | {error.subject} | {error.remedy}")

    monkeypatch.setattr(VgpuCfgError, "__init__", made)
    for kind in (VCenterReader, VCenterLocks, VCenterThrowAway, VCenterWriter):
        for method in [one for one in vars(kind) if one[0] != "_" and one not in WHOLE | WAITS]:
            if callable(getattr(kind, method)):
                monkeypatch.setattr(kind, method, noting(getattr(kind, method), said))
    yield
    text = VARYING.sub("*", "\n".join([*said, *sorted(errors)])).replace(str(tmp_path), "TMP").strip()
    if (is_rewriting() and 0 < len(text) < LONGEST) or has_section(FILE, name):
        assert text == section(FILE, name, text)


def noting(method: Callable[..., Any], said: list[str]) -> Callable[..., Any]:
    """Return a method that also notes what it returned, where only one thread asks."""

    @wraps(method)
    def noted(*args: Any, **named: Any) -> Any:
        found = method(*args, **named)
        if threading.current_thread() is threading.main_thread():
            line = f"{method.__name__}: {' '.join(text_of(found).split())}"
            said.append(VARYING.sub("*", line)[:LONGEST_LINE])
        return found

    return noted
