"""Possible objections to a VM of the plan: its settings, GPUs, NICs and place."""

from __future__ import annotations
