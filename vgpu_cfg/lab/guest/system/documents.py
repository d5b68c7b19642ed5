"""What documents that a guest is given (cloud-config, netplan) must be: mappings without unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BadDocumentError(Exception):
    """A document is none that the lab's guests know; the text says why."""


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a mapping. Raises BadDocumentError."""
    if not isinstance(value, dict):
        raise BadDocumentError(f"{where} is no mapping")
    return value


def check_keys(part: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Raise BadDocumentError for a key that is not known."""
    unknown = sorted(set(part) - known)
    if unknown:
        raise BadDocumentError(f"{where}: unknown key {unknown[0]!r}")
