"""A Transport that keeps, scrubbed, what another one answers.

Removal of secrets from a recorded answer, by parsing it: session keys, tickets, passwords.

The bytes around them stay as the server sent them, prefixes and all, so that an answer
plays back as it was. Ids that belong to a session are replaced by plain ones, the same
wherever they come again.

A Transport that answers from a recording, and says which answer it lacks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from xml.parsers import expat

from vgpu_cfg.errors import NotRecorded, VCenterError
from vgpu_cfg.ports import Transport
from vgpu_cfg.recording.file import Exchange, Recording, request_key

_VERSION = re.compile(r"urn:vim25/([^\"]+)")

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

A guest's staging report holds none.
"""

_BLANK = frozenset({"", "---"})
"""Values without content: cloud-init leaves the second in place of a redacted one."""

_ROOTS = "ServiceInstance.RetrieveServiceContent"
_NEWEST = re.compile(b"(?<=<apiVersion>)[^<]*")


class RecordingTransport:
    """Passes everything on to another Transport, and keeps each answer.

    Only what `recording` gives is kept: no header, no cookie and no request ever is.
    """

    def __init__(self, inner: Transport, address: str) -> None:
        self._inner = inner
        self._address = address
        self._scrubber = Scrubber()
        self._exchanges: list[Exchange] = []
        self._api_version = ""

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Pass a request on and keep its answer."""
        status, answer_headers, answer = self._inner.exchange(method, path, headers, body)
        found = _VERSION.search(headers.get("SOAPAction", ""))
        if found and body:
            self._api_version = found.group(1)
        if body and status in (HTTPStatus.OK, HTTPStatus.INTERNAL_SERVER_ERROR):
            self._keep(method, path, body, status, answer)
        return status, answer_headers, answer

    def close(self) -> None:
        """Close the other transport."""
        self._inner.close()

    def recording(self, recorded_at: datetime) -> Recording:
        """Return the answers kept so far."""
        return Recording(
            address=self._address,
            api_version=self._api_version,
            recorded_at=recorded_at,
            exchanges=tuple(self._exchanges),
        )

    def _keep(self, method: str, path: str, body: bytes, status: int, answer: bytes) -> None:
        try:
            call, key = request_key(method, path, self._scrubber.request(body))
            clean = self._scrubber.answer(answer, call).decode()
        except ValueError as error:
            raise VCenterError(
                f"an answer cannot be recorded: {error}",
                subject=self._address,
                remedy="check that the address is a vCenter's",
            ) from error
        kept = Exchange(call=call, key=key, status=status, answer=clean)
        # The same answer twice in a row says nothing more; a player repeats the last one anyway.
        last = next((earlier for earlier in reversed(self._exchanges) if earlier.key == key), None)
        if last != kept:
            self._exchanges.append(kept)


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


class PlayingTransport:
    """Answers each request with its recorded answer; several for one request come in their recorded order.

    The last answer to a request is given again and again. It is a Clock too, stopped at the moment of the
    recording. The server speaks no newer API version than was recorded, so that a newer client sends the same
    requests.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._answers: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for exchange in recording.exchanges:
            self._answers[exchange.key].append((exchange.status, exchange.answer.encode()))

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return the recorded answer. Raises NotRecorded where there is none."""
        del headers
        call, key = request_key(method, path, body)
        answers = self._answers.get(key)
        if not answers:
            raise NotRecorded(
                f"the recording holds no answer to {call}",
                subject=self.recording.address,
                remedy="record this vCenter again with this version of vgpu-cfg; "
                "a recording answers reads only, and changes nothing",
            )
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if call == _ROOTS:
            answer = _NEWEST.sub(lambda _: self.recording.api_version.encode(), answer)
        return status, {}, answer

    def now(self) -> datetime:
        """Return when the recording was made: a reader's clock, so that a reading has its true age."""
        return self.recording.recorded_at

    def close(self) -> None:
        """Nothing to close."""
