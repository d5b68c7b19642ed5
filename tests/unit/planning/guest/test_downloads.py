"""Pins of downloads: whose comes first, which modules have them, and the list of all downloads."""

from __future__ import annotations

import pytest

from tests.unit.planning.guest.trainings import IMAGE, training, worker
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES, PINS, TOOLKIT, TOOLKIT_REPOSITORY, check_pin
from vgpu_cfg.model.guests.modules import DriverModule, GuestModule, TimeModule
from vgpu_cfg.model.guests.training_modules import ImageModule, MonitoringModule, ToolkitModule
from vgpu_cfg.planning.guests.specs import guest_specs, list_downloads, pinned

ONE, TWO = "1" * 64, "2" * 64
DRIVER = "https://mirror.lab/nvidia-linux-grid-580.deb"
MIRROR = "https://mirror.lab/toolkit"
NVIDIAS = PINS[f"{TOOLKIT_REPOSITORY}/gpgkey"]
NODE = MONITORING_IMAGES["node-exporter"]


@pytest.mark.parametrize(
    ("module", "pins", "found"),
    [
        (DriverModule(package=DRIVER), {DRIVER: ONE}, {"sha256": ONE}),
        (DriverModule(package=DRIVER, sha256=TWO), {DRIVER: ONE}, {"sha256": TWO}),
        (ImageModule(image=IMAGE), {IMAGE: f"sha256:{ONE}"}, {"digest_pin": f"sha256:{ONE}"}),
        (ImageModule(image=IMAGE, archive=DRIVER), {DRIVER: ONE}, {"sha256": ONE, "digest_pin": ""}),
        (ImageModule(image=f"a@sha256:{TWO}"), {"a": f"sha256:{ONE}"}, {"digest_pin": ""}),
        (ToolkitModule(), {}, {"version": PINS[TOOLKIT], "key_sha256": NVIDIAS}),
        # A mirror has the same key, and the site can state another.
        (ToolkitModule(repository=MIRROR), {}, {"key_sha256": NVIDIAS}),
        (ToolkitModule(repository=MIRROR), {f"{MIRROR}/gpgkey": ONE}, {"key_sha256": ONE}),
        (ToolkitModule(repository=MIRROR), {TOOLKIT: "1.19.0-1"}, {"version": "1.19.0-1"}),
        (
            MonitoringModule(role="exporter", exporter="nvidia-smi"),
            {NODE: f"sha256:{ONE}"},
            {"images": {"node-exporter": f"{NODE}@sha256:{ONE}"}},
        ),
    ],
)
def test_the_plan_files_pin_comes_first_then_the_sites(
    module: GuestModule, pins: dict[str, str], found: dict[str, object]
) -> None:
    after = pinned(module, pins)
    assert {key: getattr(after, key) for key in found} == found


@pytest.mark.parametrize(
    "module",
    [DriverModule(), ImageModule(image="a"), TimeModule(servers=("ntp",)), DriverModule(package="/x.deb")],
)
def test_a_module_without_downloads_stays(module: GuestModule) -> None:
    assert pinned(module, {DRIVER: ONE}) == module


def test_another_version_of_the_toolkit_brings_nothing_anew() -> None:
    assert pinned(ToolkitModule(), {TOOLKIT: "9.9.9-1"}).digest == ToolkitModule().digest


def test_each_download_is_listed_once_with_its_vms() -> None:
    desired = training(worker("w-1"), worker("w-2"))
    key, packages, image = list_downloads(guest_specs(desired, {}), desired)
    assert (key.address, packages.package, image.address) == (f"{TOOLKIT_REPOSITORY}/gpgkey", TOOLKIT, IMAGE)
    assert {one.vms for one in (key, packages, image)} == {("w-1", "w-2")}
    assert [one.is_pinned for one in (key, packages, image)] == [True, True, False]


@pytest.mark.parametrize("text", ["", "x" * 64, "sha256:12", "latest", "1.2;reboot", f"{ONE[1:]}g"])
def test_a_pin_is_a_checksum_or_a_version(text: str) -> None:
    with pytest.raises(ValueError, match="is not a pin"):
        check_pin(text)
