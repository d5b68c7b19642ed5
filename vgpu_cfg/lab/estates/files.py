"""The places of estates and their state: shipped estates by their names, a user's own by their paths.

Two estate files of one name have two folders of state.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vgpu_cfg import documents
from vgpu_cfg.documents import MOST_FILE_BYTES, make_private_folder, put_whole, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.estates.estate import Estate

_SUFFIX = ".yaml"

OWNER_FILE = "estate"
"""Names the estate file of a folder; those of built-in estates and of earlier releases have none."""
_DIGEST = re.compile(rb'"digest": "([0-9a-f]+)"')
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class EstateFile:
    """An estate, with the document it came from (for positions) and a digest of its text."""

    name: str
    document: documents.Document
    estate: Estate
    digest: str


def estate_names() -> tuple[str, ...]:
    """Return the names of the estates that ship with the lab, `fleet-…` apart."""
    folder = resources.files("vgpu_cfg.lab") / "estates"
    return tuple(
        sorted(item.name.removesuffix(_SUFFIX) for item in folder.iterdir() if item.name.endswith(_SUFFIX))
    )


def read_estate(estate: str | Path) -> EstateFile:
    """Read a shipped estate by its name, or an estate file by its path. Raises `DocumentError`."""
    if isinstance(estate, str) and estate in estate_names():
        text = (resources.files("vgpu_cfg.lab") / "estates" / (estate + _SUFFIX)).read_text(encoding="utf-8")
        document = documents.parse_text(text, estate + _SUFFIX)
        name = estate
    else:
        path = Path(estate)
        if not path.exists() and path.suffix not in (_SUFFIX, ".yml"):
            known = (*estate_names(), "fleet-<hosts>x<gpus>[+<hosts>][-<vms>vms]")
            hint = documents.did_you_mean(str(estate), estate_names())
            fault = DocumentFault(str(estate), 1, 1, f"no estate {str(estate)!r} found", hint)
            raise DocumentError(
                [fault], remedy=f"specify one of {', '.join(known)}, or the path of an estate file"
            )
        document = documents.read_document(path)
        text = documents.read_bytes(path, documents.MOST_FILE_BYTES).decode("utf-8")
        name = path.stem
    return EstateFile(name, document, documents.build(document, Estate), digest_of(text.encode()))


def digest_of(content: bytes) -> str:
    """Return the digest that a state carries of its estate's text."""
    return hashlib.sha256(content).hexdigest()[:16]


def place_of(estate: str, within: Path, state_file: str) -> Path:
    """Return the folder of an estate's `state_file`: of its name, with a suffix if another estate has that.

    Without an owner a folder belongs to the file whose digest its state carries. So copies of one estate
    file share the state that an earlier release kept of them.
    """
    plain = within / Path(estate).stem
    owner = _owner(plain)
    if estate in estate_names() or not Path(estate).is_file():
        return plain.with_name(f"{plain.name}-builtin") if owner and estate in estate_names() else plain
    path = Path(estate).resolve()
    kept = _digest_in(plain / state_file)
    if owner == os.fsencode(path) or not kept or kept == _digest(path):
        return plain
    suffix = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    return plain.with_name(f"{plain.name}-{suffix}")


def own(estate: str, folder: Path) -> None:
    """Note which estate file a folder belongs to, unless that is known."""
    if estate not in estate_names() and Path(estate).is_file() and not _owner(folder):
        path = os.fsencode(Path(estate).resolve())
        with suppress(OSError):  # opening the lab says why nothing can be written there
            make_private_folder(folder)
            put_whole(folder / OWNER_FILE, path, lambda draft: draft.replace(folder / OWNER_FILE))


def _owner(folder: Path) -> bytes:
    try:
        return read_bytes(folder / OWNER_FILE, MOST_FILE_BYTES)
    except OSError:
        return b""


def _digest(path: Path) -> str:
    try:
        return digest_of(read_bytes(path, MOST_FILE_BYTES))
    except OSError:
        return ""


def _digest_in(state: Path) -> str:
    """Return the digest that a state carries of its estate, "" without a state."""
    try:
        with state.open("rb") as file:
            found = _DIGEST.search(file.read(_HEAD_BYTES))
    except OSError:
        return ""
    return found[1].decode() if found else ""
