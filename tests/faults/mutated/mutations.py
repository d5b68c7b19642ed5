"""How a file is broken: bytes, lines and tokens of any file, values of one that has a structure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.errors import DocumentError

TOKENS = [
    "\0", "\x1b[2J", "\u009b31m", "\u202e", "\u2028", "\u0085", "\ufeff", "\uffff", "\\ud800", '"\\ud800"',
    '"\\0"', "\t", "\n", "\r", ": ", "- ", "? ", "# ", "'", '"', "`", "|", ">", "%", "@", "!", "!!str ",
    "!!python/object:os.system ", "&a ", "*a", "&a [*a]", "<<: *a\n", "<<: [*a, *a]\n", "{", "}", "[", "]",
    "[" * 300, "{a: " * 200, "---\n", "...\n", "${x}", "${", "$${", "{n}", "{i}", "{k}", "{1..3}", "{3..1}",
    "{1..999999999}", "{01..99999}", "{a..b}", "0", "-1", "1e999", ".inf", ".nan", "9" * 30, "9" * 5000,
    "0x" + "f" * 40, "0.1", "~", "null", "true", "off", "2027-02-30", "x" * 5000, " " * 3000, "\n" * 2000,
    "é" * 500, "../../etc/passwd", "/dev/zero", "/", "", "*", "**", "[a-", "key: value\n" * 300,
]  # fmt: skip
VALUES: Sequence[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, 1e308, float("inf"), "", " ", "x", "x" * 3000,
    "\0", "\ud800", "\u202e", "a\nb", [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": 1}}}, ["x"] * 500,
    "{1..9999999}", "${x}", "{k}", "lab:two-a100", "10.0.0.0/8", "../x", "0000:3b:00.0", "999999TiB",
    "-5GiB", "*", "env:", "command:false", "1970-01-01",
]  # fmt: skip


def mutated(content: bytes, others: Sequence[bytes], luck: random.Random) -> bytes:
    """Return a file broken in one to four ways."""
    for _ in range(luck.choice((1, 1, 2, 4))):
        content = luck.choice(_WAYS)(content, others, luck)
    return content


def _a_byte(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    at = luck.randrange(len(content) + 1)
    return content[:at] + bytes([luck.randrange(256)]) + content[at + luck.randrange(2) :]


def _a_token(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    at = luck.randrange(len(content) + 1)
    return content[:at] + luck.choice(TOKENS).encode() + content[at + luck.choice((0, 0, 1, 9)) :]


def _less(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    first = luck.randrange(len(content) + 1)
    return content[:first] + content[first + luck.choice((1, 10, 100, len(content))) :]


def _twice(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    at = luck.randrange(len(lines))
    some = lines[at : at + luck.choice((1, 1, 3, 10))] * luck.choice((1, 2, 50))
    return b"".join(lines[:at] + some + lines[at:])[: len(content) + 100_000]


def _another_order(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    first, second = luck.randrange(len(lines) + 1), luck.randrange(len(lines) + 1)
    return b"".join(lines[first:second] + lines[:first] + lines[second:])


def _part_of_another(content: bytes, others: Sequence[bytes], luck: random.Random) -> bytes:
    other = luck.choice(others)
    start, at = luck.randrange(len(other) + 1), luck.randrange(len(content) + 1)
    return content[:at] + other[start : start + luck.choice((5, 50, 500))] + content[at:]


def _a_value(content: bytes, _others: Sequence[bytes], luck: random.Random) -> bytes:
    """Put another value, or another key, at a place of a file that can still be read."""
    try:
        text = content.decode()
        is_json = text.lstrip().startswith("{")
        data = json.loads(text) if is_json else dict(parse_text(text, "x").data)
    except (ValueError, DocumentError, RecursionError):
        return _a_token(content, _others, luck)
    places = list(_places(data))
    data = _put(data, luck.choice(places), luck) if places else luck.choice(VALUES)
    try:
        return json.dumps(data, ensure_ascii=is_json or luck.random() < 0.5).encode("utf-8", "surrogatepass")
    except UnicodeEncodeError:
        return dump(data).encode("utf-8", "surrogatepass")


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*place, key)
        yield from _places(one, (*place, key))


def _put(value: Any, place: tuple[Any, ...], luck: random.Random) -> Any:
    copied = dict(value) if isinstance(value, dict) else list(value)
    key = place[0]
    if len(place) > 1:
        copied[key] = _put(value[key], place[1:], luck)
    elif isinstance(copied[key], str) and copied[key] and luck.random() < 0.5:
        broken = luck.choice(_OF_TEXT)(copied[key].encode("utf-8", "surrogatepass"), [b"x"], luck)
        copied[key] = broken.decode("utf-8", "surrogateescape")
    elif isinstance(copied, dict) and luck.random() < 0.2:
        copied[str(luck.choice(VALUES))] = copied.pop(key)
    elif luck.random() < 0.2:
        copied.pop(key)
    else:
        copied[key] = luck.choice(VALUES)
    return copied


_Way = Callable[[bytes, Sequence[bytes], random.Random], bytes]
_OF_TEXT: Sequence[_Way] = (_a_byte, _a_token, _less, _twice)
_WAYS: Sequence[_Way] = (*_OF_TEXT, _another_order, _part_of_another, _a_value, _a_value, _a_value)
