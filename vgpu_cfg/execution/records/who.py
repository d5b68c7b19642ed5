"""Who runs this, and on which machine, as far as the operating system tells."""

from __future__ import annotations

import getpass
import socket


def this_user() -> str:
    """Return the account on this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def this_machine() -> str:
    """Return the machine's name."""
    return socket.gethostname()
