"""The type of a display: it lays out lines for a width."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

Display = Callable[[int], list[Text]]
