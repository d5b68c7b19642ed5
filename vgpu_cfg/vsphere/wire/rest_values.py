"""What an answer of the REST side must be to be read: lists, mappings, texts, and ids that are few enough."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.errors import TooMuch, VCenterError

MOST_ASKED = 1000
"""So many ids are asked about, each by a round trip of its own."""


def ids_of(answer: Any, what: str, address: str) -> list[str]:
    """Return ids in order. Raises TooMuch where they are more than anybody asks about one by one."""
    ids = sorted(str(one) for one in list_of(answer, what, address))
    if len(ids) > MOST_ASKED:
        raise TooMuch(
            f"{what}: there are {len(ids)}, and at most {MOST_ASKED} are asked about",
            subject=address,
            remedy="name what has fewer of them in the plan file",
        )
    return ids


def list_of(value: Any, what: str, address: str) -> list[Any]:
    """Return a list; a server leaves an empty one out."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise unreadable(what, address)
    return value


def mapping_of(value: Any, what: str, address: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unreadable(what, address)
    return value


def text_of(value: Any, key: str, what: str, address: str) -> str:
    found = mapping_of(value, what, address).get(key)
    if not isinstance(found, str):
        raise unreadable(what, address)
    return found


def unreadable(what: str, address: str) -> VCenterError:
    return VCenterError(
        f"{what}: the answer cannot be read",
        subject=address,
        remedy="see what it is that answers there",
    )
