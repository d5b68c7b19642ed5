"""Host preparation that faults, lost connections and silent hosts break; the same command fixes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.host_watch import SSH, Watch, hosts_of, is_down, is_tidy, marks_of, values_of, watch_labs
from tests.extent import each
from vgpu_cfg.lab.operations.hosts import power
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.lab.state.inventory import Host, LabState

BARE = "bare"
BARE_HOST = "esx-r12-01.lab"
ONE = "plans/hosts-one.yaml"

ESTATE = str(ROOT / "tests/cli/estates/broken-hosts.yaml")
HOST = "esx-01.lab"
LICENCE = "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"

REFUSED = {"kind": "call", "fault": "HostConfigFault", "message": "Words of it."}


WHY = "every fault at every call of a run: tests/faults"


@dataclass(frozen=True, slots=True)
class Case:
    """A setting: what a plan says of it, who writes it, and whether the host is emptied for that.

    `writer` is a method of the API, or after a `$` a part of a command of the host's shell.
    """

    text: str
    writer: str
    is_down: bool = True


CASES = {
    "ats": Case("ats: false", "UpdateOptions"),
    "graphics type": Case("graphics_type: shared", "UpdateGraphicsConfig", is_down=False),
    "assignment policy": Case("assignment_policy: consolidation", "UpdateGraphicsConfig", is_down=False),
    "GPU's graphics type": Case(
        "graphics_type: shared\n  gpus: {match: {numa: 0}, use: vgpu}", "UpdateGraphicsConfig", is_down=False
    ),
    "vGPU mode": Case("gpus: {match: {numa: 0}, use: vgpu, vgpu_mode: mixed_size}", "UpdateGraphicsConfig"),
    "GPU passthrough": Case("gpus: {match: {numa: 1}, use: vgpu}", "UpdatePassthruConfig"),
    "GPU label": Case(
        "gpus: {match: {numa: 1}, use: passthrough, label: whole}", "UpdatePassthruConfig", is_down=False
    ),
    "MIG": Case("gpus: {match: {numa: 0}, sharing: mig}", "$ -mig 1"),
    "ECC": Case("gpus: {match: {numa: 0}, ecc: false}", "$ -e 0"),
    "scheduler": Case("gpus: {match: {numa: 0}, scheduler: equal_share}", "UpdateModuleOptionString"),
    "NIC firmware": Case(
        "nics: {match: {vmnic: vmnic2}, firmware: {ATS_ENABLED: true}}", "$ set ATS_ENABLED"
    ),
    "NIC passthrough": Case("nics: {match: {vmnic: vmnic2}, use: passthrough}", "UpdatePassthruConfig"),
    "NIC label": Case(
        'nics: {match: {pci_id: "0000:e4:00.0"}, use: passthrough, label: rail}',
        "UpdatePassthruConfig",
        is_down=False,
    ),
    "virtual functions": Case("nics: {match: {vmnic: vmnic2}, use: sriov, vfs: 4}", "UpdatePassthruConfig"),
    "RoCE": Case(
        "nics: {match: {vmnic: vmnic2}, roce: {trust: dscp, priority: 3}}", "UpdateModuleOptionString"
    ),
    "uplink": Case("nics: {match: {vmnic: vmnic2}, switch: vSwitch0}", "UpdateVirtualSwitch", is_down=False),
    "vmknic": Case("vmknics: {network: Management Network, mtu: 9000}", "UpdateVirtualNic", is_down=False),
    "PVRDMA": Case("pvrdma: {vmknic: vmk0}", "UpdateOptions", is_down=False),
    "firewall": Case("pvrdma: {vmknic: vmk0}", "EnableRuleset", is_down=False),
    "licence": Case("licence: {secret: lic}", "UpdateAssignedLicense", is_down=False),
}
PLAN = f"""
version: 1
name: broken
vcenter: lab:{ESTATE}
secrets: {{esxi: env:ESXI_PASSWORD, lic: env:LICENCE}}
hosts:
- names: [{HOST}]
  TEXT
  access: {{ssh: open-and-close, user: root, password: {{secret: esxi}}, host_keys: pin}}
  disruption: {{allow: [maintenance, reboot]}}
