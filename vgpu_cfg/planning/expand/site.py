"""The site of a plan's files, and the context of checks on its VMs: networks, secrets, named files.

The keys of several files are merged and certificates read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Loc, Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork, DesiredSite
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file import SiteEntry
from vgpu_cfg.model.plan_file.guest_values import DRIVER_PACKAGES, package_kind
from vgpu_cfg.model.plan_file.site_values import parse_certificates

ReadText = Callable[[str, str], str]
"""Reads a file by the name of the document that names it, and its path from there.

Raises ValueError if there is no such file, DocumentError if its content is invalid.
"""


@dataclass(slots=True)
class SiteExpansion:
    """The site, and the faults."""

    site: DesiredSite | None = None
    faults: list[DocumentFault] = field(default_factory=list)


def expand_site(sections: Sequence[Part], secrets: Collection[str], read_text: ReadText) -> SiteExpansion:
    """Merge the `site` of every file, the weakest first: a later file's key replaces an earlier's."""
    out = SiteExpansion()
    said: dict[str, object] = {}
    certificates: tuple[str, ...] = ()
    for part in sections:
        try:
            entry = build(part.document, SiteEntry, loc=part.loc, data=part.data)
        except DocumentError as error:
            out.faults += error.faults
            continue
        out.faults += _check(entry, part, secrets)
        if "ca" in entry.model_fields_set:
            certificates = tuple(_certificates(entry, part, read_text, out))
        said |= {name: getattr(entry, name) for name in entry.model_fields_set}
    if sections and not out.faults:
        out.site = DesiredSite.model_validate({**said, "certificates": certificates})
    return out


def _check(entry: SiteEntry, part: Part, secrets: Collection[str]) -> Iterator[DocumentFault]:
    proxy = entry.proxy
    if proxy is not None:
        if not proxy.http and not proxy.https:
            yield part.fault(
                ("proxy",),
                "the proxy has no address",
                "example: proxy: {http: http://proxy.example.com:3128}",
            )
        if bool(proxy.user) != (proxy.password is not None):
            hint = "example: proxy: {…, user: guests, password: {secret: proxy}}"
            yield part.fault(("proxy",), "a proxy's login requires both `user` and `password`", hint)
        if proxy.password is not None and proxy.password not in secrets:
            hint = did_you_mean(proxy.password, secrets) or "example: secrets: {proxy: env:PROXY_PASSWORD}"
            loc: Loc = ("proxy", "password", "secret")
            yield part.fault(loc, "`secrets` does not contain a secret with this name", hint)
    if entry.apt is not None and not entry.apt.url:
        yield part.fault(
            ("apt",), "the mirror has no `url`", "example: apt: https://mirror.example.com/ubuntu"
        )
    if entry.driver is not None:
        kind = package_kind(entry.driver.package or "")
        if kind not in DRIVER_PACKAGES:
            hint = f"specify a file with the extension {', '.join(DRIVER_PACKAGES)}"
            yield part.fault(("driver",), "this is not a driver package", hint)


def _certificates(entry: SiteEntry, part: Part, read_text: ReadText, out: SiteExpansion) -> Iterator[str]:
    is_list = isinstance(part.data.get("ca"), list)
    for index, path in enumerate(entry.ca):
        try:
            yield from parse_certificates(read_text(part.document.name, path))
        except ValueError as error:
            out.faults.append(part.refused(("ca", index) if is_list else ("ca",), error))


def no_files(_document: str, path: str) -> str:
    """Refuse every file: without a folder there are none."""
    raise ValueError(f"cannot read the file {path!r} on this machine")


@dataclass(frozen=True, slots=True)
class VmContext:
    """The plan around its VMs. `networks` is None where they are faulty: then nothing is said of them."""

    networks: Mapping[str, DesiredNetwork] | None = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    read_text: ReadText = no_files

    def unknown_secret(self, name: str | None) -> tuple[str, str] | None:
        """Return the error for a secret missing from `secrets`; None if it is there.

        Its name is not repeated: it may be the secret itself.
        """
        if name is None or name in self.secrets:
            return None
        hint = did_you_mean(name, self.secrets) or "example: secrets: {lic: file:/etc/vgpu-cfg/licence.tok}"
        return "`secrets` does not contain a secret with this name", hint


def value_of(entry: Frozen, key: str) -> Any:
    """Return the file's value at a key that may be absent; None if it is."""
    return getattr(entry, key) if key in entry.model_fields_set else None
