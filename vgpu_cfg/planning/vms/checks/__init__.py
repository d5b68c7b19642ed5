"""What can be said against a VM of the plan: its settings, GPUs, NICs and place."""

from __future__ import annotations
