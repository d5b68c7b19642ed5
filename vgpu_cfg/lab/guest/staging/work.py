"""The surroundings of a simulated bundle module: the guest, parameters, secrets, and servers beyond the lab.

Parameters are as the manifest has them. A module has a check, an application, and a duration; its result is a
word. The servers beyond the lab are packages by URL, registries with their images, and the license server.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from vgpu_cfg.lab.estates.guests import ImagePart, InternetPart, RegistryPart
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import SeenNic, find_nic, nics_of_guest
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import File, Guest
from vgpu_cfg.lab.state.inventory import VirtualMachine

FOLDER = "/var/lib/vgpu-cfg"
SECRETS, FILES = f"{FOLDER}/secrets", f"{FOLDER}/files"
DROPS = "drop_secret"
NOT_FOR_OTHERS = 0o077

DOCKER_HUB = "docker.io"
DISTRIBUTION = "archive.ubuntu.com"
_WITHOUT_HOROVOD = re.compile(r"pytorch|cuda|ubuntu|prometheus|grafana|exporter")


class ModuleFailedError(Exception):
    """A module did not come true; the text says why, as its script would."""


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The result of an application: `done`, `warned`, `reboot` or `hand`."""

    word: str = "done"
    why: str = ""


DONE = WorkResult()


