"""Graphics types and assignment policy: one call for all, in force after xorg, and never without a driver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, GPU_2, gpu, hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, GraphicsWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.inventory import Gpu
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.gpus.graphics import write_graphics
from vgpu_cfg.planning.host_settings.table import setting

SHARED, DIRECT, BASIC = GraphicsType.SHARED, GraphicsType.SHARED_DIRECT, GraphicsType.BASIC
PERFORMANCE, CONSOLIDATION = AssignmentPolicy.PERFORMANCE, AssignmentPolicy.CONSOLIDATION
DRIVER = {"software": ({"name": "NVD-AIE-800", "version": "580.95.02"},)}
PASSED = {"passthrough_active": True, "passthrough_enabled": True}


def host(configured: GraphicsType, active: GraphicsType, **more: Any) -> HostView:
    """Observe a host whose default and whose only GPU have one configured and one active type."""
    shown = gpu(graphics_type=active, configured_graphics_type=configured)
    return view(**{"gpus": (shown,), "graphics_type": configured, "facts": DRIVER, **more})


def typed(pci_id: str, configured: GraphicsType, active: GraphicsType | None = None) -> Gpu:
    return gpu(pci_id, graphics_type=active or configured, configured_graphics_type=configured)


def by_esxcli(option: str, value: str) -> EsxcliWrite:
    return EsxcliWrite(command="graphics.host.set", arguments=((option, value),))


TYPE_ON, TYPE_OFF = hosts(graphics_type="sharedDirect"), hosts(graphics_type="shared")
VGPU = hosts(gpus={"use": "vgpu"})
POLICY = hosts(assignment_policy="consolidation")

CASES = (
    Case("graphics_type", Situation.RIGHT, host(DIRECT, DIRECT), TYPE_ON, "sharedDirect"),
    Case("graphics_type", Situation.RIGHT, view(gpus=(), graphics_type=DIRECT), TYPE_ON, "sharedDirect"),
    Case("graphics_type", Situation.RIGHT, host(SHARED, BASIC), TYPE_OFF, "shared"),
    Case(
        "graphics_type",
        Situation.WRONG,
        host(SHARED, SHARED),
        TYPE_ON,
        "sharedDirect",
        writes=(GraphicsWrite(default_type=DIRECT),),
    ),
    Case(
        "graphics_type",
        Situation.OFF,
        host(DIRECT, DIRECT),
        TYPE_OFF,
        "shared",
        writes=(GraphicsWrite(default_type=SHARED),),
    ),
    Case("graphics_type", Situation.PENDING, host(DIRECT, SHARED), TYPE_ON, "sharedDirect"),
    Case(
        "graphics_type",
        Situation.NOT_OFFERED,
        host(SHARED, SHARED),
        TYPE_ON,
        "sharedDirect",
        other=by_esxcli("default-type", "SharedPassthru"),
    ),
    Case("graphics_type", Situation.UNREAD, view(), TYPE_ON, "sharedDirect", unread="no graphics settings"),
    Case("gpu_graphics_type", Situation.RIGHT, host(DIRECT, DIRECT), VGPU, "sharedDirect", GPU),
    Case("gpu_graphics_type", Situation.RIGHT, host(SHARED, BASIC), TYPE_OFF, "shared", GPU),
    Case(
        "gpu_graphics_type",
        Situation.WRONG,
        view(gpus=(typed(GPU, DIRECT), typed(GPU_2, SHARED)), graphics_type=DIRECT, facts=DRIVER),
        VGPU,
        "sharedDirect",
        GPU_2,
        writes=(GraphicsWrite(graphics_types={GPU_2: DIRECT}),),
    ),
    Case(
        "gpu_graphics_type",
        Situation.OFF,
        host(DIRECT, DIRECT),
        TYPE_OFF,
        "shared",
        GPU,
        writes=(GraphicsWrite(graphics_types={GPU: SHARED}),),
    ),
    Case("gpu_graphics_type", Situation.PENDING, host(DIRECT, SHARED), VGPU, "sharedDirect", GPU),
    Case("gpu_graphics_type", Situation.PENDING, host(DIRECT, BASIC), VGPU, "sharedDirect", GPU),
    Case(
        "gpu_graphics_type",
        Situation.NOT_OFFERED,
        host(SHARED, SHARED),
        VGPU,
        "sharedDirect",
        GPU,
        by_hand="Graphics Devices",
    ),
    Case(
        "gpu_graphics_type",
        Situation.UNREAD,
        view(facts=DRIVER),
        VGPU,
        "sharedDirect",
        GPU,
        unread="no graphics settings",
    ),
    Case(
        "assignment_policy",
        Situation.RIGHT,
        view(assignment_policy=CONSOLIDATION),
        POLICY,
        "consolidation",
    ),
    Case(
        "assignment_policy",
        Situation.WRONG,
        view(assignment_policy=PERFORMANCE),
        POLICY,
        "consolidation",
        writes=(GraphicsWrite(assignment_policy=CONSOLIDATION),),
    ),
    Case(
        "assignment_policy",
        Situation.OFF,
        view(assignment_policy=CONSOLIDATION),
        hosts(assignment_policy="performance"),
        "performance",
        writes=(GraphicsWrite(assignment_policy=PERFORMANCE),),
    ),
    Case(
        "assignment_policy",
        Situation.PENDING,
        view(assignment_policy=CONSOLIDATION),
        POLICY,
        "consolidation",
        has_one_value=True,
    ),
    Case(
        "assignment_policy",
        Situation.NOT_OFFERED,
        view(assignment_policy=PERFORMANCE),
        POLICY,
        "consolidation",
        other=by_esxcli("shared-passthru-assignment-policy", "Consolidation"),
    ),
    Case(
        "assignment_policy", Situation.UNREAD, view(), POLICY, "consolidation", unread="no graphics settings"
    ),
)

KEYS = ("graphics_type", "gpu_graphics_type", "assignment_policy")


def test_no_key_is_no_wish() -> None:
    for key in KEYS:
        assert list(setting(key).desired_settings(hosts(), host(SHARED, SHARED))) == []


def test_a_host_without_gpus_and_graphics_settings_has_nothing_to_set() -> None:
    wanted = hosts(graphics_type="sharedDirect", assignment_policy="consolidation")
    for key in KEYS:
        assert list(setting(key).desired_settings(wanted, view(gpus=()))) == []


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("services", "impact"), [({"xorg": {"running": True}}, Impact.SERVICE_RESTART), ({}, Impact.HOST_REBOOT)]
)
def test_xorg_is_restarted_where_the_host_lists_it(key: str, services: Any, impact: Impact) -> None:
    shown = host(SHARED, SHARED, assignment_policy=PERFORMANCE, facts={**DRIVER, "services": services})
    wanted = hosts(graphics_type="sharedDirect", assignment_policy="consolidation")
    (desired,) = setting(key).desired_settings(wanted, shown)
    assert setting(key).impact(shown, desired) is impact
    assert setting(key).service == "xorg"


def test_all_graphics_settings_of_a_host_are_one_call() -> None:
    wanted = hosts(
        graphics_type="sharedDirect",
        assignment_policy="consolidation",
        gpus=[
            {"match": {"pci_id": GPU}, "use": "vgpu", "vgpu_mode": "mixed_size"},
            {"match": {"pci_id": GPU_2}, "use": "vgpu"},
        ],
    )
    shown = view(gpus=(typed(GPU, SHARED), typed(GPU_2, SHARED)), graphics_type=SHARED, facts=DRIVER)
    desired_settings = [
        desired for key in (*KEYS, "vgpu_mode") for desired in setting(key).desired_settings(wanted, shown)
    ]
    assert write_graphics(shown, desired_settings) == (
        GraphicsWrite(
            default_type=DIRECT,
            assignment_policy=CONSOLIDATION,
            graphics_types={GPU: DIRECT, GPU_2: DIRECT},
            vgpu_modes={GPU: VgpuMode.MIXED_SIZE},
        ),
    )
    assert setting("graphics_type").other_way(shown, desired_settings) is None


def test_a_gpu_without_a_use_follows_the_default_and_one_to_leave_or_pass_through_does_not() -> None:
    others = ("0000:41:00.0", "0000:61:00.0")
    wanted = hosts(
        graphics_type="shared",
        gpus=[
            {"match": {"pci_id": GPU}, "use": "vgpu"},
            {"match": {"pci_id": GPU_2}, "use": "leave"},
            {"match": {"pci_id": others[0]}, "use": "passthrough"},
        ],
    )
    shown = view(gpus=tuple(typed(pci_id, DIRECT) for pci_id in (GPU, GPU_2, *others)), facts=DRIVER)
    desired_settings = {
        desired.device: desired.value
        for desired in setting("gpu_graphics_type").desired_settings(wanted, shown)
    }
    assert desired_settings == {GPU: "sharedDirect"}


@pytest.mark.parametrize(
    ("default", "rules", "expected"),
    [
        (SHARED, [{"match": {"pci_id": GPU}, "use": "vgpu"}], "shared"),
        (SHARED, [{"match": {"pci_id": GPU}, "use": "vgpu"}, {"use": "leave"}], "shared"),
        (SHARED, [{"match": {"pci_id": GPU}, "use": "vgpu"}, {"label": "b"}], "sharedDirect"),
        (SHARED, [], "sharedDirect"),
        (DIRECT, [{"match": {"pci_id": GPU}, "use": "vgpu"}], None),
    ],
)
def test_a_changed_default_does_not_reach_a_gpu_of_no_rule(
    default: GraphicsType, rules: list[dict[str, Any]], expected: str | None
) -> None:
    shown = view(gpus=(typed(GPU, default), typed(GPU_2, default)), graphics_type=default, facts=DRIVER)
    wanted = hosts(graphics_type="sharedDirect", gpus=rules)
    desired_settings = {
        desired.device: desired.value
        for desired in setting("gpu_graphics_type").desired_settings(wanted, shown)
    }
    assert desired_settings.get(GPU_2) == expected


def test_a_gpu_that_is_passed_through_waits_for_its_type() -> None:
    shown = view(gpus=(gpu(pci=PASSED),), graphics_type=DIRECT)
    reading = setting("gpu_graphics_type").read(shown, GPU)
    assert (reading.configured, reading.runtime) == ("sharedDirect", "direct")


def test_basic_says_nothing_of_the_hosts_default() -> None:
    assert setting("graphics_type").read(host(DIRECT, BASIC), "").runtime is None


@pytest.mark.parametrize(
    ("entry", "facts", "code"),
    [
        (VGPU, {}, Code.NO_HOST_DRIVER),
        (VGPU, DRIVER, None),
        (hosts(gpus={"use": "vgpu"}, driver={}), {}, None),
        (VGPU, {"unread": {"software": "not permitted"}}, None),
        (TYPE_OFF, {}, None),
    ],
)
def test_shared_direct_needs_a_driver_that_is_or_will_be_there(entry: Any, facts: Any, code: Any) -> None:
    found = setting("gpu_graphics_type")
    shown = host(SHARED, BASIC, facts=facts)
    objection = found.objects(shown, wish_of(found, entry, shown, GPU))
    assert (objection.code if objection else None) == code


def test_shown_as_it_will_be() -> None:
    shown = view(gpus=(typed(GPU, SHARED), typed(GPU_2, DIRECT)), graphics_type=SHARED, facts=DRIVER)
    found = setting("graphics_type")
    after = found.show(shown.host, wish_of(found, TYPE_ON, shown))
    assert after.graphics_type is DIRECT
    assert [one.graphics_type for one in after.gpus] == [DIRECT, DIRECT]
    alone = setting("gpu_graphics_type")
    (desired,) = alone.desired_settings(hosts(gpus={"match": {"pci_id": GPU}, "use": "vgpu"}), shown)
    after = alone.show(shown.host, desired)
    assert [(one.graphics_type, one.configured_graphics_type) for one in after.gpus] == [(DIRECT, DIRECT)] * 2
    policy = setting("assignment_policy")
    after = policy.show(shown.host, wish_of(policy, POLICY, shown))
    assert after.assignment_policy is CONSOLIDATION


def test_the_runbook_tells_command_restart_and_way_back() -> None:
    shown = host(SHARED, SHARED)
    found = setting("graphics_type")
    how = found.how(shown, wish_of(found, TYPE_ON, shown))
    assert how.commands == ("esxcli graphics host set --default-type SharedPassthru",)
    assert how.undo == (
        "esxcli graphics host set --default-type Shared",
        "govc host.service -host {host} restart xorg",
    )
