"""VMs that train together, from the command line: staged once, then what changed, and nobody restarted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.team import ESTATE, IMAGE, SECRETS, WORKERS, boots, guest_in, kinds, staged_modules
from tests.cli.test_guests import told_secrets

OTHER_IMAGE = IMAGE.replace("21.07", "23.03")
THREE = WORKERS.replace("{01..02}", "{01..03}")
OTHER_SEED = "seed-SECRET-of-other-keys-9876543210-9876543210"


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apply the plan once; each test gets a copy of what it left behind."""
    folder = tmp_path_factory.mktemp("applied")
    with pytest.MonkeyPatch.context() as patch:
        line = CommandLine(folder, patch)
        line.done("apply", line.write("plan.yaml", WORKERS), "--yes", **SECRETS)
    return folder / "state"


@pytest.fixture
def team(vgpu_cfg: CommandLine, applied: Path) -> CommandLine:
    shutil.copytree(applied, vgpu_cfg.state_folder)
    vgpu_cfg.keep_id(vgpu_cfg.write("plan.yaml", WORKERS))
    return vgpu_cfg


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_another_image_brings_just_what_holds_it(team: CommandLine) -> None:
    plan = team.write("image.yaml", WORKERS.replace(IMAGE, OTHER_IMAGE))
    team.keep_id(plan)
    assert staged_modules(team, plan) == {
        "hvd-01": {"image", "worker", "launcher"},
        "hvd-02": {"image", "worker"},
    }
    before = boots(team)
    ran = team.done("apply", plan, "--yes", **SECRETS)
    assert boots(team) == before
    assert OTHER_IMAGE in guest_in(team, "hvd-02").images
    assert told_secrets(team, ran) == []
    assert team("plan", plan, "--exit-code", **SECRETS).code == 0


@pytest.mark.parametrize(
    ("name", "value", "modules"),
    [
        ("TOKEN", "tok-SECRET-renewed", {"licence"}),
        ("NGC", "ngc-SECRET-renewed", {"registry"}),
    ],
)
def test_another_secret_brings_just_what_holds_it(
    team: CommandLine, name: str, value: str, modules: set[str]
) -> None:
    assert staged_modules(team, "plan.yaml", **{name: value}) == {"hvd-01": modules, "hvd-02": modules}


def test_other_keys_are_told_of_and_never_tried_on_a_guest_that_has_the_old_ones(team: CommandLine) -> None:
    ran = team("apply", "plan.yaml", "--yes", **{**SECRETS, "SEED": OTHER_SEED})
    assert ran.code == 5
    assert "differ from the plan's keys on this machine" in ran.told
    assert told_secrets(team, ran) == []
    assert team("plan", "plan.yaml", "--exit-code", **SECRETS).code == 0


def test_a_worker_more_changes_files_of_the_others_and_restarts_none(team: CommandLine) -> None:
    plan = team.write("three.yaml", THREE)
    team.keep_id(plan)
    planned = team.done("plan", plan, "--output", "json", **SECRETS)
    of_others = {"hosts", "ssh-mesh"}
    modules = staged_modules(team, plan)
    assert (modules["hvd-01"], modules["hvd-02"]) == (of_others | {"launcher"}, of_others)
    assert not kinds(planned) & {"power_off_vm", "reconfigure_vm", "shut_down_vm"}
    before = boots(team)
    ran = team.done("apply", plan, "--yes", **SECRETS)
    after = boots(team)
    assert {name: after[name] for name in before} == before
    assert set(after) == {"hvd-01", "hvd-02", "hvd-03"}
    guest = guest_in(team, "hvd-01")
    assert guest.files["/opt/vgpu-cfg/hostfile"].content.split("\n")[2] == "hvd-03 slots=1"
    assert all("hvd-03" in guest_in(team, name).files["/etc/hosts"].content for name in after)
    assert team("plan", plan, "--exit-code", **SECRETS).code == 0
    team.done("verify", plan, **SECRETS)
    assert told_secrets(team, planned, ran) == []


def test_a_reviewed_plan_of_guests_is_carried_out(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", WORKERS)
    saved = vgpu_cfg.done("plan", plan, "-o", "plan.json", **SECRETS)
    ran = vgpu_cfg.done("apply", "plan.json", "--yes", **SECRETS)
    assert told_secrets(vgpu_cfg, saved, ran) == []
    assert vgpu_cfg("status", "plan.json", "--exit-code", **SECRETS).code == 0
    vgpu_cfg.done("verify", "plan.json", "--quick", **SECRETS)


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_staged_vms_are_destroyed_and_made_again(team: CommandLine) -> None:
    ran = team.done("destroy", "plan.yaml", "--yes", **SECRETS)
    assert team.look(ESTATE).vms == frozenset()
    again = team.done("apply", "plan.yaml", "--yes", **SECRETS)
    assert guest_in(team, "hvd-02").services["vgpu-cfg-worker"]
    assert told_secrets(team, ran, again) == []
