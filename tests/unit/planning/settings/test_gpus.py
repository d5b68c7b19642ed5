"""MIG mode and ECC: what nvidia-smi and the API tell, what is written, and what a reboot does to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, GPU_2, gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

MIG, ECC = setting("mig"), setting("ecc")
WANT_MIG, WANT_TURNS = hosts(gpus={"sharing": "mig"}), hosts(gpus={"sharing": "time_sliced"})
WANT_ECC, WANT_NO_ECC = hosts(gpus={"ecc": True}), hosts(gpus={"ecc": False})
PASSED = {"passthrough_active": True, "passthrough_enabled": True}
DRIVER = ({"name": "NVD-AIE-800", "version": "580.95.02"},)


def facts(**told: Any) -> dict[str, Any]:
    """Make facts with what nvidia-smi tells of the one GPU."""
    return {"software": DRIVER, "shell": {"gpus": {GPU: told}}}


def mig(*, current: bool, pending: bool, name: str = "A100") -> HostView:
    return view(gpus=(gpu(name=name),), facts=facts(mig_current=current, mig_pending=pending))


def ecc(*, current: bool, pending: bool) -> HostView:
    return view(facts=facts(ecc_current=current, ecc_pending=pending))


def run(option: str, value: str, pci_id: str = GPU) -> ShellWrite:
    return ShellWrite(commands=(("nvidia-smi", "-i", pci_id, option, value),))


CLOSED = view(facts={"software": DRIVER})
API_ONLY = view(gpus=(gpu(sharing=Sharing.MIG),), facts={"software": DRIVER})

CASES = (
    Case("mig", Situation.RIGHT, mig(current=True, pending=True), WANT_MIG, "enabled", GPU),
    Case("mig", Situation.RIGHT, API_ONLY, WANT_MIG, "enabled", GPU),
    Case("mig", Situation.RIGHT, mig(current=False, pending=False), WANT_TURNS, "disabled", GPU),
    Case(
        "mig",
        Situation.WRONG,
        mig(current=False, pending=False),
        WANT_MIG,
        "enabled",
        GPU,
        writes=(run("-mig", "1"),),
    ),
    Case(
        "mig",
        Situation.OFF,
        mig(current=True, pending=True),
        WANT_TURNS,
        "disabled",
        GPU,
        writes=(run("-mig", "0"),),
    ),
    Case("mig", Situation.PENDING, mig(current=False, pending=True), WANT_MIG, "enabled", GPU),
    Case(
        "mig",
        Situation.NOT_OFFERED,
        mig(current=False, pending=False),
        WANT_MIG,
        "enabled",
        GPU,
        by_hand=f"nvidia-smi -i {GPU} -mig 1",
    ),
    Case("mig", Situation.UNREAD, CLOSED, WANT_MIG, "enabled", GPU, unread="shell, which is closed"),
    Case("ecc", Situation.RIGHT, ecc(current=True, pending=True), WANT_ECC, "enabled", GPU),
    Case(
        "ecc",
        Situation.WRONG,
        ecc(current=False, pending=False),
        WANT_ECC,
        "enabled",
        GPU,
        writes=(run("-e", "1"),),
    ),
    Case(
        "ecc",
        Situation.OFF,
        ecc(current=True, pending=True),
        WANT_NO_ECC,
        "disabled",
        GPU,
        writes=(run("-e", "0"),),
    ),
    Case("ecc", Situation.PENDING, ecc(current=True, pending=False), WANT_NO_ECC, "disabled", GPU),
    Case(
        "ecc",
        Situation.NOT_OFFERED,
        ecc(current=False, pending=False),
        WANT_ECC,
        "enabled",
        GPU,
        by_hand=f"nvidia-smi -i {GPU} -e 1",
    ),
    Case("ecc", Situation.UNREAD, CLOSED, WANT_ECC, "enabled", GPU, unread="shell, which is closed"),
)


@pytest.mark.parametrize("key", ["mig", "ecc"])
def test_no_key_is_no_wish(key: str) -> None:
    assert list(setting(key).desired_settings(hosts(gpus={"use": "vgpu"}), view())) == []
    assert (
        list(
            setting(key).desired_settings(hosts(gpus={"use": "leave", "sharing": "mig", "ecc": True}), view())
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "impact", "is_dropped"),
    [
        ("A100", Impact.HOST_REBOOT, False),
        ("H100", Impact.HOST_MAINTENANCE, True),
        ("B200X", Impact.HOST_MAINTENANCE, True),
    ],
)
def test_ampere_keeps_mig_over_a_reboot_and_hopper_loses_it(
    name: str, impact: Impact, is_dropped: bool
) -> None:
    host = mig(current=False, pending=False, name=name)
    desired = wish_of(MIG, WANT_MIG, host, GPU)
    assert MIG.impact(host, desired) is impact
    assert MIG.is_dropped_by_reboot(host, desired) is is_dropped
    assert not MIG.is_dropped_by_reboot(host, wish_of(MIG, WANT_TURNS, host, GPU))


def test_a_board_nobody_knows_is_taken_to_need_a_reboot() -> None:
    host = view(gpus=(gpu(pci={"device_id": 0xFFFF}),))
    assert MIG.impact(host, wish_of(MIG, WANT_MIG, host, GPU)) is Impact.HOST_REBOOT


def test_a_board_without_mig_is_not_asked_to_leave_it() -> None:
    assert list(MIG.desired_settings(WANT_TURNS, view(gpus=(gpu(name="L40S"),)))) == []


@pytest.mark.parametrize(
    ("host", "rule", "code"),
    [
        (mig(current=False, pending=False), {}, None),
        (view(gpus=(gpu(name="L40S"),)), {}, Code.NOT_SUPPORTED),
        (view(gpus=(gpu(pci={"device_id": 0xFFFF}),), facts=facts()), {}, Code.NOT_SUPPORTED),
        (mig(current=False, pending=False), {"use": "passthrough"}, Code.NOT_SUPPORTED),
        (view(), {}, Code.NO_HOST_DRIVER),
    ],
)
def test_where_mig_cannot_be(host: HostView, rule: dict[str, Any], code: Code | None) -> None:
    desired = wish_of(MIG, hosts(gpus={"sharing": "mig", **rule}), host, GPU)
    objection = MIG.objects(host, desired)
    assert (objection.code if objection else None) == code


def test_ecc_of_a_gpu_that_is_to_be_passed_through_is_its_guests_matter() -> None:
    desired = wish_of(ECC, hosts(gpus={"ecc": True, "use": "passthrough"}), CLOSED, GPU)
    objection = ECC.objects(CLOSED, desired)
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (view(version="8.0.2", gpus=(gpu(sharing=Sharing.MIG),)), "shell, which is closed"),
        (view(facts={"unread": {FactGroup.SHELL_GPUS: "no route to host"}}), "no route to host"),
        (view(facts={"shell": {"unread": {"": "nvidia-smi: not found"}}}), "not found"),
        (view(facts={"shell": {"unread": {GPU: "GPU is lost"}}}), "is lost"),
        (view(facts={"shell": {}}), "does not list the GPU"),
        (view(gpus=(gpu(pci=PASSED),), facts={"shell": {}}), "the GPU is in passthrough mode"),
    ],
)
def test_why_mig_is_not_known(host: HostView, reason: str) -> None:
    assert reason in MIG.read(host, GPU).unread


def test_a_gpu_for_which_nvidia_smi_prints_na() -> None:
    host = view(facts=facts())
    assert MIG.read(host, GPU).configured == "disabled"
    assert ECC.read(host, GPU).is_absent


def test_several_gpus_are_one_call_of_several_commands() -> None:
    host = view(gpus=(gpu(), gpu(GPU_2)))
    (write,) = MIG.write(host, list(MIG.desired_settings(WANT_MIG, host)))
    assert write == ShellWrite(
        commands=(("nvidia-smi", "-i", GPU, "-mig", "1"), ("nvidia-smi", "-i", GPU_2, "-mig", "1"))
    )


def test_shown_as_it_will_be() -> None:
    host = view(gpus=(gpu(vgpu_mode=VgpuMode.SAME_SIZE, sharing=Sharing.TIME_SLICED), gpu(GPU_2)))
    (desired, _) = MIG.desired_settings(WANT_MIG, host)
    after = MIG.show(host.host, desired)
    assert [one.sharing for one in after.gpus] == [Sharing.MIG, None]
    assert after.gpus[0].vgpu_mode is None
    (desired, _) = MIG.desired_settings(WANT_TURNS, host)
    assert MIG.show(after, desired).gpus[0].sharing is Sharing.TIME_SLICED


@pytest.mark.parametrize(("name", "share"), [("A100", "no framebuffer"), ("L40S", "1/16 of the framebuffer")])
def test_the_runbook_says_what_ecc_costs(name: str, share: str) -> None:
    host = view(gpus=(gpu(name=name),))
    assert share in ECC.how(host, wish_of(ECC, WANT_ECC, host, GPU)).why


@pytest.mark.parametrize(("name", "reboots"), [("A100", True), ("H100", False)])
def test_the_way_back_reboots_only_where_mig_takes_it(name: str, reboots: bool) -> None:
    host = mig(current=False, pending=False, name=name)
    how = MIG.how(host, wish_of(MIG, WANT_MIG, host, GPU))
    assert how.commands == (f"nvidia-smi -i {GPU} -mig 1",)
    assert ("esxcli system shutdown reboot --reason=MIG" in how.undo) is reboots
    assert how.undo[0] == f"nvidia-smi -i {GPU} -mig 0"
