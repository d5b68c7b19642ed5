"""What `site` says of the place where the guests are: proxy, mirrors, certificates, and its bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import Stated, TakesEffect, Text, Texts, key, mapping_or_text
from vgpu_cfg.model.plan_file.guest_entries import PackageEntry
from vgpu_cfg.model.plan_file.guest_fields import RegistryUser, Url
from vgpu_cfg.model.plan_file.guest_values import check_registry
from vgpu_cfg.model.plan_file.host_fields import NamedSecret, if_text, one_or_list
from vgpu_cfg.model.plan_file.site_values import (
    PROXY_PATTERN,
    REGISTRY_MIRROR_PATTERN,
    check_component,
    check_direct,
    check_package_source,
    check_proxy,
    check_registry_mirror,
    check_site_host,
    check_suite,
)

IN_GUEST = TakesEffect.IN_GUEST

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
    tuple[Annotated[Text, AfterValidator(check_suite)], ...],
    one_or_list("a suite", str, Text | list[Text]),
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
    """The proxy by which guests reach what is not of the site."""

    http: ProxyUrl = key("The proxy for http:// addresses.", IN_GUEST, "none")
    https: ProxyUrl = key("The proxy for https:// addresses.", IN_GUEST, "that of http")
    no_proxy: Direct = key(
        "What is reached without it: names, .domains, addresses, networks.",
        IN_GUEST,
        "the guest itself",
        value=tuple,
    )
    user: RegistryUser = key("The user that the proxy asks for.", IN_GUEST, "no login")
    password: Stated[NamedSecret] = key("The secret that holds the user's password.", IN_GUEST)


class AptEntry(Frozen):
    """A mirror of the distribution's apt archive, which keeps the distribution's own signatures."""

    url: Url = key("Its address.", IN_GUEST)
    security: Url = key(
        "Where the security updates are, which Debian has in an archive of their own.",
        IN_GUEST,
        "Ubuntu: the same; Debian: none",
    )
    suites: Suites = key(
        "The suites that it has.",
        IN_GUEST,
        "the release's own, and its -updates; Ubuntu: -security too",
        value=tuple,
    )
    components: Components = key(
        "The components that it has.",
        IN_GUEST,
        "Debian: main; Ubuntu: main, restricted, universe, multiverse",
        value=tuple,
    )


class SiteEntry(Frozen):
    """Where the plan's guests get what is staged in them, and what else they need to reach it."""

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
        "Mirrors of container registries, by the registry that an image names.", IN_GUEST, "none", value=dict
    )
    ca: Texts = key(
        "Files with certificates of the site's own CA, in PEM; paths count from the file that names them.",
        IN_GUEST,
        "none",
        value=tuple,
    )
    toolkit_repository: Url = key(
        "Where the packages of NVIDIA's container toolkit are, for guests that do not say it.",
        IN_GUEST,
        "NVIDIA's",
    )
    driver: Annotated[PackageEntry | None, mapping_or_text("package", Text | PackageEntry)] = key(
        "The guest driver's package of VMs that train and do not say `driver`: an address, a path in the "
        "guest, or a mapping.",
        IN_GUEST,
        "the template's",
    )
    closed: bool = key("Whether staging may reach nothing but the site's hosts.", IN_GUEST, value=False)
    hosts: SiteHosts = key(
        "Hosts of the site besides those of the addresses above; .example.com is every name below it.",
        IN_GUEST,
        "none",
        value=tuple,
    )
