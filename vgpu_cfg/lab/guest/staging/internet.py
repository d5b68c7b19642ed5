"""What a guest reaches beyond the lab: packages by URL, registries with their images, the licence server."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from vgpu_cfg.lab.estates.guests import ImagePart, InternetPart, RegistryPart
from vgpu_cfg.lab.guest.staging.work import FOLDER, ModuleFailedError, Work

DOCKER_HUB = "docker.io"
DISTRIBUTION = "archive.ubuntu.com"
_WITHOUT_HOROVOD = re.compile(r"pytorch|cuda|ubuntu|prometheus|grafana|exporter")


def check_host(internet: InternetPart, host: str) -> None:
    """Raise ModuleFailedError where a host cannot be reached."""
    if host in internet.unreachable:
        raise ModuleFailedError(f"{host} cannot be reached")


def check_packages(work: Work) -> None:
    """Raise ModuleFailedError where the guest cannot reach what its packages come from.

    That is its distribution's archive, or the mirror that it was told of.
    """
    manifest = work.guest.files.get(f"{FOLDER}/manifest.json")
    modules = json.loads(manifest.content)["modules"] if manifest is not None else []
    site: dict[str, Any] = next((one["parameters"] for one in modules if one["name"] == "site"), {})
    mirrors = [(site.get("apt") or {}).get("url"), *site.get("dnf", ())]
    found = [urlsplit(str(one)).hostname or "" for one in mirrors if one]
    check_host(work.lab.state.internet, found[0] if found else DISTRIBUTION)


def fetch(work: Work, url: str, sha256: str = "") -> None:
    """Take a package by its URL, or by its path in the guest. Raises ModuleFailedError."""
    internet = work.lab.state.internet
    parts = urlsplit(url)
    if not parts.scheme:
        if url not in work.guest.files:
            raise ModuleFailedError(f"there is no file {url}")
        return
    check_host(internet, parts.hostname or "")
    if url in internet.missing:
        raise ModuleFailedError(f"{parts.hostname} has no {parts.path.rpartition('/')[2]}: not found (404)")
    known = internet.checksums.get(url)
    if sha256 and known is not None and known != sha256:
        raise ModuleFailedError(
            f"the checksum of {parts.path.rpartition('/')[2]} is {known[:12]}, not {sha256[:12]}"
        )


def registry_of(image: str) -> tuple[str, str]:
    """Return an image's registry and the rest of its name."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return DOCKER_HUB, image


def find_registry(internet: InternetPart, name: str) -> RegistryPart:
    """Return a registry; one that the estate does not name has everything, for everybody."""
    return internet.registries.get(name, RegistryPart())


def log_in(work: Work, server: str, user: str, password: str) -> None:
    """Log in to a registry. Raises ModuleFailedError."""
    internet = work.lab.state.internet
    registry = find_registry(internet, server)
    if not registry.reachable:
        raise ModuleFailedError(f"the registry {server} cannot be reached")
    check_host(internet, server.partition(":")[0])
    if password in registry.expired:
        raise ModuleFailedError(f"the registry {server} refuses the login: the token has expired")
    if registry.password and (user, password) != (registry.user, registry.password):
        raise ModuleFailedError(f"the registry {server} refuses the login of {user}")


def find_image(work: Work, image: str) -> ImagePart:
    """Return an image as its registry has it. Raises ModuleFailedError where it cannot be pulled."""
    internet = work.lab.state.internet
    server, rest = registry_of(image)
    registry = find_registry(internet, server)
    if not registry.reachable:
        raise ModuleFailedError(f"the registry {server} cannot be reached")
    check_host(internet, server.partition(":")[0])
    if registry.password and work.guest.logins.get(server) != registry.password:
        raise ModuleFailedError(f"the registry {server} wants a login for {rest}")
    return image_facts(internet, image)


def image_facts(internet: InternetPart, image: str) -> ImagePart:
    """Return what an image is. Raises ModuleFailedError where its registry does not have it."""
    server, rest = registry_of(image)
    images = find_registry(internet, server).images
    if images is None:
        return ImagePart(horovod=_WITHOUT_HOROVOD.search(rest) is None, torch="pytorch" in rest)
    found = images.get(rest)
    if found is None:
        raise ModuleFailedError(f"the registry {server} has no image {rest}")
    return found


def contents_of(work: Work, image: str) -> ImagePart:
    """Return what an image that the guest has holds: all, where it is from a template or a file."""
    try:
        return image_facts(work.lab.state.internet, image)
    except ModuleFailedError:
        return ImagePart(torch=True)  # nobody says otherwise


def environment_of(internet: InternetPart, image: str) -> dict[str, str]:
    """Return what an image states by ENV, as far as the estate says."""
    try:
        return image_facts(internet, image).env
    except ModuleFailedError:
        return {}  # nobody says what is in it


def licence_refusal(internet: InternetPart, token: str) -> str | None:
    """Return why the licence server gives no licence for a token, None where it does."""
    if internet.licence == "unreachable":
        return "the licence server cannot be reached"
    if internet.licence == "expired" or token in internet.expired_tokens:
        return "the licence server refuses the token: it has expired"
    return None