"""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


@contextmanager
def shell_that_refuses(part: str) -> Iterator[None]:
    """Let every command with these words in it end badly."""
    execute = LabShell.execute

    def refuse(shell: LabShell, line: str) -> tuple[int, str, str]:
        return (1, "", "Words of it.\n") if part in line else execute(shell, line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LabShell, "execute", refuse)
        yield


def row_of(vgpu_cfg: CommandLine, plan: object) -> dict[str, Any]:
    """Return what `status` tells of the plan's one host."""
    told = json.loads(vgpu_cfg.done("status", str(plan), "--output", "json").out)
    row: dict[str, Any]
    (row,) = told["hosts"]
    return row


def state_of(vgpu_cfg: CommandLine, estate: str) -> LabState:
    return vgpu_cfg.lab(estate).state


# ---------------------------------------------------------------- a write is refused


@pytest.mark.parametrize(
    "name", each(((name,) for name in CASES), WHY, lambda name: name in list(CASES)[::9], one_of=14)
)
def test_a_refused_write_is_told_and_the_same_command_goes_on(name: str, vgpu_cfg: CommandLine) -> None:
    case = CASES[name]
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("TEXT", case.text))
    secret = {"LICENCE": LICENCE}
    method, sign, part = case.writer.partition("$ ")
    if sign:
        with shell_that_refuses(part):
            failed = vgpu_cfg("apply", "--yes", plan, **secret)
    else:
        vgpu_cfg.script(ESTATE, {"method": method, "nth": 0, **REFUSED})
        failed = vgpu_cfg("apply", "--yes", plan, **secret)
        vgpu_cfg.script(ESTATE)
    assert failed.code == 6, failed.told
    assert "Words of it." in failed.told

    state = state_of(vgpu_cfg, ESTATE)
    host = hosts_of(state)[HOST]
    assert host.in_maintenance is case.is_down
    assert not host.services[SSH].running
    row = row_of(vgpu_cfg, plan)
    assert row["is_in_maintenance_mode"] is case.is_down
    assert ("Words of it." in row["reason"]) is case.is_down
    if not case.is_down:
        assert is_tidy(state), marks_of(state)

    mended = vgpu_cfg("apply", "--yes", plan, **secret)
    assert mended.code == 0, mended.told
    assert is_tidy(state_of(vgpu_cfg, ESTATE))
    again = vgpu_cfg.done("apply", "--yes", plan, **secret)
    assert "0 changes" in again.told


