"""Commands that a plan file names for its secrets: run once `apply` was agreed to, and not before."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import watch_labs
from tests.cli.roles import Given, as_account

PLAN = """
version: 1
name: one
vcenter: lab:estates/guests.yaml
secrets: {token: "command:sh -c 'touch ran; echo a-token'"}
networks:
- {name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.99, gateway: 10.20.0.1}
vms:
- name: a
  template: with-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {licence: {secret: token}}
"""


@pytest.fixture
def plan(vgpu_cfg: CommandLine) -> str:
    return str(vgpu_cfg.write("plan.yaml", PLAN))


def has_run(vgpu_cfg: CommandLine) -> bool:
    """Whether the plan file's command was run."""
    return (vgpu_cfg.folder / "ran").exists()


@pytest.mark.parametrize(
    "words", [("validate",), ("plan",), ("status",), ("runbook",), ("plan", "-o", "p.json")]
)
def test_what_only_looks_runs_none(words: tuple[str, ...], vgpu_cfg: CommandLine, plan: str) -> None:
    vgpu_cfg.done(words[0], plan, *words[1:])
    assert not has_run(vgpu_cfg)


def test_an_apply_that_nobody_has_agreed_to_runs_none(vgpu_cfg: CommandLine, plan: str) -> None:
    ran = vgpu_cfg("apply", plan)
    assert ran.code == 2
    assert "for secrets, and make these" in ran.told
    assert not has_run(vgpu_cfg)


def test_an_apply_that_is_refused_runs_none(vgpu_cfg: CommandLine, plan: str) -> None:
    vgpu_cfg.write("plan.yaml", PLAN.replace("grid_a100-40c", "grid_a100-11c"))
    assert vgpu_cfg("apply", "--yes", plan).code == 4
    assert not has_run(vgpu_cfg)


def test_once_it_was_agreed_to_it_is_run(vgpu_cfg: CommandLine, plan: str) -> None:
    vgpu_cfg.done("apply", "--yes", plan)
    assert has_run(vgpu_cfg)
    (vgpu_cfg.folder / "ran").unlink()
    # Nothing is left to do that would need it.
    vgpu_cfg.done("apply", "--yes", plan)
    assert not has_run(vgpu_cfg)
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    # What is shown is agreed to, and is not shown again: all of it is there.
    ran = vgpu_cfg("apply", plan, "--rotate", "licence", "--rollback-on-failure")
    assert ran.told.index("VG557") < ran.told.index("for secrets, and make this change")
    assert not has_run(vgpu_cfg)


def test_a_step_that_is_not_the_plans_is_told_before_anything_is_run(
    vgpu_cfg: CommandLine, plan: str
) -> None:
    assert vgpu_cfg("apply", "--yes", plan, "--done", "none").code == 2
    assert not has_run(vgpu_cfg)


def test_a_secret_that_is_empty_is_told_before_anything_is_changed(vgpu_cfg: CommandLine, plan: str) -> None:
    vgpu_cfg.write("plan.yaml", PLAN.replace("echo a-token", "true"))
    before = vgpu_cfg.look("estates/guests.yaml")
    ran = vgpu_cfg("apply", "--yes", plan)
    assert ran.code == 5
    assert "the secret 'token' is empty" in ran.told
    assert vgpu_cfg.look("estates/guests.yaml").vms == before.vms


def test_an_apply_asks_once_what_the_account_may_do(
    vgpu_cfg: CommandLine, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Given(vgpu_cfg, plan, "--for=apply").give(vgpu_cfg, "estates/guests.yaml")
    watch = watch_labs(monkeypatch)
    vgpu_cfg.done(*as_account(["apply", "--yes", plan]))
    # Before the command is run: what it takes to carry out what that brings is known by that.
    assert has_run(vgpu_cfg)
    assert watch.calls["HasPrivilegeOnEntities"] == 1


def test_a_command_sees_no_other_secret(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "sh -c 'env > seen; echo a-token'"
    secrets = f'{{token: "command:{command}", other: "env:OTHER_SECRET"}}'
    text = PLAN.replace(PLAN.splitlines()[4], f"secrets: {secrets}")
    plan = vgpu_cfg.write("plan.yaml", text)
    vgpu_cfg.write(
        "config.yaml", "contexts: {prod: {server: vc01.example.com, password: 'env:PROD_PASSWORD'}}\n"
    )
    for name in ("OTHER_SECRET", "PROD_PASSWORD", "VGPU_CFG_PASSWORD", "PLAIN"):
        monkeypatch.setenv(name, f"value-of-{name}")
    vgpu_cfg("apply", "--yes", plan)
    seen = (vgpu_cfg.folder / "seen").read_text(encoding="utf-8")
    assert [line for line in seen.splitlines() if "value-of-" in line] == ["PLAIN=value-of-PLAIN"]
