"""Site settings of a guest: files for apt, dnf, container runtimes and readers of proxy variables.

Sources: apt.conf(5), sources.list(5) and apt-transport-http(1); dnf.conf(5) and yum's variables;
docs.docker.com (dockerd: "HTTP/HTTPS proxy", "registry-mirrors", certs.d); containerd's docs/hosts.md;
containers-registries.conf(5), which Apptainer reads but for 1.4.0 to 1.4.2; update-ca-certificates(8) and
update-ca-trust(8).

Belief: docker-mirrors-are-for-docker-hub, container-proxies, nerdctl-certs-d, apptainer-registries-conf,
dnf-sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

from vgpu_cfg.model.guests.guest import GuestFile
from vgpu_cfg.model.guests.modules import SiteModule, SiteProxy
from vgpu_cfg.model.plan_file import site_values
from vgpu_cfg.model.plan_file.guest_values import DEFAULT_REGISTRY, check_registry, check_url
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, secret_file, source_file
from vgpu_cfg.staging.runtimes import SERVICES

ENVIRONMENT = "/etc/vgpu-cfg/proxy.env"
"""The proxy's variables, which every script of a module and the runtimes' services read."""
_APT_PROXY = "/etc/apt/apt.conf.d/90vgpu-cfg-proxy"
_HUB = "https://registry-1.docker.io"
_DISTRIBUTIONS = (
    ".debian.org", ".ubuntu.com", ".rockylinux.org", ".almalinux.org", ".centos.org", ".fedoraproject.org",
    ".redhat.com", ".oracle.com",
)  # fmt: skip
"""The distributions' own package servers, which a mirror replaces."""
_ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1")


def stage_site(module: SiteModule, context: StagingContext) -> Staged:
    """Write the site's settings, and remove its earlier ones. Raises `GuestError`."""
    proxy = [] if module.proxy is None else [(ENVIRONMENT, "proxy.env"), (_APT_PROXY, "apt-proxy.conf")]
    plain = dict(_runtime_files(module)) | (dict(_drop_ins(module)) if module.proxy is not None else {})
    named = [(path, f"site/{number}", "644") for number, path in enumerate(plain, 1)]
    certificates = [
        (f"vgpu-cfg-{number}.crt", f"site/ca-{number}", text)
        for number, text in enumerate(module.certificates, 1)
    ]
    mirrors = _docker_mirrors(module)
    return halves(
        "site.sh.j2",
        *_proxy_files(module, context),
        *(source_file(name, plain[path]) for path, name, _ in named),
        *(source_file(name, text) for _, name, text in certificates),
        secret=bool(module.proxy and module.proxy.password),
        proxy=proxy,
        files=named,
        # The last line with all of its signs is of the signature: no other certificate has it.
        certificates=[(path, name, text.splitlines()[-3]) for path, name, text in certificates],
        mirrors=mirrors,
        mirrors_json=json.dumps(mirrors),
        service=SERVICES[module.runtime] if module.runtime else "",
        docker=module.runtime == "docker",
        **_apt_words(module),
        dnf=[_asserted(site_values.check_package_source, one) for one in module.dnf],
        is_closed=module.closed,
        inside=_patterns(module.hosts),
        distributions=_patterns(_DISTRIBUTIONS),
    )


def _apt_words(module: SiteModule) -> dict[str, object]:
    apt = module.apt
    if apt is None:
        return {"apt": "", "security": "", "suites": [], "components": []}
    return {
        "apt": values.asserted(check_url, "the apt mirror", apt.url),
        "security": values.asserted(check_url, "the apt mirror", apt.security) if apt.security else "",
        "suites": [_asserted(site_values.check_suite, one) for one in apt.suites],
        "components": [_asserted(site_values.check_component, one) for one in apt.components],
    }


def _asserted(check: site_values.Check, text: str) -> str:
    return values.asserted(check, "a site setting", text)


def _patterns(hosts: tuple[str, ...]) -> str:
    """Return hosts as a pattern of the shell's `case`; they have no other sign than names have."""
    found = [_asserted(site_values.check_site_host, one) for one in hosts]
    return " | ".join(f"*{one}" if one.startswith(".") else one for one in found)


def _proxy_files(module: SiteModule, context: StagingContext) -> Iterator[GuestFile]:
    proxy = module.proxy
    if proxy is None:
        return
    password = context.secret(proxy.password, "the proxy password") if proxy.password else ""
    http, https = (_with_login(url, proxy.user, password) for url in (proxy.http, proxy.https))
    make = secret_file if proxy.password else source_file
    yield make("proxy.env", environment(proxy, http, https))
    yield make("apt-proxy.conf", _apt_proxy(proxy, http, https))


