"""Mixed or same size: from 8.0 U3 on, on an empty GPU out of MIG mode, and again after every reboot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import GraphicsWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

MODE = setting("vgpu_mode")
SAME, MIXED = VgpuMode.SAME_SIZE, VgpuMode.MIXED_SIZE
WANT_MIXED, WANT_SAME = hosts(gpus={"vgpu_mode": "mixed_size"}), hosts(gpus={"vgpu_mode": "same_size"})
DRIVER: dict[str, Any] = {
    "software": ({"name": "NVD-AIE-800", "version": "580.95.02"},),
    "modules": {"nvidia": ""},
}


def host(mode: VgpuMode | None, name: str = "L40S", **more: Any) -> HostView:
    shown = gpu(name=name, vgpu_mode=mode, sharing=more.pop("sharing", mode and Sharing.TIME_SLICED))
    return view(**{"gpus": (shown,), "facts": DRIVER, **more})


CASES = (
    Case("vgpu_mode", Situation.RIGHT, host(MIXED), WANT_MIXED, "mixed_size", GPU),
    Case("vgpu_mode", Situation.RIGHT, host(None, version="8.0.2"), WANT_SAME, "same_size", GPU),
    Case(
        "vgpu_mode",
        Situation.WRONG,
        host(SAME),
        WANT_MIXED,
        "mixed_size",
        GPU,
        writes=(GraphicsWrite(vgpu_modes={GPU: MIXED}),),
    ),
    Case(
        "vgpu_mode",
        Situation.OFF,
        host(MIXED),
        WANT_SAME,
        "same_size",
        GPU,
        writes=(GraphicsWrite(vgpu_modes={GPU: SAME}),),
    ),
    Case("vgpu_mode", Situation.PENDING, host(MIXED), WANT_MIXED, "mixed_size", GPU, has_one_value=True),
    Case(
        "vgpu_mode",
        Situation.NOT_OFFERED,
        host(SAME),
        WANT_MIXED,
        "mixed_size",
        GPU,
        by_hand="Graphics Devices > {device} > Edit: Mixed size",
    ),
    Case("vgpu_mode", Situation.UNREAD, host(None), WANT_MIXED, "mixed_size", GPU, unread="no vGPU mode"),
)


def test_no_key_is_no_wish() -> None:
    assert list(MODE.desired_settings(hosts(gpus={"use": "vgpu"}), host(SAME))) == []
    assert (
        list(MODE.desired_settings(hosts(gpus={"use": "leave", "vgpu_mode": "mixed_size"}), host(SAME))) == []
    )


def test_what_a_reboot_left_configured_is_written_again_and_not_waited_for() -> None:
    shown = view(gpus=(gpu(name="L40S", vgpu_mode=SAME, configured_vgpu_mode=MIXED),), facts=DRIVER)
    assert MODE.read(shown, GPU).configured == "same_size"
    assert MODE.read(shown, GPU).runtime is None


def test_it_needs_an_empty_gpu_and_is_dropped_by_a_reboot() -> None:
    desired = wish_of(MODE, WANT_MIXED, host(SAME), GPU)
    assert MODE.impact(host(SAME), desired) is Impact.HOST_MAINTENANCE
    assert MODE.is_dropped_by_reboot(host(SAME), desired)
    assert not MODE.is_dropped_by_reboot(host(MIXED), wish_of(MODE, WANT_SAME, host(MIXED), GPU))


@pytest.mark.parametrize(
    ("rule", "shown", "code"),
    [
        ({}, host(SAME), None),
        ({}, host(SAME, version="8.0.2"), Code.NOT_SUPPORTED),
        ({}, host(SAME, name="T4"), Code.NOT_SUPPORTED),
        ({}, host(None, name="A100", sharing=Sharing.MIG), Code.NOT_SUPPORTED),
        ({"sharing": "mig"}, host(SAME, name="A100"), Code.NOT_SUPPORTED),
        ({"sharing": "time_sliced"}, host(None, name="A100", sharing=Sharing.MIG), None),
        ({"scheduler": "fixed_share"}, host(SAME), Code.NOT_SUPPORTED),
        ({"scheduler": "equal_share"}, host(SAME), None),
        (
            {},
            host(SAME, facts={**DRIVER, "modules": {"nvidia": "NVreg_RegistryDwords=RmPVMRL=0x11"}}),
            Code.NOT_SUPPORTED,
        ),
        (
            {"scheduler": "best_effort"},
            host(SAME, facts={**DRIVER, "modules": {"nvidia": "NVreg_RegistryDwords=RmPVMRL=0x11"}}),
            None,
        ),
        ({"use": "passthrough"}, host(SAME), Code.NOT_SUPPORTED),
        ({}, host(SAME, facts={}), Code.NO_HOST_DRIVER),
    ],
)
def test_where_mixed_sizes_cannot_be(rule: dict[str, Any], shown: HostView, code: Code | None) -> None:
    entry = hosts(gpus={"vgpu_mode": "mixed_size", **rule})
    objection = MODE.objects(shown, wish_of(MODE, entry, shown, GPU))
    assert (objection.code if objection else None) == code


def test_shown_as_it_will_be() -> None:
    after = MODE.show(host(SAME).host, wish_of(MODE, WANT_MIXED, host(SAME), GPU))
    assert after.gpus[0].vgpu_mode is MIXED
