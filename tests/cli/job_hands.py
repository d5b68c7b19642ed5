"""What other people and time do to the estate of a job between two commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

HANDS: Mapping[str, Callable[..., None]] = {}
