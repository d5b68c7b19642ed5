"""Keys that a later release brings: each is refused by its name, and taken out of the data.

What is taken out is complained of once; the rest of the file is checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vgpu_cfg.documents import Document, Loc
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.plan_file import NOT_YET_KEYS

_REPORTED_AS_VMS = {"defaults": "vms"}
_EXCEPT = "vms.except"
_STANDS_IN = {"vms.template": "-"}
"""A template of which nothing is left would be complained of once more, as missing."""


def without_unsupported(document: Document, faults: list[DocumentFault]) -> Document:
    """Return the document without the keys of `NOT_YET_KEYS`, each of them a fault."""
    return replace(document, data=_kept(document, document.data, (), "", faults))


def _kept(document: Document, value: Any, loc: Loc, path: str, faults: list[DocumentFault]) -> Any:
    match value:
        case Mapping():
            result: dict[str, Any] = {}
            for key, inner in value.items():
                here = _path_of(path, key)
                area = NOT_YET_KEYS.get(here)
                if area is not None:
                    faults.append(_refusal(document, (*loc, key), key, area))
                    continue
                kept = _kept(document, inner, (*loc, key), here, faults)
                result[key] = _STANDS_IN.get(here, kept) if inner and not kept else kept
            return result
        case list():
            return [_kept(document, inner, (*loc, index), path, faults) for index, inner in enumerate(value)]
        case _:
            return value


def _path_of(path: str, key: str) -> str:
    """Extend a dotted path; a member's name under `except` leads to the keys of a VM again."""
    if path == _EXCEPT:
        return "vms"
    if not path:
        return _REPORTED_AS_VMS.get(key, key)
    return f"{path}.{key}"


def _refusal(document: Document, loc: Loc, key: str, area: str) -> DocumentFault:
    message = f"`{key}` is not supported by this release ({area})"
    return document.fault(loc, message, "remove it", at_key=True)
