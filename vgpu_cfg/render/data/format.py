"""What every JSON document says of itself: its format, which counts up where a key is renamed."""

from __future__ import annotations

from typing import Any, TypeAlias

FORMAT = 1
Data: TypeAlias = dict[str, Any]
