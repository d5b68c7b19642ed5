"""NVIDIA's firmware tools on a host: which are there, who installs them, what NIC firmware makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.unit.planning.settings.situations import Case, Situation
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.host_settings.entry import needs_of
from vgpu_cfg.planning.host_settings.nics.firmware_tools import KEY
from vgpu_cfg.planning.host_settings.nics.nic_firmware import NIC_FIRMWARE

MFT = {"name": "mft", "version": "4.28.0.881-0"}
NMST = {"name": "nmst", "version": "4.25.0.802-1OEM.802.0.0.21974771"}
BOOTED = datetime(2026, 11, 1, 8, tzinfo=UTC)
ZIPS = ("/vmfs/volumes/ds/mft.zip", "/vmfs/volumes/ds/nmst.zip")


def wanted(**keys: Any) -> Any:
    return hosts(firmware_tools={"version": "4.28.*", **keys})


CASES = (
    Case(KEY, Situation.RIGHT, view(facts={"software": (MFT, NMST)}), wanted(), "mft 4.28.*"),
    Case(
        KEY,
        Situation.WRONG,
        view(facts={"software": ()}),
        wanted(by="esxcli", depot=ZIPS),
        f"mft 4.28.* by esxcli from {ZIPS[0]} {ZIPS[1]}",
        found="none",
        writes=(
            EsxcliWrite(command="software.vib.install", arguments=(("depot", ZIPS[0]), ("depot", ZIPS[1]))),
        ),
    ),
    Case(
        KEY,
        Situation.WRONG,
        view(facts={"software": (MFT,)}),
        wanted(by="lifecycle"),
        "mft 4.28.* by lifecycle",
        found="only mft 4.28.0.881-0",
        by_hand="to the cluster's image",
    ),
    Case(
        KEY,
        Situation.OFF,
        view(facts={"software": (MFT | {"version": "4.14.3.3-0"}, NMST)}),
        wanted(),
        "mft 4.28.*",
        found="mft 4.14.3.3-0",
        by_hand="esxcli software vib install --depot=/vmfs/volumes/DATASTORE/MFT-TOOLS.zip",
    ),
    Case(
        KEY,
        Situation.PENDING,
        view(
            facts={
                "software": (),
                "reboot_required": True,
                "boot_time": BOOTED,
                "mark": {"plan": "demo", "since": BOOTED, "waiting": {KEY: BOOTED}},
            }
        ),
        wanted(),
        "mft 4.28.*",
    ),
    Case(
        KEY,
        Situation.NOT_OFFERED,
        view(facts={"software": ()}),
        wanted(),
        "mft 4.28.*",
        by_hand="NATIVE-NMST.zip; then reboot",
    ),
    Case(
        KEY,
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.SOFTWARE: "not permitted"}}),
        wanted(),
        "mft 4.28.*",
        unread="not permitted",
    ),
)


def test_nic_firmware_waits_for_its_tools_and_not_for_the_nic_to_be_handed_out() -> None:
    nics = {"use": "passthrough", "firmware": {"ATS_ENABLED": True}}
    entry = hosts(nics=nics, firmware_tools={"by": "hand"})
    (first, *_) = NIC_FIRMWARE.desired_settings(entry, view())
    assert needs_of(NIC_FIRMWARE, first) == (KEY,)
