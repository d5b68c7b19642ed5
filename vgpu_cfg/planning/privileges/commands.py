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

    @property
    def reads_host_facts(self) -> bool:
        """Whether it reads what the hosts tell that the plan prepares; what is destroyed is VMs."""
        return self is not Command.DESTROY
