"""How the values of `site` are written: proxies, hosts, certificates, and where mirrors are.

What stands here ends up in configuration files of apt, dnf, container runtimes and systemd, so that each is
held to signs that all of them carry as they are.
"""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from collections.abc import Callable
from urllib.parse import urlsplit

Check = Callable[[str], str]

_NAME = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_PORT = r"(:[0-9]{1,5})?"
PROXY_PATTERN = rf"https?://({_NAME}|\[[0-9a-fA-F:]+\]){_PORT}/?"
REGISTRY_MIRROR_PATTERN = PROXY_PATTERN
PACKAGE_SOURCE_PATTERN = r"https?://[A-Za-z0-9._~:/%$-]+"
"""With yum variables, such as $releasever."""
SITE_HOST_PATTERN = rf"(\*?\.)?{_NAME}"
DIRECT_PATTERN = rf"(\.?{_NAME}|[0-9a-fA-F:.]+/[0-9]{{1,3}}|\[?[0-9a-fA-F:]+\]?|\*){_PORT}"
SUITE_PATTERN = r"[a-z][a-z0-9.-]{0,62}"
COMPONENT_PATTERN = r"[a-z][a-z0-9.-]{0,62}"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_COLUMNS = 64


def _matching(pattern: str, text: str, what: str, hint: str) -> str:
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text!r} {what}\n{hint}")
    return text


def check_proxy(text: str) -> str:
    """Return a proxy's address; a login stands beside it, so that it is never shown."""
    if "@" in text:
        raise ValueError(
            "a proxy's login does not stand in its address\nwrite `user` and `password` beside it"
        )
    what = "is not the address of a proxy"
    return _matching(PROXY_PATTERN, text, what, "as in http://proxy.example.com:3128").rstrip("/")


def check_registry_mirror(text: str) -> str:
    """Return a registry mirror's address; docker takes a host and a port, and no path behind it."""
    hint = "write its host and port alone, as in https://mirror.example.com:5000"
    return _matching(REGISTRY_MIRROR_PATTERN, text, "is not the address of a registry mirror", hint).rstrip(
        "/"
    )


def check_package_source(text: str) -> str:
    """Return a base URL of dnf, in which yum's variables may stand."""
    hint = "as in https://mirror.example.com/rocky/$releasever/BaseOS/$basearch/os"
    return _matching(PACKAGE_SOURCE_PATTERN, text, "is not the address of a package source", hint).rstrip("/")


def check_site_host(text: str) -> str:
    """Return a host of the site: a name, or a domain with a dot before it for all names below it."""
    hint = "as in repo.example.com, or .example.com for every name below it"
    found = _matching(SITE_HOST_PATTERN, text, "is not the name of a host", hint)
    return found.removeprefix("*").casefold()


def check_direct(text: str) -> str:
    """Return what is reached without the proxy: a name, .domain, address, network or *."""
    hint = "as in .example.com, 10.0.0.0/8 or repo.example.com"
    return _matching(DIRECT_PATTERN, text, "cannot stand in no_proxy", hint)


def check_suite(text: str) -> str:
    """Return a suite of an apt archive."""
    return _matching(SUITE_PATTERN, text, "is no suite of an apt archive", "as in noble-updates")


def check_component(text: str) -> str:
    """Return a component of an apt archive."""
    return _matching(COMPONENT_PATTERN, text, "is no component of an apt archive", "as in main")


def parse_certificates(text: str) -> tuple[str, ...]:
    """Return the certificates of a PEM file, each in lines of 64 signs.

    Raises ValueError for anything else, above all for a private key; nothing of it is repeated.
    """
    if "PRIVATE KEY" in text:
        raise ValueError("the file holds a private key\nname the one with the CA's certificate alone")
    found: list[str] = []
    for part in text.split(_BEGIN)[1:]:
        body, end, _ = part.partition(_END)
        try:
            content = base64.b64decode("".join(body.split()), validate=True) if end else b""
        except (binascii.Error, ValueError):
            content = b""
        # DER of a certificate is a SEQUENCE with a length of more than one byte.
        if content[:1] != b"\x30" or len(content) < 200:
            raise ValueError("the file has a certificate that cannot be read\nopenssl x509 -in FILE says why")
        lines = textwrap.wrap(base64.b64encode(content).decode(), _COLUMNS)
        found.append("\n".join([_BEGIN, *lines, _END, ""]))
    if not found:
        raise ValueError(
            "the file holds no certificate in PEM\nopenssl x509 -inform der -in FILE makes it so"
        )
    return tuple(dict.fromkeys(found))


def host_of(url: str) -> str:
    """Return the host that an address leads to, in lower case, "" where it leads nowhere."""
    try:
        return (urlsplit(url).hostname or "").casefold()
    except ValueError:
        return ""
