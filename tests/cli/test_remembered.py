"""What a shell told is kept in small attributes that plans and machines share; nothing fails without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.host_watch import watch_labs
from tests.extent import each
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.lab.state.tags import fields_of
from vgpu_cfg.plan_loading import load_plan

CAPPED = {"VGPU_CFG_LAB_ATTRIBUTE_LENGTH": "255"}
PLAN = """
version: 1
name: NAME
vcenter: lab:hgx-h100
hosts:
- names: ["*"]
  gpus: {ecc: true}
  access: {ssh: open-and-close}
"""
OF_HOSTS = sorted(
    path.name
    for path in (ROOT / "examples").glob("*.yaml")
    if load_plan(path).desired.hosts and path.name != "prepare-hosts.yaml"  # test_hosts.py has that one
)


def plan_of(vgpu_cfg: CommandLine, name: str = "one") -> Path:
    return vgpu_cfg.write(f"{name}.yaml", PLAN.replace("NAME", name))


def is_known(vgpu_cfg: CommandLine, plan: Path | str, **settings: str) -> bool:
    """Whether `plan` and `status` say so alike; neither has a difference to tell."""
    codes = [vgpu_cfg(command, plan, "--exit-code", **settings).code for command in ("plan", "status")]
    assert codes in ([0, 0], [9, 9])
    return codes == [0, 0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "example",
    each(
        ((example,) for example in OF_HOSTS),
        "every example that prepares hosts: tests/cli/test_remembered.py",
        lambda example: example == OF_HOSTS[-1],
        one_of=6,
    ),
)
def test_the_plan_after_an_example_is_in_sync_and_known(example: str, vgpu_cfg: CommandLine) -> None:
    plan = Path("examples", example)
    vgpu_cfg.done("apply", "--yes", plan)
    assert is_known(vgpu_cfg, plan)


def test_there_are_such_examples() -> None:
    assert len(OF_HOSTS) >= 2


def test_eight_gpus_are_kept_where_a_value_has_255_characters(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg)
    assert not is_known(vgpu_cfg, plan, **CAPPED)
    assert "0 changes" in vgpu_cfg.done("apply", "--yes", plan, **CAPPED).told
    assert is_known(vgpu_cfg, plan, **CAPPED)


def test_a_value_that_vcenter_cut_off_is_unknown(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_ATTRIBUTE_LENGTH="200")
    assert not is_known(vgpu_cfg, plan)


def test_another_plan_on_another_machine_knows_it_too(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg))
    assert is_known(vgpu_cfg, plan_of(vgpu_cfg, "two"))


def test_a_boot_makes_it_unknown_again(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", plan)
    lab = vgpu_cfg.lab("hgx-h100")
    with lab.transaction():
        for host in lab.state.all(Host):
            host.boot_time += 600
            lab.state.touch(host)
    assert not is_known(vgpu_cfg, plan)
    shown = vgpu_cfg.done("plan", plan)
    assert "UNKNOWN 8 settings of esx-hgx-01.lab, readable only over SSH: ECC; up to 1 reboot" in shown.told
    assert "DISRUPTION" not in shown.told


@pytest.mark.parametrize("privilege", ["Global.ManageCustomFields", "Global.SetCustomField"])
def test_who_may_keep_nothing_is_told_and_nothing_else_fails(privilege: str, vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg)
    lab = vgpu_cfg.lab("hgx-h100")
    with lab.transaction():
        for host in lab.state.all(Host):
            host.services["TSM-SSH"].running = True  # else the mark of an opened shell would be refused
            lab.state.touch(host)
    vgpu_cfg.script("hgx-h100", lacking=[privilege])
    ran = vgpu_cfg.done("apply", "--yes", plan)
    assert (
        "esx-hgx-01.lab: settings read from the shell could not be saved, so `plan` cannot use them: storing"
        in ran.told
    )
    state = vgpu_cfg.lab("hgx-h100").state
    assert not any(state.custom_values.get("values", {}).values())


def test_a_plan_that_opens_shells_keeps_nothing(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_labs(monkeypatch)
    vgpu_cfg.done("plan", plan_of(vgpu_cfg), "--open-shell")
    names = {field["name"] for field in fields_of(vgpu_cfg.lab("hgx-h100").state)}
    assert names == {"vgpu_cfg.host"}
    assert watch.calls["SetField"] == 2
