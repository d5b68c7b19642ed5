"""Common header of every JSON document: its format, which counts up if a key is renamed."""

from __future__ import annotations

from typing import Any, TypeAlias

FORMAT = 1
Data: TypeAlias = dict[str, Any]
