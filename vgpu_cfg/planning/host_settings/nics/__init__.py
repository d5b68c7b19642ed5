"""The settings of a host's NICs and of the networks that it reaches through them."""

from __future__ import annotations
