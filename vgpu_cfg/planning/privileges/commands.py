"""Which commands privileges are told of. It loads nothing, so that --help is quick."""

from __future__ import annotations

from enum import StrEnum


class Command(StrEnum):
    """A command, or several that need the same."""

    READ = "read"
    APPLY = "apply"
    VERIFY = "verify"
    DESTROY = "destroy"
    IMPORT = "import"
    FORGET = "forget"
    CORDON = "cordon"
    DRAIN = "drain"
    UNCORDON = "uncordon"
