"""A Transport that keeps, scrubbed, what another one answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.ports import Transport
from vgpu_cfg.recording.canonical import request_key
from vgpu_cfg.recording.file import Exchange, Recording
from vgpu_cfg.recording.scrub import Scrubber

_VERSION = re.compile(r"urn:vim25/([^\"]+)")


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
        """Return what has been kept so far."""
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
