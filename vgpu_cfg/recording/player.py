"""A Transport that answers from a recording, and says which answer it lacks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from vgpu_cfg.errors import NotRecorded
from vgpu_cfg.recording.canonical import request_key
from vgpu_cfg.recording.file import Recording

_ROOTS = "ServiceInstance.RetrieveServiceContent"
_NEWEST = re.compile(b"(?<=<apiVersion>)[^<]*")


class PlayingTransport:
    """Answers each request with what was recorded for it; where that was more than once, in that order.

    The last answer to a request is given again and again. It is a Clock too, stopped at the
    moment of the recording. The server speaks no newer API version than was recorded, so that a newer client
    asks what was asked then.
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
        """Return when the recording was made: a reader's clock, so that a reading is as old as it is."""
        return self.recording.recorded_at

    def close(self) -> None:
        """Nothing to close."""
