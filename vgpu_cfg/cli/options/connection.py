"""The options that name a vCenter and an account: every command that uses a vCenter has them.

The help of all commands lists them once, that of a command does not. This module loads nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer


def _hidden(name: str, purpose: str, **more: Any) -> Any:
    return typer.Option(name, help=purpose, show_default=False, hidden=True, **more)


CONNECTION_OPTIONS: dict[str, Any] = {
    "server": Annotated[str | None, _hidden("--server", "vCenter address, or lab:ESTATE.")],
    "context": Annotated[str | None, _hidden("--context", "Named context from the config file.")],
    "user": Annotated[str | None, _hidden("--user", "Account.")],
    "password_file": Annotated[
        str | None, _hidden("--password-file", "File with the password; - for stdin.")
    ],
    "token_file": Annotated[
        str | None, _hidden("--token-file", "File with a single sign-on token; - for stdin.")
    ],
    "datacenter": Annotated[str | None, _hidden("--datacenter", "The vCenter datacenter to use.")],
    "ca_file": Annotated[Path | None, _hidden("--ca-file", "PEM file of the CA to trust.")],
    "thumbprint": Annotated[str | None, _hidden("--thumbprint", "Trust only this certificate (SHA-256).")],
    "insecure": Annotated[bool, _hidden("--insecure", "Do not verify the certificate.")],
    "timeout_seconds": Annotated[
        float | None, _hidden("--timeout", "Timeout for each request, in seconds.", min=1)
    ],
    "log_calls": Annotated[
        Path | None,
        _hidden(
            "--log-calls",
            "Append a line to this file for every request, and for every command on hosts and in guests.",
            metavar="FILE",
        ),
    ],
}
CONTEXTS_OPTION = Annotated[
    list[str] | None,
    _hidden(
        "--context",
        "Named context from the config file; results of several contexts, or a glob, are combined.",
    ),
]
SERVERS_OPTION = Annotated[
    list[str] | None,
    _hidden("--server", "vCenter address, or lab:ESTATE; results of several are combined."),
]
FROM_OPTION = Annotated[
    Path | None, _hidden("--from", "Work offline with a recording; for commands that only read.")
]


def connection_rows() -> list[tuple[str, ...]]:
    """Return the connection options with their purposes, for the help of all commands."""
    options = [get_args(option)[1] for option in (*CONNECTION_OPTIONS.values(), FROM_OPTION)]
    return [(option.default, option.help) for option in options]  # Typer keeps the first name there
