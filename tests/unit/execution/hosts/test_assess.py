"""What a reading amounts to: written and in force, written and waiting for a restart, or not there."""

from __future__ import annotations

import pytest

from tests.unit.planning.settings.views import GPU, gpu, view
from vgpu_cfg.changes.values import HostRef, SettingTarget
from vgpu_cfg.execution.hosts.assess import AssessedSetting, State, assess, not_shown
from vgpu_cfg.planning.host_settings.table import setting

TARGET = SettingTarget(setting="gpu_passthrough", device=GPU, value="passthrough", before="host")
REF = HostRef(name="esx-01", moid="host-1")


def assessed(*, enabled: bool, active: bool) -> AssessedSetting:
    """Judge a GPU to hand out on a host that can rebind without a reboot."""
    pci = {"passthrough_enabled": enabled, "passthrough_active": active}
    shown = view(gpus=(gpu(pci=pci),), facts={"rebind_without_reboot": True})
    return assess(shown, TARGET, setting("gpu_passthrough"), None)


@pytest.mark.parametrize(
    ("enabled", "active", "state", "is_written", "waits_for"),
    [
        (True, True, State.HOLDS, True, ""),
        (True, False, State.PENDING, True, "reboot"),
        (False, False, State.WRONG, False, ""),
    ],
)
def test_a_device_that_did_not_rebind_is_written_and_waits_for_a_reboot(
    enabled: bool, active: bool, state: State, is_written: bool, waits_for: str
) -> None:
    found = assessed(enabled=enabled, active=active)
    assert (found.state, found.is_written, found.reading.waits_for) == (state, is_written, waits_for)


def test_what_waits_is_told_with_the_way_on() -> None:
    error = not_shown(REF, [assessed(enabled=True, active=False)])
    assert error.message.endswith("is set to passthrough, pending reboot")
    assert error.remedy.startswith("the next run restarts the host to activate it")


def test_what_does_not_show_is_somebody_elses_doing() -> None:
    missing = [assessed(enabled=True, active=False), assessed(enabled=False, active=False)]
    assert not_shown(REF, missing).remedy.startswith("check what else changes this")
