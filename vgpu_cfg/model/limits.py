"""How long is waited for what answers, how much is taken of it, and how much is asked at once."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen

MIB = 1024 * 1024


class Limits(Frozen):
    """The limits of everything that comes in over the network.

    A whole exchange with vCenter may take `timeout_seconds`, beside what the request itself takes. A vCenter
    that has answered before is waited for `outage_seconds`. An answer, a download or what a command prints
    may have `answer_mib`, unpacked, and a reading or a list that comes in pages `answer_pages` of them. Of
    independent questions `in_flight` are on their way at once.
    """

    timeout_seconds: float = 60.0
    outage_seconds: float = 600.0
    answer_mib: int = 64
    answer_pages: int = 1000
    in_flight: int = 4

    @property
    def answer_bytes(self) -> int:
        """How many bytes an answer may have."""
        return self.answer_mib * MIB
