"""The settings of a host's GPUs and of their driver."""

from __future__ import annotations
