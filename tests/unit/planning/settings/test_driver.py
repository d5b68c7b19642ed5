"""The NVIDIA host driver: which is installed, which runs, and how the wanted one comes there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup, SoftwarePackage
from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice
from vgpu_cfg.planning.host_settings.gpus.driver import DriverFacts, driver_facts, driver_version
from vgpu_cfg.planning.host_settings.table import setting

DRIVER = setting("driver")
AIE = {"name": "NVD-AIE_ESXi_8.0.0_Driver", "version": "580.95.02-1OEM.800.1.0.20613240"}
GRID = {"name": "NVD-VMware_ESXi_8.0.0_Driver", "version": "580.95.02-1OEM.800.1.0.20613240"}
BOOTED = datetime(2026, 11, 1, 8, tzinfo=UTC)
ZIPS = ("/vmfs/volumes/ds/NVD-AIE-800.zip", "/vmfs/volumes/ds/nvd(gpu)mgmt.zip")


def installed(*packages: dict[str, str], loaded: bool = True, **more: Any) -> dict[str, Any]:
    return {"software": packages, "modules": {"nvidia": ""} if loaded else {}, **more}


def wanted(**keys: Any) -> Any:
    return hosts(driver={"kind": "nvd-aie", "version": "580.*", **keys})


CASES = (
    Case("driver", Situation.RIGHT, view(facts=installed(AIE)), wanted(), "nvd-aie 580.*"),
    Case(
        "driver",
        Situation.WRONG,
        view(facts=installed(loaded=False)),
        wanted(by="esxcli", depot=ZIPS),
        f"nvd-aie 580.* by esxcli from {ZIPS[0]} '{ZIPS[1]}'",
        found="none",
        writes=(
            EsxcliWrite(command="software.vib.install", arguments=(("depot", ZIPS[0]), ("depot", ZIPS[1]))),
        ),
    ),
    Case(
        "driver",
        Situation.WRONG,
        view(facts=installed(AIE | {"version": "550.54.10-1OEM.800"})),
        wanted(by="lifecycle"),
        "nvd-aie 580.* by lifecycle",
        found="nvd-aie 550.54.10-1OEM.800",
        by_hand="to the cluster's image",
    ),
    Case(
        "driver",
        Situation.OFF,
        view(facts=installed(GRID)),
        wanted(by="esxcli", depot=ZIPS),
        f"nvd-aie 580.* by esxcli from {ZIPS[0]} '{ZIPS[1]}'",
        found="vgpu 580.95.02-1OEM.800.1.0.20613240",
        by_hand="esxcli software vib remove --vibname=NVD-VMware_ESXi_8.0.0_Driver",
    ),
    Case("driver", Situation.PENDING, view(facts=installed(AIE, loaded=False)), wanted(), "nvd-aie 580.*"),
    Case(
        "driver",
        Situation.PENDING,
        view(facts=installed(AIE) | {"shell": {"driver_version": "550.54.10"}}),
        wanted(),
        "nvd-aie 580.*",
    ),
    Case(
        "driver",
        Situation.NOT_OFFERED,
        view(facts=installed(loaded=False)),
        wanted(),
        "nvd-aie 580.*",
        by_hand="esxcli software vib install --depot=/vmfs/volumes/DATASTORE/HOST-DRIVER.zip",
    ),
    Case(
        "driver",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.SOFTWARE: "not permitted"}}),
        wanted(),
        "nvd-aie 580.*",
        unread="not permitted",
    ),
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), DriverFacts()),
        (("esx-base", "nmlx5-core"), DriverFacts()),
        (("NVD-AIE_ESXi_8.0.0_Driver",), DriverFacts("nvd-aie", "1", package="NVD-AIE_ESXi_8.0.0_Driver")),
        (("nvd-aie-800", "nvdgpumgmtdaemon"), DriverFacts("nvd-aie", "1", True, "nvd-aie-800")),
        (
            ("NVIDIA-AIE_ESXi_7.0.2_Driver",),
            DriverFacts("nvd-aie", "1", package="NVIDIA-AIE_ESXi_7.0.2_Driver"),
        ),
        (("NVD-VGPU-800",), DriverFacts("vgpu", "1", package="NVD-VGPU-800")),
        (("NVD-VMware_ESXi_8.0.0_Driver",), DriverFacts("vgpu", "1", package="NVD-VMware_ESXi_8.0.0_Driver")),
        (("nvd-gpu-mgmt-daemon",), DriverFacts(daemon=True)),
    ],
)
def test_packages_are_told_apart(names: tuple[str, ...], expected: DriverFacts) -> None:
    assert driver_facts(SoftwarePackage(name=name, version="1") for name in names) == expected


@pytest.mark.parametrize(
    ("value", "found", "is_same"),
    [
        ("nvd-aie 580.*", "nvd-aie 580.95.02-1OEM.800", True),
        ("nvd-aie 580.95.02", "nvd-aie 580.95.02-1OEM.800", True),
        ("nvd-aie 580.95.0", "nvd-aie 580.95.02-1OEM.800", False),
        ("nvd-aie 570.*", "nvd-aie 580.95.02-1OEM.800", False),
        ("vgpu 580.*", "nvd-aie 580.95.02-1OEM.800", False),
        ("nvd-aie *", "nvd-aie 1", True),
        ("nvd-aie *", "none", False),
        ("nvd-aie 580.* by esxcli from '/a b.zip'", "nvd-aie 580.1", True),
    ],
)
def test_a_version_is_a_glob(value: str, found: str, is_same: bool) -> None:
    assert DRIVER.same(value, found) is is_same


def test_a_host_without_gpus_needs_no_driver_and_no_key_is_no_wish() -> None:
    assert list(DRIVER.desired_settings(wanted(), view(gpus=()))) == []
    assert list(DRIVER.desired_settings(hosts(), view())) == []


def test_without_depots_esxcli_cannot_install_and_a_hand_is_told() -> None:
    host = view(facts=installed(loaded=False))
    desired = wish_of(DRIVER, wanted(by="esxcli"), host)
    assert DRIVER.write(host, [desired]) == ()
    assert "--depot=" in DRIVER.by_hand(host, desired)


def test_what_the_tool_installs_is_no_manual_step() -> None:
    host = view(facts=installed(loaded=False))
    desired = wish_of(DRIVER, wanted(by="esxcli", depot=ZIPS), host)
    assert DRIVER.by_hand(host, desired) == ""
    assert DRIVER.impact(host, desired) is Impact.HOST_REBOOT
    assert DRIVER.how(host, desired).commands == (
        "esxcli software vib install --depot=/vmfs/volumes/ds/NVD-AIE-800.zip",
        "esxcli software vib install --depot='/vmfs/volumes/ds/nvd(gpu)mgmt.zip'",
    )


@pytest.mark.parametrize(
    ("boot", "reboot_required", "configured"),
    [
        (BOOTED, True, "written, pending reboot"),
        (BOOTED, False, "none"),
        (BOOTED + timedelta(hours=1), True, "none"),
    ],
)
def test_what_waits_for_the_reboot_is_told_by_the_mark(
    boot: datetime, reboot_required: bool, configured: str
) -> None:
    mark = {"plan": "demo", "since": BOOTED, "waiting": {"driver": BOOTED}}
    more = {"mark": mark, "boot_time": boot, "reboot_required": reboot_required}
    reading = DRIVER.read(view(facts=installed(loaded=False, **more)), "")
    assert reading.configured == configured
    assert DRIVER.same("nvd-aie 580.*", configured) is (configured != "none")
    assert not DRIVER.same("nvd-aie 580.*", reading.in_force or "")


def test_a_driver_that_no_gpu_needs_loaded_is_not_pending() -> None:
    passed = gpu(pci={"passthrough_active": True, "passthrough_enabled": True})
    reading = DRIVER.read(view(gpus=(passed,), facts=installed(AIE, loaded=False)), "")
    assert reading.runtime is None


def test_once_the_driver_runs_gpus_are_of_their_configured_type() -> None:
    basic = gpu(graphics_type=GraphicsType.BASIC, configured_graphics_type=GraphicsType.SHARED)
    other = gpu("0000:41:00.0", graphics_type=GraphicsType.BASIC)
    host = view(gpus=(basic, other))
    shown = DRIVER.show(host.host, wish_of(DRIVER, wanted(), host))
    assert [one.graphics_type for one in shown.gpus] == [GraphicsType.SHARED, GraphicsType.BASIC]


def test_the_version_is_the_packages_and_else_what_the_gpus_of_esx_9_1_say() -> None:
    pci = PciDevice(pci_id="0000:17:00.0", vendor_id=0x10DE, device_id=0x20F1, driver_version="580.95.02")
    host = Host(moid="host-1", name="esx-01", gpus=(Gpu(pci=pci, name="A100"),))
    package = SoftwarePackage(name="NVD-AIE-800", version="595.71.03-1OEM.800", vendor="NVD")
    other = package.model_copy(update={"name": "vmware-nvme"})
    assert driver_version(host, [package]) == "595.71.03-1OEM.800"
    assert driver_version(host, []) == "580.95.02"
    assert driver_version(host, [other]) == ""
    passed = pci.model_copy(update={"driver_version": "9.1.0"})
    assert driver_version(host.model_copy(update={"gpus": (Gpu(pci=passed, name="A100"),)}), []) == ""
