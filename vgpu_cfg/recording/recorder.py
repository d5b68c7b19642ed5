"""Recording and playing: a Transport that keeps answers without secrets, and one that answers from them.

Secrets (session keys, tickets, passwords) are removed from a recorded answer by parsing it. Ids that belong
to a session are replaced by plain ones, the same wherever they come again. The Transport that answers from a
recording reports which answer it lacks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from vgpu_cfg.errors import NotRecorded, VCenterError
from vgpu_cfg.ports import Transport
from vgpu_cfg.recording.file import LATER_PATHS, Exchange, Recording, request_key

_VERSION = re.compile(r"urn:vim25/([^\"]+)")

SCRUBBED = "scrubbed"
SESSION_ID = "session["

_SECRET_ELEMENTS = frozenset(
    {"password", "passwd", "ticket", "sessionTicket", "cloneTicket", "samlToken", "licenseKey"}
)
_LOGIN_ELEMENTS = frozenset({"key", "userName", "fullName", "ipAddress", "userAgent"})
_SECRET_KEYS = re.compile(
    r"^guestinfo\.(?!vgpu_cfg\.(report|driver)$)|^machine\.id$|vnc\.key|passw|secret|token|ticket|credential",
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

    def __init__(self, inner: Transport, address: str, scrubber: Scrubber | None = None) -> None:
        self._inner = inner
        self._address = address
        self._scrubber = scrubber or Scrubber()
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
                f"a response cannot be recorded: {error}",
                subject=self._address,
                remedy="make sure that the address belongs to a vCenter",
            ) from error
        kept = Exchange(call=call, key=key, status=status, answer=clean)
        # The same answer twice in a row says nothing more; a player repeats the last one anyway.
        last = next((earlier for earlier in reversed(self._exchanges) if earlier.key == key), None)
        if last != kept:
            self._exchanges.append(kept)


@dataclass(slots=True)
class OpenElement:
    """An element that is being read. `begins` is where its content begins, `kind` its stated type.

    `refers_to` is the type of the object that it refers to. `label` is the key of an option, or the path of a
    property, as far as it was read.
    """

    name: str
    begins: int
    kind: str = ""
    refers_to: str = ""
    label: str = ""
    text: list[str] = field(default_factory=list)


_InsteadOf = Callable[[OpenElement, OpenElement, str], str | None]
"""Returns the content to put in place of that of an element with its parent, None to keep it."""


class Scrubber:
    """Scrubs the exchanges of one session; remembers which ids it has replaced."""

    def __init__(self) -> None:
        self._plain: dict[str, str] = {}
        self._is_login = False

    def request(self, body: bytes) -> bytes:
        """Return a request with the session's ids replaced, as a player will send it."""
        return self._rewritten(body, self._in_request)

    def answer(self, body: bytes, call: str) -> bytes:
        """Return an answer to a call without its secrets."""
        self._is_login = call.endswith(".Login")
        return self._rewritten(body, self._in_answer)

    def _in_request(self, _element: OpenElement, _parent: OpenElement, content: str) -> str | None:
        return self._plain_id(content) if content.startswith(SESSION_ID) else None

    def _in_answer(self, element: OpenElement, parent: OpenElement, content: str) -> str | None:
        instead = self._plain_id(content) if content.startswith(SESSION_ID) else None
        if instead is None and content not in _BLANK:
            is_secret = _is_secret(element.name, parent.label, is_login=self._is_login)
            return SCRUBBED if is_secret else None
        return instead

    def _plain_id(self, text: str) -> str:
        return self._plain.setdefault(text, f"session-object-{len(self._plain) + 1}")

    def _keeps_attribute(self, _name: str) -> bool:
        return True

    def _rewritten(self, body: bytes, instead_of: _InsteadOf) -> bytes:
        """Write XML anew, without comments. Raises ValueError for content that is not XML."""
        pieces: list[str] = []
        opened = [OpenElement("", 0)]
        parser = expat.ParserCreate()

        def start(name: str, attributes: dict[str, str]) -> None:
            kept = {key: quoteattr(one) for key, one in attributes.items() if self._keeps_attribute(key)}
            pieces.append(f"<{name}{''.join(f' {key}={one}' for key, one in kept.items())}>")
            kinds = [one.rpartition(":")[2] for key, one in attributes.items() if key.endswith(":type")]
            kind = kinds[0] if kinds else ""
            opened.append(OpenElement(name.rpartition(":")[2], len(pieces), kind, attributes.get("type", "")))

        def text(data: str) -> None:
            pieces.append(escape(data))
            opened[-1].text.append(data)

        def end(name: str) -> None:
            done, parent = opened.pop(), opened[-1]
            content = "".join(done.text).strip()
            if done.name == "key" or (done.name == "name" and parent.name == "propSet"):
                parent.label = content
            instead = instead_of(done, parent, content)
            if instead is not None:
                pieces[done.begins :] = [escape(instead)]
            pieces.append(f"</{name}>")

        parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, text, end
        try:
            parser.Parse(body, True)
        except expat.ExpatError as error:
            raise ValueError(f"this is not XML, so it cannot be scrubbed: {error}") from error
        return "".join(pieces).encode()


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
        if not answers and body:
            answers = self._answers.get(request_key(method, path, body, without=LATER_PATHS)[1])
        if not answers:
            raise NotRecorded(
                f"the recording contains no response to {call}",
                subject=self.recording.address,
                remedy="record this vCenter again with this version of vgpu-cfg; recordings are read-only",
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
