"""Where a host falls short, wrong, pending, unread, refused or undone by another change, and where not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes
from tests.unit.planning.hosts.plans import GPU, MARK, NIC, SHELL, estate, host, plan, resolved
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.resolved_host import DriftKind, ResolvedHost
from vgpu_cfg.planning.hosts.compare import compare_host, desired_settings_of

CLOSED = {"shell": False}


def compared(row: dict[str, Any], **entry: Any) -> tuple[ResolvedHost, list[str]]:
    findings = Findings()
    one = resolved(estate(row), **entry)
    one.desired_settings = {
        desired.id: (setting, desired) for setting, desired in desired_settings_of(one.entry, one.view)
    }
    compare_host(one, findings)
    return one, codes(findings.diagnostics())


def drifts(row: dict[str, Any], **entry: Any) -> dict[str, DriftKind]:
    return {drift.desired.id: drift.kind for drift in compared(row, **entry)[0].drifts}


@pytest.mark.parametrize(
    ("configured", "runtime", "expected"),
    [
        ("TRUE", "TRUE", {}),
        ("FALSE", "FALSE", {"ats": DriftKind.WRONG}),
        ("TRUE", "FALSE", {"ats": DriftKind.PENDING}),
        ("FALSE", "TRUE", {"ats": DriftKind.WRONG}),
    ],
)
def test_what_is_configured_and_what_holds(
    configured: str, runtime: str, expected: dict[str, DriftKind]
) -> None:
    kernel = {"atsSupport": {"configured": configured, "runtime": runtime}}
    assert drifts(host(facts={"kernel": kernel}), ats=True) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [("2026-11-01T06:00:00Z", {"nmlx5_core": DriftKind.PENDING}), ("2026-10-01T06:00:00Z", {})],
)
def test_where_one_value_is_told_the_mark_says_whether_it_waits(
    written: str, expected: dict[str, DriftKind]
) -> None:
    options = {"nmlx5_core": "pfctx=0x08 pfcrx=0x08 trust_state=2", "nmlx5_rdma": "pcp_force=3 dscp_force=26"}
    mark = MARK | {"waiting": {"nmlx5_core": written}}
    assert drifts(host(facts={"modules": options, "mark": mark}), nics=[{"roce": {}}]) == expected


@pytest.mark.parametrize(
    ("row", "entry", "found", "kind"),
    [
        (host(), {"access": SHELL}, [], None),
        (host(facts=CLOSED), {"access": SHELL}, [], DriftKind.UNKNOWN),
        (host(facts=CLOSED), {"access": {"ssh": "off"}}, ["VG524"], DriftKind.SUPPOSED),
        (
            host(facts=CLOSED | {"lockdown": "lockdownStrict"}),
            {"access": SHELL},
            ["VG523"],
            DriftKind.UNKNOWN,
        ),
        (
            host(facts=CLOSED | {"lockdown": "lockdownStrict"}),
            {"access": {"ssh": "off"}},
            ["VG524"],
            DriftKind.SUPPOSED,
        ),
        (
            host(facts=CLOSED | {"unread": {"shell-gpus": "refused"}}),
            {"access": SHELL},
            ["VG509"],
            DriftKind.UNKNOWN,
        ),
        (host(facts=CLOSED), {"mode": "check"}, [], DriftKind.UNKNOWN),
        (host(facts=CLOSED | {"done": {"ecc 0000:21:00.0": "enabled"}}), {}, [], None),
        (host(facts=CLOSED | {"done": {"ecc 0000:21:00.0": "disabled"}}), {}, ["VG524"], DriftKind.SUPPOSED),
        (host(facts={"shell_unread": {"0000:24:00.0": "busy"}}), {"access": SHELL}, [], None),
    ],
)
def test_what_only_the_shell_tells(
    row: dict[str, Any], entry: dict[str, Any], found: list[str], kind: DriftKind | None
) -> None:
    one, told = compared(row, gpus=[{"ecc": True}], **entry)
    assert told == found
    assert [drift.kind for drift in (*one.drifts, *one.unknown)] == ([kind] if kind is not None else [])


def test_a_device_that_could_not_be_asked_is_an_error_and_no_gap() -> None:
    row = host(facts={"shell_unread": {"0000:24:00.0": "busy"}})
    one, told = compared(row, nics=[{"firmware": {"ATS_ENABLED": "True"}}], access=SHELL)
    assert told == ["VG509"]
    assert one.drifts == []
    assert one.has_refusals


@pytest.mark.parametrize(
    ("row", "entry", "is_in_sync"),
    [
        (host(), {"ats": True}, True),
        (host(), {"ats": True, "mode": "check"}, True),
        (host(), {"ats": False, "mode": "check"}, False),
        (host(facts=CLOSED), {"gpus": [{"ecc": True}], "mode": "check"}, False),
        (host(gpus=[GPU | {"board": "L40S"}]), {"gpus": [{"sharing": "mig"}]}, False),
        (host(), {}, False),
    ],
)
def test_a_host_is_in_sync_where_all_that_is_asked_was_told_and_is_so(
    row: dict[str, Any], entry: dict[str, Any], *, is_in_sync: bool
) -> None:
    assert plan(estate(row), **entry).hosts_in_sync == (("esx-01",) if is_in_sync else ())


def test_firmware_that_cannot_be_seen_any_more_leaves_a_host_in_sync() -> None:
    row = host(nics=[NIC | {"passthrough": True}], facts={"vmnics": {"0000:24:00.0": "vmnic2"}})
    found = plan(estate(row), nics=[{"use": "passthrough", "firmware": {"ATS_ENABLED": "True"}}])
    assert codes(found) == ["VG534"]
    assert found.hosts_in_sync == ("esx-01",)


TYPE = "gpu_graphics_type 0000:21:00.0"


@pytest.mark.parametrize(
    ("gpu", "default", "expected"),
    [
        ({}, "shared", {"graphics_type": DriftKind.WRONG, TYPE: DriftKind.UNDONE}),
        ({"type": "shared"}, "shared", {"graphics_type": DriftKind.WRONG, TYPE: DriftKind.UNDONE}),
        ({}, "sharedDirect", {}),
    ],
)
def test_a_gpu_that_follows_the_default_keeps_its_type(
    gpu: dict[str, Any], default: str, expected: dict[str, DriftKind]
) -> None:
    row = host(gpus=[GPU | {"configured": "sharedDirect"} | gpu])
    assert drifts(row, graphics_type=default, gpus=[{"use": "vgpu"}]) == expected


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([{"match": {"numa": 0}, "use": "vgpu"}], DriftKind.UNDONE),
        ([{"use": "vgpu"}], DriftKind.WRONG),
    ],
)
def test_a_gpu_of_no_rule_keeps_its_type_under_a_new_default(
    gpus: list[dict[str, Any]], expected: DriftKind
) -> None:
    second = GPU | {"pci": "0000:e2:00.0", "node": 1}
    row = host(default_type="shared", gpus=[one | {"type": "shared"} for one in (GPU, second)])
    found = drifts(row, graphics_type="sharedDirect", gpus=gpus)
    assert found["gpu_graphics_type 0000:e2:00.0"] is expected
