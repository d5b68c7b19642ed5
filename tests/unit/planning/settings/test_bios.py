"""BIOS settings: what shows them, that a hand sets them, and that nothing else is taken for a proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, gpu, hosts, nic, view
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.table import setting

CAPABLE = {"sriov": {"is_capable": True, "most": 8}}
IN_BEING = {"sriov": {"is_capable": True, "is_active": True, "functions": 4, "most": 8}}
NO_IOMMU = {"passthrough_capable": False}


def says(mode: str, **more: Any) -> dict[str, Any]:
    return {"shell": {"gpus": {GPU: {"host_vgpu_mode": mode}}}, **more}


def served(name: str = "A100") -> HostView:
    return view(gpus=(gpu(name=name, graphics_type=GraphicsType.SHARED_DIRECT),))


WITHOUT_IOMMU = view(gpus=(gpu(pci=NO_IOMMU),), nics=(nic(pci=NO_IOMMU),))

CASES = (
    Case("bios_sriov", Situation.RIGHT, view(facts=says("SR-IOV")), hosts(bios={"sriov": True}), "enabled"),
    Case(
        "bios_sriov", Situation.RIGHT, view(nics=(nic(pci=IN_BEING),)), hosts(bios={"sriov": True}), "enabled"
    ),
    Case(
        "bios_sriov",
        Situation.WRONG,
        view(facts=says("Non SR-IOV")),
        hosts(bios={"sriov": True}),
        "enabled",
        by_hand="SR-IOV Global Enable",
    ),
    Case(
        "bios_sriov",
        Situation.OFF,
        view(facts=says("SR-IOV")),
        hosts(bios={"sriov": False}),
        "disabled",
        by_hand="set BIOS SR-IOV to disabled",
    ),
    Case(
        "bios_sriov",
        Situation.PENDING,
        view(facts=says("SR-IOV")),
        hosts(bios={"sriov": True}),
        "enabled",
        has_one_value=True,
    ),
    Case(
        "bios_sriov",
        Situation.NOT_OFFERED,
        view(facts=says("Non SR-IOV")),
        hosts(bios={"sriov": True}),
        "enabled",
        by_hand="set BIOS SR-IOV to enabled",
    ),
    Case(
        "bios_sriov",
        Situation.UNREAD,
        view(),
        hosts(bios={"sriov": True}),
        "enabled",
        unread="no GPU driver reports",
    ),
    Case("bios_above_4g", Situation.RIGHT, served(), hosts(bios={"above_4g": True}), "enabled"),
    Case(
        "bios_above_4g",
        Situation.WRONG,
        served(),
        hosts(bios={"above_4g": False}),
        "disabled",
        by_hand="Memory Mapped I/O above 4GB",
    ),
    Case(
        "bios_above_4g",
        Situation.OFF,
        served(),
        hosts(bios={"above_4g": False}),
        "disabled",
        by_hand="set BIOS 64-bit BARs to disabled",
    ),
    Case(
        "bios_above_4g",
        Situation.PENDING,
        served(),
        hosts(bios={"above_4g": True}),
        "enabled",
        has_one_value=True,
    ),
    Case(
        "bios_above_4g",
        Situation.NOT_OFFERED,
        view(),
        hosts(bios={"above_4g": True}),
        "enabled",
        by_hand="Above 4G Decoding",
    ),
    Case(
        "bios_above_4g",
        Situation.UNREAD,
        view(),
        hosts(bios={"above_4g": True}),
        "enabled",
        unread="not detectable",
    ),
    Case("bios_iommu", Situation.RIGHT, view(), hosts(bios={"iommu": True}), "enabled"),
    Case(
        "bios_iommu",
        Situation.WRONG,
        WITHOUT_IOMMU,
        hosts(bios={"iommu": True}),
        "enabled",
        by_hand="Virtualization Technology",
    ),
    Case(
        "bios_iommu",
        Situation.OFF,
        view(),
        hosts(bios={"iommu": False}),
        "disabled",
        by_hand="set BIOS IOMMU to disabled",
    ),
    Case("bios_iommu", Situation.PENDING, view(), hosts(bios={"iommu": True}), "enabled", has_one_value=True),
    Case(
        "bios_iommu",
        Situation.NOT_OFFERED,
        WITHOUT_IOMMU,
        hosts(bios={"iommu": True}),
        "enabled",
        by_hand="Intel VT-d",
    ),
    Case(
        "bios_iommu",
        Situation.UNREAD,
        view(gpus=(), nics=()),
        hosts(bios={"iommu": True}),
        "enabled",
        unread="were not read",
    ),
)


@pytest.mark.parametrize("key", ["bios_sriov", "bios_above_4g", "bios_iommu"])
def test_a_hand_sets_it_over_a_cold_boot_and_no_key_is_no_wish(key: str) -> None:
    found = setting(key)
    wanted = hosts(bios={"sriov": True, "above_4g": True, "iommu": True})
    desired = wish_of(found, wanted, view())
    assert found.impact(view(), desired) is Impact.HOST_COLD_BOOT
    assert found.write(view(), [desired]) == ()
    assert list(found.desired_settings(hosts(), view())) == []
    assert list(found.desired_settings(hosts(bios={}), view())) == []


@pytest.mark.parametrize(
    ("key", "name", "more", "is_asked"),
    [
        ("bios_sriov", "T4", {}, False),
        ("bios_sriov", "A100", {}, True),
        ("bios_sriov", "T4", {"nics": {"use": "sriov", "vfs": 4}}, True),
        ("bios_sriov", "T4", {"nics": {"use": "host"}}, False),
        ("bios_above_4g", "A16", {}, False),
        ("bios_above_4g", "A100", {}, True),
        ("bios_iommu", "T4", {}, True),
    ],
)
def test_nothing_is_asked_that_no_gpu_has_a_use_for(
    key: str, name: str, more: dict[str, Any], *, is_asked: bool
) -> None:
    bios = {"sriov": True, "above_4g": True, "iommu": True}
    desired_settings = list(
        setting(key).desired_settings(hosts(bios=bios, **more), view(gpus=(gpu(name=name),)))
    )
    assert bool(desired_settings) is is_asked
    unknown = replace(view(gpus=(gpu(name=name),)), boards={})
    assert list(setting(key).desired_settings(hosts(bios=bios), unknown))


@pytest.mark.parametrize(
    ("shown", "impact", "told"),
    [
        (served("A16"), Impact.NONE, "check that BIOS 64-bit BARs is enabled in esx-01's BIOS"),
        (view(gpus=()), Impact.NONE, "check that BIOS 64-bit BARs is enabled in esx-01's BIOS"),
        (view(gpus=(gpu(graphics_type=GraphicsType.BASIC),)), Impact.HOST_COLD_BOOT, "set BIOS"),
    ],
)
def test_only_a_host_without_a_driver_is_taken_down_to_see_its_bios(
    shown: HostView, impact: Impact, told: str
) -> None:
    found = setting("bios_above_4g")
    desired = DesiredSetting("bios_above_4g", "enabled")
    assert found.impact(shown, desired) is impact
    assert found.by_hand(shown, desired).startswith(told)


@pytest.mark.parametrize(
    ("booted", "impact"), [("2026-11-01T06:00Z", Impact.HOST_COLD_BOOT), ("2026-11-20T21:00Z", Impact.NONE)]
)
def test_a_host_is_taken_down_once_to_see_its_bios(booted: str, impact: Impact) -> None:
    mark = {"plan": "demo", "since": "2026-11-20T20:00:00Z", "maintenance": True, "restart": "shutdown"}
    bare = (gpu(graphics_type=GraphicsType.BASIC),)
    shown = view(gpus=bare, facts={"mark": mark, "boot_time": booted})
    assert setting("bios_sriov").impact(shown, DesiredSetting("bios_sriov", "enabled")) is impact


def test_a_bios_that_is_known_to_be_off_takes_a_cold_boot() -> None:
    shown = view(gpus=(gpu(graphics_type=GraphicsType.SHARED_DIRECT),), facts=says("Non SR-IOV"))
    desired = DesiredSetting("bios_sriov", "enabled")
    assert setting("bios_sriov").impact(shown, desired) is Impact.HOST_COLD_BOOT


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (view(gpus=(gpu(name="T4"),), facts=says("Non SR-IOV")), None),
        (view(gpus=(gpu(name="A100"),), facts=says("Non SR-IOV")), "disabled"),
        (view(nics=(nic(pci=CAPABLE),), facts=says("Non SR-IOV")), "disabled"),
        (view(nics=(nic(pci=IN_BEING),), facts=says("Non SR-IOV")), "enabled"),
        (view(nics=(nic(pci=CAPABLE),)), None),
        (view(nics=(nic(pci={"sriov": {"is_capable": False}}),)), None),
    ],
)
def test_what_shows_sriov(host: HostView, expected: str | None) -> None:
    assert setting("bios_sriov").read(host, "").configured == expected


@pytest.mark.parametrize(
    ("host", "is_proven"),
    [
        (served("A100"), True),
        (served("A16"), False),
        (view(gpus=(gpu(graphics_type=GraphicsType.BASIC),)), False),
        (view(gpus=()), False),
    ],
)
def test_only_a_served_gpu_with_a_large_bar_proves_64_bit_bars(host: HostView, is_proven: bool) -> None:
    assert (not setting("bios_above_4g").read(host, "").unread) is is_proven
