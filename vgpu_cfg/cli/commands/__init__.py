"""The commands: a module per command or family of commands, with its options and its help."""

from __future__ import annotations
