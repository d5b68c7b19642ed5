"""NICs that are handed out or taken back: what did not rebind, and whom a device is not taken from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.planning.settings.situations import wish_of
from tests.unit.planning.settings.test_nics import PASSTHROUGH, handed_out, rule
from tests.unit.planning.settings.views import NIC, NIC_2, nic, view
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.planning.findings.codes import Code


@pytest.mark.parametrize(
    ("enabled", "active", "use", "impact"),
    [
        (True, False, "passthrough", Impact.HOST_REBOOT),
        (False, True, "host", Impact.HOST_REBOOT),
        (False, False, "passthrough", Impact.HOST_MAINTENANCE),
        (True, True, "host", Impact.HOST_MAINTENANCE),
    ],
)
def test_what_was_written_and_did_not_rebind_waits_for_a_reboot(
    enabled: bool, active: bool, use: str, impact: Impact
) -> None:
    shown = {"passthrough_enabled": enabled, "passthrough_active": active}
    seen = view(nics=(nic(pci=shown),), facts={"rebind_without_reboot": True})
    assert PASSTHROUGH.impact(seen, wish_of(PASSTHROUGH, rule(use=use), seen, NIC)) is impact


@pytest.mark.parametrize("use", ["host", "sriov"])
def test_a_nic_is_not_taken_back_from_a_vm_that_names_it(use: str) -> None:
    seen = handed_out()
    desired = wish_of(PASSTHROUGH, rule(use=use), seen, NIC)
    assert PASSTHROUGH.objects(seen, desired) is None
    assert PASSTHROUGH.objects(replace(seen, holders={NIC_2: ("pt-01",), "": ("odd",)}), desired) is None
    objection = PASSTHROUGH.objects(replace(seen, holders={NIC: ("pt-01", "pt-02")}), desired)
    assert objection is not None
    assert objection.code is Code.NIC_IN_USE
    assert objection.message == "pt-01, pt-02 have it as a DirectPath device"
