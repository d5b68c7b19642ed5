"""The method that a SOAP request calls, read from its bytes, whichever code made it."""

from __future__ import annotations

import re

_METHOD = re.compile(rb"<(?:\w+:)?Body>\s*<(?:\w+:)?(\w+)[\s>/]")
_ESXCLI = re.compile(rb"<(?:\w+:)?method[^>]*>\s*(vim\.EsxCLI\.[\w.]+)\s*<")


def called(body: bytes) -> str:
    """Return the method, or the command of esxcli that it runs on a host (`vim.EsxCLI.…`); "" if not SOAP."""
    method = _METHOD.search(body)
    if method is None:
        return ""
    command = _ESXCLI.search(body) if method[1] == b"ExecuteSoap" else None
    return (command or method)[1].decode()
