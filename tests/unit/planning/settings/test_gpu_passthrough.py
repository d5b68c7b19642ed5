"""GPUs that are handed through whole: when, how, and when not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, GPU_2, NIC, gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import PassthroughDevice, PassthroughWrite, ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.table import setting

USE, LABEL = setting("gpu_passthrough"), setting("gpu_label")
PASS, SERVE = hosts(gpus={"use": "passthrough"}), hosts(gpus={"use": "vgpu"})
NAMED, NAMELESS = hosts(gpus={"label": "a100-pt"}), hosts(gpus={"label": ""})


def host(*, enabled: bool = False, active: bool = False, label: str | None = None, **more: Any) -> HostView:
    shown = {"passthrough_enabled": enabled, "passthrough_active": active, "hardware_label": label}
    return view(gpus=(gpu(pci=shown),), **more)


def write(**asked: Any) -> PassthroughWrite:
    return PassthroughWrite(devices=(PassthroughDevice(pci_id=GPU, **asked),))


CASES = (
    Case("gpu_passthrough", Situation.RIGHT, host(enabled=True, active=True), PASS, "passthrough", GPU),
    Case("gpu_passthrough", Situation.RIGHT, host(), SERVE, "host", GPU),
    Case(
        "gpu_passthrough",
        Situation.RIGHT,
        view(gpus=(gpu(graphics_type=GraphicsType.SHARED),), pci_devices=()),
        SERVE,
        "host",
        GPU,
    ),
    Case(
        "gpu_passthrough",
        Situation.WRONG,
        host(),
        PASS,
        "passthrough",
        GPU,
        writes=(write(is_passthrough=True),),
    ),
    Case(
        "gpu_passthrough",
        Situation.OFF,
        host(enabled=True, active=True),
        SERVE,
        "host",
        GPU,
        writes=(write(is_passthrough=False),),
    ),
    Case("gpu_passthrough", Situation.PENDING, host(enabled=True), PASS, "passthrough", GPU),
    Case("gpu_passthrough", Situation.PENDING, host(active=True), SERVE, "host", GPU),
    Case(
        "gpu_passthrough",
        Situation.NOT_OFFERED,
        host(),
        PASS,
        "passthrough",
        GPU,
        other=ShellWrite(
            commands=(("esxcli", "hardware", "pci", "pcipassthru", "set", "-d", GPU, "-e", "true"),)
        ),
    ),
    Case(
        "gpu_passthrough",
        Situation.UNREAD,
        view(pci_devices=()),
        PASS,
        "passthrough",
        GPU,
        unread="not in the host's list",
    ),
    Case("gpu_label", Situation.RIGHT, host(label="a100-pt"), NAMED, "a100-pt", GPU),
    Case("gpu_label", Situation.RIGHT, host(), NAMELESS, "", GPU),
    Case("gpu_label", Situation.WRONG, host(), NAMED, "a100-pt", GPU, writes=(write(label="a100-pt"),)),
    Case("gpu_label", Situation.OFF, host(label="a100-pt"), NAMELESS, "", GPU, writes=(write(label=""),)),
    Case(
        "gpu_label",
        Situation.PENDING,
        host(label="a100-pt"),
        NAMED,
        "a100-pt",
        GPU,
        has_one_value=True,
    ),
    Case("gpu_label", Situation.NOT_OFFERED, host(), NAMED, "a100-pt", GPU, by_hand="Hardware Label"),
    Case(
        "gpu_label",
        Situation.UNREAD,
        view(pci_devices=()),
        NAMED,
        "a100-pt",
        GPU,
        unread="not in the host's list",
    ),
)


@pytest.mark.parametrize("found", [USE, LABEL], ids=["use", "label"])
def test_no_key_and_a_gpu_to_leave_are_no_wish(found: Any) -> None:
    assert list(found.desired_settings(hosts(gpus={"sharing": "mig"}), host())) == []
    assert list(found.desired_settings(hosts(gpus={"use": "leave", "label": "x"}), host())) == []


@pytest.mark.parametrize(
    ("rebinds", "impact"), [(True, Impact.HOST_MAINTENANCE), (False, Impact.HOST_REBOOT)]
)
def test_a_host_that_can_rebind_needs_no_reboot(rebinds: bool, impact: Impact) -> None:
    shown = host(facts={"rebind_without_reboot": rebinds})
    assert USE.impact(shown, wish_of(USE, PASS, shown, GPU)) is impact


@pytest.mark.parametrize(
    ("enabled", "active", "entry", "impact"),
    [
        (True, False, PASS, Impact.HOST_REBOOT),
        (False, True, SERVE, Impact.HOST_REBOOT),
        (True, True, SERVE, Impact.HOST_MAINTENANCE),
    ],
)
def test_what_was_written_and_did_not_rebind_waits_for_a_reboot(
    enabled: bool, active: bool, entry: Any, impact: Impact
) -> None:
    shown = host(enabled=enabled, active=active, facts={"rebind_without_reboot": True})
    assert USE.impact(shown, wish_of(USE, entry, shown, GPU)) is impact


def test_a_gpu_is_not_taken_back_from_a_vm_that_names_it() -> None:
    shown = replace(host(enabled=True, active=True), holders={GPU: ("pt-01",)})
    objection = USE.objects(shown, wish_of(USE, SERVE, shown, GPU))
    assert objection is not None
    assert objection.code is Code.GPU_SERVES_VGPUS
    assert objection.message == "pt-01 has it as a DirectPath device"
    assert USE.objects(shown, wish_of(USE, PASS, shown, GPU)) is None
    other = replace(shown, holders={GPU_2: ("pt-01",)})
    assert USE.objects(other, wish_of(USE, SERVE, other, GPU)) is None


def test_a_label_disturbs_nothing() -> None:
    assert LABEL.impact(host(), wish_of(LABEL, NAMED, host(), GPU)) is Impact.NONE


IOMMU_OFF = {"passthrough_capable": False}
VMS = ("vm-1", "vm-2")


@pytest.mark.parametrize(
    ("shown", "entry", "code"),
    [
        (host(), PASS, None),
        (view(gpus=(gpu(vm_moids=VMS),)), PASS, Code.GPU_SERVES_VGPUS),
        (view(gpus=(gpu(vm_moids=VMS),)), SERVE, None),
        (view(gpus=(gpu(vm_moids=VMS, pci={"passthrough_active": True}),)), PASS, None),
        (view(gpus=(gpu(name="H100XM"),)), PASS, Code.NVSWITCH_PASSTHROUGH),
        (view(gpus=(gpu(name="H100XM"),), version="9.0.0"), PASS, None),
        (view(gpus=(gpu(name="H100XM"),)), SERVE, None),
        (view(gpus=(gpu(pci=IOMMU_OFF),)), PASS, Code.NOT_SUPPORTED),
        (
            view(gpus=(gpu(pci=IOMMU_OFF),)),
            hosts(gpus={"use": "passthrough"}, bios={"iommu": True}),
            None,
        ),
    ],
)
def test_what_must_not_be_passed_through(shown: HostView, entry: Any, code: Code | None) -> None:
    objection = USE.objects(shown, wish_of(USE, entry, shown, GPU))
    assert (objection.code if objection else None) == code


@pytest.mark.parametrize(
    ("version", "entry", "code"),
    [
        ("7.0.1", NAMED, Code.NOT_SUPPORTED),
        ("7.0.1", NAMELESS, None),
        ("7.0.2", NAMED, None),
    ],
)
def test_labels_need_7_0_u2(version: str, entry: Any, code: Code | None) -> None:
    shown = host(version=version)
    objection = LABEL.objects(shown, wish_of(LABEL, entry, shown, GPU))
    assert (objection.code if objection else None) == code


def test_use_and_label_of_all_devices_are_one_call_those_of_nics_too() -> None:
    shown = view(gpus=(gpu(), gpu(GPU_2)))
    entry = hosts(gpus={"use": "passthrough", "label": "pt"})
    desired_settings = [*USE.desired_settings(entry, shown), *LABEL.desired_settings(entry, shown)]
    desired_settings.append(DesiredSetting("nic_passthrough", "passthrough", NIC))
    assert tuple(USE.write(shown, desired_settings)) == (
        PassthroughWrite(
            devices=(
                PassthroughDevice(pci_id=GPU, is_passthrough=True, label="pt"),
                PassthroughDevice(pci_id=GPU_2, is_passthrough=True, label="pt"),
                PassthroughDevice(pci_id=NIC, is_passthrough=True),
            )
        ),
    )


def test_shown_as_it_will_be() -> None:
    shown = view(gpus=(gpu(), gpu(GPU_2)))
    desired = wish_of(USE, PASS, shown, GPU)
    after = LABEL.show(USE.show(shown.host, desired), wish_of(LABEL, NAMED, shown, GPU))
    assert [one.is_passthrough for one in after.gpus] == [True, False]
    device = after.device(GPU)
    assert device is not None
    assert (device.passthrough_enabled, device.passthrough_active, device.hardware_label) == (
        True,
        True,
        "a100-pt",
    )


def test_the_runbook_tells_the_way_back() -> None:
    how = USE.how(host(), wish_of(USE, PASS, host(), GPU))
    assert how.commands == (f"esxcli hardware pci pcipassthru set -d {GPU} -e true",)
    assert how.undo == (f"esxcli hardware pci pcipassthru set -d {GPU} -e false",)
