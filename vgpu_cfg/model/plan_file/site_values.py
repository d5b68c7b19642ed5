"""The key `site`, for the guests' site, and its values: proxies, hosts, certificates, and mirrors.

These values end up in configuration files of apt, dnf, container runtimes and systemd, so each is
held to signs that all of them carry as they are.
"""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import Stated, TakesEffect, Text, Texts, key, mapping_or_text
from vgpu_cfg.model.plan_file.guest_entries import PackageEntry
from vgpu_cfg.model.plan_file.guest_values import RegistryUser, Url, check_registry
from vgpu_cfg.model.plan_file.host_values import NamedSecret, if_text, one_or_list

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

IN_GUEST = TakesEffect.IN_GUEST


def _matching(pattern: str, text: str, what: str, hint: str) -> str:
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text!r} {what}\n{hint}")
    return text


def check_proxy(text: str) -> str:
    """Return a proxy's address; a login is a separate key, so that it is never shown."""
    if "@" in text:
        raise ValueError("a proxy address must not contain a login\nuse `user` and `password` instead")
    what = "is not a valid proxy address"
    return _matching(PROXY_PATTERN, text, what, "example: http://proxy.example.com:3128").rstrip("/")


def check_registry_mirror(text: str) -> str:
    """Return a registry mirror's address; docker accepts a host and a port, but no path."""
    hint = "use only its host and port, for example https://mirror.example.com:5000"
    return _matching(REGISTRY_MIRROR_PATTERN, text, "is not a valid registry mirror address", hint).rstrip(
        "/"
    )


def check_package_source(text: str) -> str:
    """Return a base URL of dnf, which can contain yum's variables."""
    hint = "example: https://mirror.example.com/rocky/$releasever/BaseOS/$basearch/os"
    return _matching(PACKAGE_SOURCE_PATTERN, text, "is not a valid package source address", hint).rstrip("/")


def check_site_host(text: str) -> str:
    """Return a host of the site: a name, or a domain with a dot before it for all names below it."""
    hint = "example: repo.example.com, or .example.com for all names below it"
    found = _matching(SITE_HOST_PATTERN, text, "is not a valid host name", hint)
    return found.removeprefix("*").casefold()


def check_direct(text: str) -> str:
    """Return a destination that bypasses the proxy: a name, .domain, address, network or *."""
    hint = "example: .example.com, 10.0.0.0/8 or repo.example.com"
    return _matching(DIRECT_PATTERN, text, "is not allowed in no_proxy", hint)


def check_suite(text: str) -> str:
    """Return a suite of an apt archive."""
    return _matching(SUITE_PATTERN, text, "is not a valid suite of an apt archive", "example: noble-updates")


def check_component(text: str) -> str:
    """Return a component of an apt archive."""
    return _matching(COMPONENT_PATTERN, text, "is not a valid component of an apt archive", "example: main")


def parse_certificates(text: str) -> tuple[str, ...]:
    """Return the certificates of a PEM file, each in lines of 64 signs.

    Raises ValueError for anything else, above all for a private key; nothing of it is repeated.
    """
    if "PRIVATE KEY" in text:
        raise ValueError(
            "the file contains a private key\nspecify a file that contains only the CA's certificate"
        )
    found: list[str] = []
    for part in text.split(_BEGIN)[1:]:
        body, end, _ = part.partition(_END)
        try:
            content = base64.b64decode("".join(body.split()), validate=True) if end else b""
        except (binascii.Error, ValueError):
            content = b""
        # DER of a certificate is a SEQUENCE with a length of more than one byte.
        if content[:1] != b"\x30" or len(content) < 200:
            raise ValueError(
                "the file contains an unreadable certificate\nfor details, run openssl x509 -in FILE"
            )
        lines = textwrap.wrap(base64.b64encode(content).decode(), _COLUMNS)
        found.append("\n".join([_BEGIN, *lines, _END, ""]))
    if not found:
        raise ValueError(
            "the file contains no PEM certificate\nto convert it, run openssl x509 -inform der -in FILE"
        )
    return tuple(dict.fromkeys(found))


def host_of(url: str) -> str:
    """Return the host that an address leads to, in lower case, "" where it leads nowhere."""
    try:
        return (urlsplit(url).hostname or "").casefold()
    except ValueError:
        return ""