def test_a_driver_that_is_not_there_is_told_and_put_in_once_it_is(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab(BARE)
    with lab.transaction():
        host = hosts_of(lab.state)[BARE_HOST]
        bundles, host.bundles = host.bundles, {}
        lab.state.touch(host)
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 4, ran.told
    assert "VG345" in ran.told
    lab = vgpu_cfg.lab(BARE)
    with lab.transaction():
        host = hosts_of(lab.state)[BARE_HOST]
        assert not host.in_maintenance
        host.bundles = bundles
        lab.state.touch(host)
    assert is_ready_after(vgpu_cfg)


def is_ready_after(vgpu_cfg: CommandLine) -> bool:
    """Run the command again, undisturbed, and see that the bare host gets what the plan says."""
    vgpu_cfg.script(BARE)
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 0, ran.told
    state = state_of(vgpu_cfg, BARE)
    found = values_of(hosts_of(state)[BARE_HOST])
    on, off = (True, True), (False, False)
    assert found["driver"] == ("nvd-aie", "580.95.02")
    assert found["gpu 0000:21:00.0"] == ("sharedDirect", "sharedDirect", "sameSize", on, on)
    assert found["gpu 0000:e2:00.0"] == ("sharedDirect", "sharedDirect", "mixedSize", off, on)
    assert found["passed through"] == [("0000:e4:00.0", True, "rail")]
    assert found["nic 0000:e4:00.0"] == ((("ATS_ENABLED", "True(1)", "True(1)"),), 0, 0)
    return is_tidy(state)


@pytest.mark.parametrize(
    ("method", "kind"),
    each(
        product(
            ["EnterMaintenanceMode_Task", "RebootHost_Task", "ExitMaintenanceMode_Task"], ["call", "task"]
        ),
        WHY,
        lambda method, kind: (method, kind) == ("ExitMaintenanceMode_Task", "task"),
        one_of=6,
    ),
)
def test_a_refused_step_of_the_way_is_told_and_mended(method: str, kind: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(BARE, {"method": method, **REFUSED, "kind": kind})
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 6, ran.told
    assert "Words of it." in ran.told
    state = state_of(vgpu_cfg, BARE)
    is_entered = method != "EnterMaintenanceMode_Task"
    assert hosts_of(state)[BARE_HOST].in_maintenance is is_entered
    assert bool(row_of(vgpu_cfg, ONE)["reason"]) is is_entered
    assert is_entered or is_tidy(state)
    assert is_ready_after(vgpu_cfg)


# ---------------------------------------------------------------- marks and alarms


def test_a_mark_that_may_not_be_written_stops_everything_before_it_begins(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    vgpu_cfg.script(BARE, lacking=["Global.SetCustomField"])
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 5, ran.told
    assert "Global.SetCustomField" in ran.told
    assert watch.writes.keys() <= {"SetField", "AddCustomFieldDef"}
    assert not state_of(vgpu_cfg, BARE).tasks
    assert is_ready_after(vgpu_cfg)


def test_an_alarm_that_may_not_be_set_is_only_noted(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        # Before it stand the alarms that are the run's locks: of the plan, its cluster and its host.
        BARE,
        {"method": "CreateAlarm", "nth": 4, "kind": "call", "fault": "NoPermission", "message": "No."},
    )
    ran = vgpu_cfg.done("apply", "--yes", ONE)
    assert "no alarm was created on the host" in ran.told
    assert is_tidy(state_of(vgpu_cfg, BARE))


@pytest.mark.long(WHY)
def test_an_alarm_that_cannot_be_removed_is_noted(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        BARE, {"method": "RemoveAlarm", "kind": "call", "fault": "NoPermission", "message": "No."}
    )
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 0, ran.told
    assert "the alarm could not be removed" in ran.told
    assert not marks_of(state_of(vgpu_cfg, BARE))


# ---------------------------------------------------------------- connections and sessions


BREAKS = (
    ("SetField", 2), ("EnterMaintenanceMode_Task", 1), ("UpdateGraphicsConfig", 1), ("RebootHost_Task", 1),
    ("UpdatePassthruConfig", 1), ("RebootHost_Task", 2), ("RetrievePropertiesEx", 60),
    ("WaitForUpdatesEx", 9), ("ExitMaintenanceMode_Task", 1), ("StopService", 1),
)  # fmt: skip
"""The calls at which a connection breaks: after the server has acted, or with its session."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("method", "nth", "kind"),
    each(
        ((*call, kind) for call in BREAKS for kind in ("drop_after", "session_expired")),
        WHY,
        lambda method, _nth, kind: (method, kind) == ("EnterMaintenanceMode_Task", "drop_after"),
        one_of=10,
    ),
)
def test_a_connection_that_breaks_midway_is_mended(
    method: str, nth: int, kind: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(BARE, {"method": method, "nth": nth, "kind": kind})
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code in {0, 5, 6}, ran.told
    assert "a bug in vgpu-cfg" not in ran.told
    row = row_of(vgpu_cfg, ONE)
    assert row["reason"] or not row["is_in_maintenance_mode"]
    lab = vgpu_cfg.lab(BARE)
    while lab.state.booting and lab.wait():
        continue
    assert is_ready_after(vgpu_cfg)


@pytest.mark.long(WHY)
def test_a_session_that_ends_midway_is_renewed(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        BARE,
        *({"method": "RetrievePropertiesEx", "nth": nth, "kind": "session_expired"} for nth in (20, 70, 120)),
    )
    vgpu_cfg.done("apply", "--yes", ONE)
    assert is_tidy(state_of(vgpu_cfg, BARE))


# ---------------------------------------------------------------- hosts that do not come back


def test_a_host_that_does_not_come_back_is_not_believed_to_be_done(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(power, "BOOT_SECONDS", 1e9)
        ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 6, ran.told
    assert f"{BARE_HOST} is not back" in ran.told
    row = row_of(vgpu_cfg, ONE)
    assert row["is_in_maintenance_mode"]
    assert "is not back" in row["reason"]

    # Somebody goes there and switches it off and on.
    lab = vgpu_cfg.lab(BARE)
    with lab.transaction():
        lab.state.booting.clear()
        host = hosts_of(lab.state)[BARE_HOST]
        host.is_off = True
        lab.state.touch(host)
    vgpu_cfg.done("lab", "hand", BARE, BARE_HOST, "--power-on")
    assert is_ready_after(vgpu_cfg)


# ---------------------------------------------------------------- the host's shell


def changed(vgpu_cfg: CommandLine, **fields: object) -> None:
    """Change the bare host behind everybody's back."""
    lab = vgpu_cfg.lab(BARE)
    with lab.transaction():
        host: Host = hosts_of(lab.state)[BARE_HOST]
        for name, value in fields.items():
            setattr(host, name, value)
        lab.state.touch(host)


def test_an_ssh_port_where_nobody_answers(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab(BARE)
    with lab.transaction():
        host = hosts_of(lab.state)[BARE_HOST]
        host.rulesets["sshServer"].enabled = False
        lab.state.touch(host)
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 4, ran.told
    assert "connection timed out" in ran.told
    state = state_of(vgpu_cfg, BARE)
    assert is_tidy(state)
    assert not state.tasks


@pytest.mark.parametrize(
    "mode", ["lockdownNormal", pytest.param("lockdownStrict", marks=pytest.mark.long(WHY))]
)
def test_lockdown_mode_is_respected(mode: str, vgpu_cfg: CommandLine, watch: Watch) -> None:
    changed(vgpu_cfg, lockdown=mode)
    watch.forget()
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 4, ran.told
    assert "VG523" in ran.told
    assert not watch.writes
    changed(vgpu_cfg, lockdown="lockdownDisabled")
    assert is_ready_after(vgpu_cfg)


def test_a_password_that_is_wrong_changes_nothing(vgpu_cfg: CommandLine) -> None:
    text = (ROOT / "tests/cli/plans/hosts-one.yaml").read_text(encoding="utf-8")
    plan = vgpu_cfg.write("nobody.yaml", text.replace("user: root", "user: nobody"))
    ran = vgpu_cfg("apply", "--yes", plan)
    assert ran.code == 4, ran.told
    assert "the login of nobody was rejected" in ran.told
    state = state_of(vgpu_cfg, BARE)
    assert is_tidy(state)
    assert not state.tasks


def test_a_shell_that_dies_midway_is_opened_again_by_the_next_run(vgpu_cfg: CommandLine) -> None:
    with shell_that_refuses("-mig 1"):
        ran = vgpu_cfg("apply", "--yes", ONE)
    assert ran.code == 6, ran.told
    state = state_of(vgpu_cfg, BARE)
    assert [host.name for host in state.all(Host) if is_down(host)] == [BARE_HOST]
    assert is_ready_after(vgpu_cfg)


@pytest.mark.long(WHY)
def test_an_ssh_service_that_cannot_be_stopped_is_told_and_stopped_by_the_next_run(
    vgpu_cfg: CommandLine,
) -> None:
    vgpu_cfg.script(BARE, {"method": "StopService", "nth": 0, **REFUSED})
    ran = vgpu_cfg("apply", "--yes", ONE)
    assert "could not be stopped" in ran.told or "still runs" in ran.told
    host = hosts_of(state_of(vgpu_cfg, BARE))[BARE_HOST]
    assert host.services[SSH].running
    assert marks_of(state_of(vgpu_cfg, BARE))[BARE_HOST]["opened_ssh"]
    assert is_ready_after(vgpu_cfg)
