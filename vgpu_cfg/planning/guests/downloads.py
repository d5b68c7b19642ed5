"""Downloads of a plan's guests: their pins put into the modules, and the list of all of them.

The plan file's own checksums come first, then the site's pins, then those of vgpu-cfg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.model.desired import DesiredPlan, DesiredSite
from vgpu_cfg.model.guests.base import Fetched
from vgpu_cfg.model.guests.downloads import PINS, TOOLKIT, TOOLKIT_KEY, Download
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    CudaModule,
    DriverModule,
    GuestModule,
    OfedModule,
    PeermemModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    MonitoringModule,
    ToolkitModule,
)
from vgpu_cfg.planning.guests.site import takes_mirror


def pinned(module: GuestModule, pins: Mapping[str, str]) -> GuestModule:
    """Return a module with the pins of its downloads; `pins` are the site's."""
    match module:
        case DriverModule() | OfedModule() | PeermemModule() | CudaModule():
            known = "" if module.sha256 else pins.get(module.package, "")
            return module.model_copy(update={"sha256": known}) if known else module
        case ImageModule():
            if module.archive:
                known = module.sha256 or pins.get(module.archive, "")
                return module.model_copy(update={"sha256": known})
            return module.model_copy(update={"digest_pin": _digest_of(module.image, pins)})
        case MonitoringModule():
            images = {name: _with_digest(image, pins) for name, image in module.used_images.items()}
            return module.model_copy(update={"images": images})
        case ToolkitModule():
            # A mirror has the same key, unless the site pins another.
            key = pins.get(module.key_address) or PINS[TOOLKIT_KEY]
            version = pins.get(TOOLKIT) or PINS[TOOLKIT]
            return module.model_copy(update={"key_sha256": key, "version": version})
        case _:
            return module


def _digest_of(image: str, pins: Mapping[str, str]) -> str:
    return "" if "@" in image else pins.get(image) or PINS.get(image, "")


def _with_digest(image: str, pins: Mapping[str, str]) -> str:
    digest = _digest_of(image, pins)
    return f"{image}@{digest}" if digest else image


def list_downloads(specs: Mapping[str, GuestSpec], desired: DesiredPlan) -> tuple[Download, ...]:
    """List the downloads of guests, each once with its VMs, in the order of staging."""
    found: dict[Download, list[str]] = {}
    for name, spec in specs.items():
        for one in _downloads(spec, desired.site):
            vms = found.setdefault(one, [])
            if name not in vms:
                vms.append(name)
    return tuple(one.model_copy(update={"vms": tuple(vms)}) for one, vms in found.items())


def _downloads(spec: GuestSpec, site: DesiredSite | None) -> Iterator[Download]:
    containers = spec.get(ContainersModule)
    runtime = containers.runtime if containers is not None else ""
    for module in spec.modules:
        for one in module.describe().fetched:
            if one.address:
                yield Download(
                    key=one.key,
                    address=one.address,
                    via=_mirror(one, site, runtime),
                    pin=one.pin,
                    package=one.package,
                    version=one.version,
                    is_signed=one.is_signed,
                )


def _mirror(one: Fetched, site: DesiredSite | None, runtime: str) -> str:
    if site is None or not one.registry or not takes_mirror(runtime, one.registry):
        return ""
    return site.registry_mirrors.get(one.registry, "")
