"""The scheduler policy: one key in a string that belongs to others too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, GPU_2, gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, ModuleWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.gpus.scheduler import read_policy
from vgpu_cfg.planning.host_settings.table import setting

SCHEDULER = setting("scheduler")
EACH = "NVreg_RegistryDwordsPerDevice="
DRIVER = ({"name": "NVD-AIE-800", "version": "580.95.02"},)
PASSED = {"passthrough_active": True, "passthrough_enabled": True}


def host(options: str, *gpus: Any, **more: Any) -> HostView:
    return view(gpus=gpus or (gpu(),), facts={"software": DRIVER, "modules": {"nvidia": options}}, **more)


def want(policy: str) -> Any:
    return hosts(gpus={"scheduler": policy})


FIXED = "NVreg_RegistryDwords=RmPVMRL=0x11"

CASES = (
    Case("scheduler", Situation.RIGHT, host(FIXED), want("fixed_share"), "fixed_share", GPU),
    Case("scheduler", Situation.RIGHT, host(""), want("best_effort"), "best_effort", GPU),
    Case(
        "scheduler",
        Situation.WRONG,
        host("NVreg_IgnoreMMIOCheck=1"),
        want("equal_share"),
        "equal_share",
        GPU,
        writes=(
            ModuleWrite(
                module="nvidia",
                options="NVreg_IgnoreMMIOCheck=1 NVreg_RegistryDwords=RmPVMRL=0x01",
                before="NVreg_IgnoreMMIOCheck=1",
            ),
        ),
    ),
    Case(
        "scheduler",
        Situation.OFF,
        host(f"a=1 {FIXED} b=2"),
        want("best_effort"),
        "best_effort",
        GPU,
        writes=(ModuleWrite(module="nvidia", options="a=1 b=2", before=f"a=1 {FIXED} b=2"),),
    ),
    Case(
        "scheduler",
        Situation.PENDING,
        host(FIXED),
        want("fixed_share"),
        "fixed_share",
        GPU,
        has_one_value=True,
    ),
    Case(
        "scheduler",
        Situation.NOT_OFFERED,
        host(""),
        want("fixed_share"),
        "fixed_share",
        GPU,
        other=EsxcliWrite(
            command="system.module.parameters.set",
            arguments=(("module", "nvidia"), ("parameter-string", FIXED)),
        ),
    ),
    Case(
        "scheduler",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.MODULES: "not permitted"}}),
        want("fixed_share"),
        "fixed_share",
        GPU,
        unread="not permitted",
    ),
    Case(
        "scheduler",
        Situation.UNREAD,
        view(),
        want("fixed_share"),
        "fixed_share",
        GPU,
        unread="module nvidia does not exist",
    ),
)


def test_no_key_is_no_wish() -> None:
    assert list(SCHEDULER.desired_settings(hosts(gpus={"use": "vgpu"}), host(""))) == []


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ("0x00", "best_effort"),
        ("0", "best_effort"),
        ("0x01", "equal_share"),
        ("1", "equal_share"),
        ("0x00030001", "equal_share"),
        ("0x00030003", "equal_share"),
        ("0x11", "fixed_share"),
        ("0x00180011", "fixed_share"),
        ("0x3CFFF011", "fixed_share"),
        ("0x07", "0x07"),
        ("odd", "odd"),
    ],
)
def test_what_a_value_stands_for(value: str, policy: str) -> None:
    assert read_policy(host(f"NVreg_RegistryDwords=RmPVMRL={value}"), GPU) == policy


@pytest.mark.parametrize(
    "pci",
    [GPU, "21:00", "0000:21:00", "0:21:0.0", "0000:21:00.0 "],
    ids=["full", "short", "dbs", "0", "blank"],
)
def test_a_gpu_of_its_own_by_any_spelling_of_its_address(pci: str) -> None:
    options = f'{EACH}"pci={pci};Other=1;RmPVMRL=0x01"'
    assert read_policy(host(options), GPU) == "equal_share"
    assert read_policy(host(options), GPU_2) == "best_effort"


@pytest.mark.parametrize(
    ("before", "desired_settings", "after"),
    [
        ("", {GPU: "fixed_share", GPU_2: "fixed_share"}, FIXED),
        ("", {GPU: "fixed_share"}, f"{EACH}pci={GPU};RmPVMRL=0x11"),
        (
            "",
            {GPU: "fixed_share", GPU_2: "equal_share"},
            f"{EACH}pci={GPU};RmPVMRL=0x11;pci={GPU_2};RmPVMRL=0x01",
        ),
        (FIXED, {GPU: "best_effort"}, f"{EACH}pci={GPU_2};RmPVMRL=0x11"),
        (f"{EACH}pci={GPU_2};RmPVMRL=0x11", {GPU: "fixed_share"}, FIXED),
        (f"{EACH}pci={GPU_2};RmPVMRL=0x11", {GPU_2: "best_effort"}, ""),
        (
            f"{EACH}pci={GPU_2};RmPVMRL=0x11;Other=1",
            {GPU_2: "best_effort"},
            f"{EACH}pci={GPU_2};Other=1",
        ),
        (
            "NVreg_RegistryDwords=Other=1;RmPVMRL=0x11 x=1",
            {GPU: "equal_share", GPU_2: "equal_share"},
            "NVreg_RegistryDwords=Other=1;RmPVMRL=0x01 x=1",
        ),
        (
            "NVreg_RegistryDwords=RmPVMRL=0x00180011",
            {GPU: "fixed_share", GPU_2: "fixed_share"},
            "NVreg_RegistryDwords=RmPVMRL=0x00180011",
        ),
        (
            f"{EACH}pci=0000:99:00.0;RmPVMRL=0x01",
            {GPU: "fixed_share", GPU_2: "fixed_share"},
            f"{EACH}pci=0000:99:00.0;RmPVMRL=0x01 {FIXED}",
        ),
    ],
)
def test_what_is_written_for_two_gpus(before: str, desired_settings: dict[str, str], after: str) -> None:
    shown = host(before, gpu(), gpu(GPU_2))
    rules = [
        {"match": {"pci_id": pci_id}, "scheduler": policy} for pci_id, policy in desired_settings.items()
    ]
    asked = list(SCHEDULER.desired_settings(hosts(gpus=rules), shown))
    assert SCHEDULER.write(shown, asked) == (ModuleWrite(module="nvidia", options=after, before=before),)


def test_a_gpu_that_is_passed_through_does_not_count() -> None:
    shown = host("", gpu(), gpu(GPU_2, pci=PASSED))
    desired = wish_of(SCHEDULER, want("fixed_share"), shown, GPU)
    assert SCHEDULER.write(shown, [desired]) == (ModuleWrite(module="nvidia", options=FIXED),)


def test_a_module_that_is_not_there_yet_had_no_string_before() -> None:
    shown = view(facts={"modules": {}})
    desired = DesiredSetting("scheduler", "fixed_share", GPU)
    assert SCHEDULER.write(shown, [desired]) == (ModuleWrite(module="nvidia", options=FIXED, before=""),)


@pytest.mark.parametrize(
    ("rule", "shown", "code"),
    [
        ({}, host(""), None),
        ({"vgpu_mode": "mixed_size"}, host(""), Code.NOT_SUPPORTED),
        ({}, host("", gpu(vgpu_mode=VgpuMode.MIXED_SIZE)), Code.NOT_SUPPORTED),
        ({"vgpu_mode": "same_size"}, host("", gpu(vgpu_mode=VgpuMode.MIXED_SIZE)), None),
        ({"scheduler": "equal_share", "vgpu_mode": "mixed_size"}, host(""), None),
        ({"sharing": "mig"}, host(""), Code.NOT_SUPPORTED),
        ({}, host("", gpu(sharing=Sharing.MIG)), Code.NOT_SUPPORTED),
        ({"use": "passthrough"}, host(""), Code.NOT_SUPPORTED),
        ({}, view(), Code.NO_HOST_DRIVER),
    ],
)
def test_where_fixed_share_cannot_be(rule: dict[str, Any], shown: HostView, code: Code | None) -> None:
    entry = hosts(gpus={"scheduler": "fixed_share", **rule})
    objection = SCHEDULER.objects(shown, wish_of(SCHEDULER, entry, shown, GPU))
    assert (objection.code if objection else None) == code


def test_it_takes_a_reboot_and_the_way_back_is_the_string_as_it_was() -> None:
    shown = host("a=1")
    desired = wish_of(SCHEDULER, want("fixed_share"), shown, GPU)
    assert SCHEDULER.impact(shown, desired) is Impact.HOST_REBOOT
    how = SCHEDULER.how(shown, desired)
    assert how.commands[0] == f'esxcli system module parameters set -m nvidia -p "a=1 {FIXED}"'
    assert how.undo[0] == 'esxcli system module parameters set -m nvidia -p "a=1"'
    assert "policy FIXED_SHARE" in how.expected
