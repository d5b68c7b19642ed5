"""What is taken out of a recorded answer, found by parsing it: session keys, tickets, passwords.

The bytes around them stay as the server sent them, prefixes and all, so that an answer
plays back as it was. Ids that belong to a session are replaced by plain ones, the same
wherever they come again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

SCRUBBED = "scrubbed"
SESSION_ID = "session["

_SECRET_ELEMENTS = frozenset(
    {"password", "passwd", "ticket", "sessionTicket", "cloneTicket", "samlToken", "licenseKey"}
)
_LOGIN_ELEMENTS = frozenset({"key", "userName", "fullName", "ipAddress", "userAgent"})
_SECRET_KEYS = re.compile(
    r"^guestinfo\.(?!vgpu_cfg\.report$)|^machine\.id$|vnc\.key|passw|secret|token|ticket|credential",
    re.IGNORECASE,
)
"""extraConfig keys whose value may be a secret: user data, old VNC keys, whatever is named like one.

What a guest reports of its staging holds none.
"""

_BLANK = frozenset({"", "---"})
"""Values that tell only that there is nothing: cloud-init leaves the second where it has redacted one."""


@dataclass(slots=True)
class _Open:
    """An element that is being read; `inner` is the byte where its content begins."""

    name: str
    inner: int | None = None
    text: list[str] = field(default_factory=list)
    option_key: str = ""


class Scrubber:
    """Scrubs the exchanges of one session; remembers which ids it has replaced."""

    def __init__(self) -> None:
        self._plain: dict[str, str] = {}

    def request(self, body: bytes) -> bytes:
        """Return a request with the session's ids replaced, as a player will send it."""
        return self._spliced(body, is_login=False)

    def answer(self, body: bytes, call: str) -> bytes:
        """Return an answer to a call without its secrets."""
        return self._spliced(body, is_login=call.endswith(".Login"))

    def _plain_id(self, text: str) -> str:
        return self._plain.setdefault(text, f"session-object-{len(self._plain) + 1}")

    def _spliced(self, body: bytes, *, is_login: bool) -> bytes:
        edits = self._edits(body, is_login=is_login)
        pieces = []
        at = 0
        for start, end, text in edits:
            pieces += [body[at:start], text.encode()]
            at = end
        return b"".join([*pieces, body[at:]])

    def _edits(self, body: bytes, *, is_login: bool) -> list[tuple[int, int, str]]:
        """List the stretches of bytes to replace, in order, none inside another."""
        edits: list[tuple[int, int, str]] = []
        opened: list[_Open] = []
        parser = expat.ParserCreate()

        def begin_content() -> None:
            if opened and opened[-1].inner is None:
                opened[-1].inner = parser.CurrentByteIndex

        def start(name: str, _attributes: dict[str, str]) -> None:
            begin_content()
            opened.append(_Open(name.rpartition(":")[2]))

        def text(data: str) -> None:
            begin_content()
            opened[-1].text.append(data)

        def end(_name: str) -> None:
            done = opened.pop()
            content = "".join(done.text).strip()
            if opened and done.name == "key":
                opened[-1].option_key = content
            if done.inner is None:
                return
            parent_key = opened[-1].option_key if opened else ""
            if content.startswith(SESSION_ID):
                instead = self._plain_id(content)
            elif content not in _BLANK and _is_secret(done.name, parent_key, is_login=is_login):
                instead = SCRUBBED
            else:
                return
            while edits and edits[-1][0] >= done.inner:
                edits.pop()
            edits.append((done.inner, parser.CurrentByteIndex, instead))

        parser.StartElementHandler = start
        parser.CharacterDataHandler = text
        parser.EndElementHandler = end
        try:
            parser.Parse(body, True)
        except expat.ExpatError as error:
            raise ValueError(f"this is no XML, so nothing in it can be scrubbed: {error}") from error
        return edits


def _is_secret(name: str, parent_key: str, *, is_login: bool) -> bool:
    if name in _SECRET_ELEMENTS or (is_login and name in _LOGIN_ELEMENTS):
        return True
    return name == "value" and bool(_SECRET_KEYS.search(parent_key))
