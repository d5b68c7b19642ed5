"""Plans, reports of their runs, and the effects of each kind of change on other objects."""

from __future__ import annotations