def _with_login(url: str, user: str, password: str) -> str:
    """Return a proxy's address with the login in it, as every reader of the variables takes it (RFC 3986)."""
    if not url:
        return ""
    checked = _asserted(site_values.check_proxy, url)
    if not user:
        return checked
    scheme, _, rest = checked.partition("://")
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def environment(proxy: SiteProxy, http: str, https: str) -> str:
    """Return the variables in lines that both sh and systemd's EnvironmentFile= read the same.

    curl reads http_proxy in lower case alone, since CGI sets the other; Go's programs read both.
    """
    direct = ",".join(_direct(proxy))
    pairs = (("http_proxy", http), ("https_proxy", https), ("no_proxy", direct))
    lines = [f'{name}="{value}"' for name, value in pairs if value]
    lines += [f'{name.upper()}="{value}"' for name, value in pairs if value]
    return "".join(f"{line}\n" for line in lines)


def _direct(proxy: SiteProxy) -> list[str]:
    given = [_asserted(site_values.check_direct, one) for one in proxy.no_proxy]
    return list(dict.fromkeys([*_ALWAYS_DIRECT, *given]))


def _apt_proxy(proxy: SiteProxy, http: str, https: str) -> str:
    """Return apt's part; hosts by their whole names are direct there, domains and networks by no_proxy."""
    lines = [f'Acquire::{kind}::Proxy "{url}";' for kind, url in (("http", http), ("https", https)) if url]
    for host in _direct(proxy):
        if host[0].isalpha() and ":" not in host and "/" not in host and host != "localhost":
            lines += [f'Acquire::{kind}::Proxy::{host} "DIRECT";' for kind in ("http", "https")]
    return "".join(f"{line}\n" for line in ["// Written by vgpu-cfg.", *lines])


def _drop_ins(module: SiteModule) -> Iterator[tuple[str, str]]:
    service = SERVICES[module.runtime] if module.runtime else ""
    if service:
        text = f"# Written by vgpu-cfg.\n[Service]\nEnvironmentFile=-{ENVIRONMENT}\n"
        yield f"/etc/systemd/system/{service}.d/50-vgpu-cfg-proxy.conf", text
        if module.runtime == "containerd":
            # nerdctl pulls by itself; every unit of this tool reads a drop-in of this name (systemd.unit(5)).
            yield "/etc/systemd/system/vgpu-cfg-.service.d/50-vgpu-cfg-proxy.conf", text


def _mirrors(module: SiteModule) -> Mapping[str, str]:
    return {
        values.asserted(check_registry, "a registry", registry): _asserted(
            site_values.check_registry_mirror, url
        )
        for registry, url in sorted(module.registry_mirrors.items())
    }


def _docker_mirrors(module: SiteModule) -> list[str]:
    if module.runtime != "docker":
        return []
    return [url for registry, url in _mirrors(module).items() if registry == DEFAULT_REGISTRY]


def _runtime_files(module: SiteModule) -> Iterator[tuple[str, str]]:
    mirrors = _mirrors(module)
    match module.runtime:
        case "containerd":
            for registry, url in mirrors.items():
                # What `server` names is asked where the mirror has no answer.
                upstream = _HUB if registry == DEFAULT_REGISTRY else f"https://{registry}"
                server = url if module.closed else upstream
                text = f'server = "{server}"\n\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'
                yield f"/etc/containerd/certs.d/{registry}/hosts.toml", f"# Written by vgpu-cfg.\n{text}"
        case "apptainer":
            tables = "".join(_registry_table(registry, url) for registry, url in mirrors.items())
            if tables:
                yield (
                    "/etc/containers/registries.conf.d/50-vgpu-cfg.conf",
                    f"# Written by vgpu-cfg.\n{tables}",
                )
        case "docker":
            hosts = {urlsplit(url).netloc for url in mirrors.values() if url.startswith("https://")}
            for host in sorted(hosts if module.certificates else ()):
                yield f"/etc/docker/certs.d/{host}/ca.crt", "".join(module.certificates)
        case "":
            return


def _registry_table(registry: str, url: str) -> str:
    parts = urlsplit(url)
    insecure = "true" if parts.scheme == "http" else "false"
    return (
        f'\n[[registry]]\nprefix = "{registry}"\nlocation = "{registry}"\n'
        f'\n[[registry.mirror]]\nlocation = "{parts.netloc}"\ninsecure = {insecure}\n'
    )