ProxyUrl = Annotated[
    str | None,
    BeforeValidator(
        if_text(check_proxy), json_schema_input_type=Annotated[str, Field(pattern=f"^({PROXY_PATTERN})?$")]
    ),
]


Direct = Annotated[
    tuple[Annotated[Text, AfterValidator(check_direct)], ...],
    one_or_list("a host or network", str, Text | list[Text]),
]
SiteHosts = Annotated[
    tuple[Annotated[Text, AfterValidator(check_site_host)], ...],
    one_or_list("a host", str, Text | list[Text]),
]
PackageSources = Annotated[
    tuple[Annotated[Text, AfterValidator(check_package_source)], ...],
    one_or_list("an address", str, Text | list[Text]),
]
Suites = Annotated[
    tuple[Annotated[Text, AfterValidator(check_suite)], ...], one_or_list("a suite", str, Text | list[Text])
]
Components = Annotated[
    tuple[Annotated[Text, AfterValidator(check_component)], ...],
    one_or_list("a component", str, Text | list[Text]),
]
RegistryMirrors = dict[
    Annotated[Text, AfterValidator(check_registry)],
    Annotated[
        str,
        AfterValidator(check_registry_mirror),
        Field(json_schema_extra={"pattern": f"^{REGISTRY_MIRROR_PATTERN}$"}),
    ],
]


class ProxyEntry(Frozen):
    """The proxy through which guests reach destinations outside the site."""

    http: ProxyUrl = key("The proxy for http:// addresses.", IN_GUEST, "none")
    https: ProxyUrl = key("The proxy for https:// addresses.", IN_GUEST, "the same as http")
    no_proxy: Direct = key(
        "Destinations that bypass the proxy: names, .domains, addresses, networks.",
        IN_GUEST,
        "the guest itself",
        value=tuple,
    )
    user: RegistryUser = key("The proxy user.", IN_GUEST, "no login")
    password: Stated[NamedSecret] = key("The secret with the user's password.", IN_GUEST)


class AptEntry(Frozen):
    """A mirror of the distribution's apt archive, which keeps the distribution's own signatures."""

    url: Url = key("The mirror's address.", IN_GUEST)
    security: Url = key(
        "The location of security updates, which Debian keeps in a separate archive.",
        IN_GUEST,
        "Ubuntu: the mirror itself; Debian: none",
    )
    suites: Suites = key(
        "The suites to use.",
        IN_GUEST,
        "the release's own suite and -updates; Ubuntu: also -security",
        value=tuple,
    )
    components: Components = key(
        "The components to use.",
        IN_GUEST,
        "Debian: main; Ubuntu: main, restricted, universe, multiverse",
        value=tuple,
    )


class SiteEntry(Frozen):
    """Sources of the software staged in the plan's guests, and the settings to reach them."""

    proxy: Stated[ProxyEntry] = key("The proxy: {http, https, no_proxy, user, password}.", IN_GUEST, "none")
    apt: Annotated[AptEntry | None, mapping_or_text("url", Text | AptEntry)] = key(
        "The mirror of the apt archive: its address, or a mapping.", IN_GUEST, "the template's sources"
    )
    dnf: PackageSources = key(
        "Base URLs of dnf's repositories, one or a list, with yum variables ($releasever, $basearch).",
        IN_GUEST,
        "the template's repositories",
        value=tuple,
    )
    registry_mirrors: RegistryMirrors = key(
        "Mirrors of container registries, by the registry in the image name.", IN_GUEST, "none", value=dict
    )
    ca: Texts = key(
        "PEM files with the site CA's certificates; paths are relative to the file that lists them.",
        IN_GUEST,
        "none",
        value=tuple,
    )
    toolkit_repository: Url = key(
        "The location of the NVIDIA Container Toolkit packages, for guests that do not specify one.",
        IN_GUEST,
        "NVIDIA's",
    )
    driver: Annotated[PackageEntry | None, mapping_or_text("package", Text | PackageEntry)] = key(
        "The guest driver package for training VMs without `driver`: an address, a path in the guest, or "
        "a mapping.",
        IN_GUEST,
        "the template's",
    )
    closed: bool = key("Whether staging is restricted to the site's hosts.", IN_GUEST, value=False)
    hosts: SiteHosts = key(
        "Additional site hosts; .example.com matches all names below it.",
        IN_GUEST,
        "none",
        value=tuple,
    )
