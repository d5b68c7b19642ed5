"""Where estates are found: those that ship by their names, a user's own by their paths."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vgpu_cfg import documents
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.estates.estate import Estate

_SUFFIX = ".yaml"


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
            fault = DocumentFault(str(estate), 1, 1, f"there is no estate {str(estate)!r}", hint)
            raise DocumentError(
                [fault], remedy=f"name one of {', '.join(known)}, or the path of an estate file"
            )
        document = documents.read_document(path)
        text = documents.read_bytes(path, documents.MOST_FILE_BYTES).decode("utf-8")
        name = path.stem
    return EstateFile(name, document, documents.build(document, Estate), digest_of(text.encode()))


def digest_of(content: bytes) -> str:
    """Return the digest that a state carries of its estate's text."""
    return hashlib.sha256(content).hexdigest()[:16]