@dataclass(frozen=True, slots=True)
class Work:
    """One module to be played in one guest. `script` is the text of its script."""

    lab: Simulation
    vm: VirtualMachine
    kind: str
    parameters: Mapping[str, Any]
    script: str

    @property
    def guest(self) -> Guest:
        """The guest that it is played in."""
        return guest_of(self.vm)

    def text(self, name: str) -> str:
        """Return a parameter as text. Raises ModuleFailedError where the manifest lacks it."""
        return str(self.value(name) or "")

    def value(self, name: str) -> Any:
        """Return a parameter. Raises ModuleFailedError where the manifest lacks it."""
        if name not in self.parameters:
            raise ModuleFailedError(f"the manifest does not specify {name} for {self.kind}")
        return self.parameters[name]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a parameter that is a list of texts."""
        found = self.value(name)
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    def parts(self, name: str) -> list[Mapping[str, Any]]:
        """Return a parameter that is a list of mappings."""
        found = self.value(name)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def seen_nics(self) -> list[SeenNic]:
        """Return the guest's NICs as they are now."""
        return nics_of_guest(self.lab.state, self.vm)

    def nic(self, part: Mapping[str, Any]) -> SeenNic:
        """Return the NIC that a parameter means. Raises ModuleFailedError where the guest has none such."""
        mac, driver = str(part.get("mac") or ""), str(part.get("driver") or "")
        found = find_nic(self.seen_nics(), mac=mac, driver=driver)
        if found is None:
            what = f"the MAC {mac}" if mac else f"the driver {driver}"
            raise ModuleFailedError(f"no network interface has {what}")
        return found

    def secret_files(self) -> dict[str, File]:
        """Return the secrets that lie ready for this module: those that its script names."""
        return {
            path: file
            for path, file in self.guest.files.items()
            if path.startswith(f"{SECRETS}/") and posixpath.basename(path) in self.script
        }

    def bundle_file(self, name: str) -> str:
        """Return the text of a file without secrets that the bundle brought, "" where there is none."""
        found = self.guest.files.get(f"{FILES}/{name}")
        return found.content if found is not None else ""

    def secret(self, name: str) -> str | None:
        """Return the text of the secret that lies ready, None where none does.

        Raises ModuleFailedError for one that others may read.
        """
        found = self.secret_files()
        for path, file in found.items():
            if file.mode & NOT_FOR_OTHERS:
                raise ModuleFailedError(f"{path} is readable by other users")
        named = [file for path, file in found.items() if posixpath.basename(path) == name]
        chosen = named or list(found.values())
        return chosen[0].content.strip() if chosen else None

    def drop_secrets(self) -> None:
        """Remove the secrets that the script drops when it is done."""
        if DROPS in self.script:
            for path in self.secret_files():
                del self.guest.files[path]

    @property
    def digest(self) -> str:
        """A digest of this module's output: its parameters, its script, and its staged secrets."""
        content = [
            self.parameters,
            self.script,
            sorted(file.content for file in self.secret_files().values()),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def is_written(self) -> bool:
        """Whether the guest has exactly what this module writes, and no secret lies ready for it anew."""
        before = self.guest.blocks.get(self.kind, "")
        if self.secret_files():
            return before.partition(" ")[0] == self.digest
        return before.partition(" ")[2] == self.digest_without_secrets

    @property
    def digest_without_secrets(self) -> str:
        """The digest without secrets."""
        return hashlib.sha256(
            json.dumps([self.parameters, self.script], sort_keys=True).encode()
        ).hexdigest()[:16]

    def check_runtime(self) -> str:
        """Return the container runtime of the parameters. Raises ModuleFailedError if it is not installed."""
        runtime = self.text("runtime")
        if runtime not in self.guest.runtimes:
            raise ModuleFailedError(f"{runtime} is not installed")
        return runtime

    def written(self) -> WorkResult:
        """Note the written digest, and drop its secrets: the module is done."""
        self.guest.blocks[self.kind] = f"{self.digest} {self.digest_without_secrets}"
        self.drop_secrets()
        return DONE


Check = Callable[[Work], bool]
Apply = Callable[[Work], WorkResult]
Seconds = Callable[[Work], float]
Warns = Callable[[Work], str]


@dataclass(frozen=True, slots=True)
class Module:
    """How a module is played."""

    check: Check
    apply: Apply
    seconds: Seconds
    warning: Warns
    """Its warning if it is present, "" for none."""


MODULES: dict[str, Module] = {}
"""By kind; filled by the modules below `guest`."""


def _nothing(_work: Work) -> str:
    return ""


def applies(
    kind: str, check: Check, *, seconds: float | Seconds = 1.0, warning: Warns = _nothing
) -> Callable[[Apply], Apply]:
    """Register a module's application."""

    def register(apply: Apply) -> Apply:
        lasts: Seconds = seconds if callable(seconds) else (lambda _work: float(seconds))
        MODULES[kind] = Module(check, apply, lasts, warning)
        return apply

    return register


def is_written(work: Work) -> bool:
    """Check a module that is nothing but files."""
    return work.is_written()


def names(parts: Sequence[str]) -> str:
    """Return words for use in a text."""
    return ", ".join(parts)


def check_host(internet: InternetPart, host: str) -> None:
    """Raise ModuleFailedError where a host cannot be reached."""
    if host in internet.unreachable:
        raise ModuleFailedError(f"{host} cannot be reached")


def check_packages(work: Work) -> None:
    """Raise ModuleFailedError if the guest cannot reach the source of its packages.

    That is its distribution's archive, or the mirror of its site.
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
            raise ModuleFailedError(f"file {url} not found")
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
        raise ModuleFailedError(f"the registry {server} rejects the login: the token has expired")
    if registry.password and (user, password) != (registry.user, registry.password):
        raise ModuleFailedError(f"the registry {server} rejects the login of {user}")


def find_image(work: Work, image: str) -> ImagePart:
    """Return an image as its registry has it. Raises ModuleFailedError where it cannot be pulled."""
    internet = work.lab.state.internet
    server, rest = registry_of(image)
    registry = find_registry(internet, server)
    if not registry.reachable:
        raise ModuleFailedError(f"the registry {server} cannot be reached")
    check_host(internet, server.partition(":")[0])
    if registry.password and work.guest.logins.get(server) != registry.password:
        raise ModuleFailedError(f"the registry {server} requires a login for {rest}")
    return image_facts(internet, image)


def image_facts(internet: InternetPart, image: str) -> ImagePart:
    """Return what an image is. Raises ModuleFailedError where its registry does not have it."""
    server, rest = registry_of(image)
    images = find_registry(internet, server).images
    if images is None:
        return ImagePart(horovod=_WITHOUT_HOROVOD.search(rest) is None, torch="pytorch" in rest)
    found = images.get(rest) or images.get(rest.partition("@")[0])
    if found is None:
        raise ModuleFailedError(f"the registry {server} has no image {rest}")
    return found


def contents_of(work: Work, image: str) -> ImagePart:
    """Return the content of an image that the guest has: all, if it is from a template or a file."""
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
        return "the license server cannot be reached"
    if internet.licence == "expired" or token in internet.expired_tokens:
        return "the license server rejects the token: it has expired"
    return None
