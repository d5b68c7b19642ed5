"""The table of host settings: how each is read, compared, written, verified and told."""

from __future__ import annotations
