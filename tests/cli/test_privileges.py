"""`vgpu-cfg privileges`: with just what it says each command works, and what lacks is told before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import extent
from tests.cli.command_line import ROOT, CommandLine, Ran
from tests.cli.locks import still_locked
from tests.cli.roles import ACCOUNT, Given, as_account, written
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.plan_loading import load_plan

ESTATE = "two-a100"
ADVANCED = "VirtualMachine.Config.AdvancedConfig"
OF_HOSTS = "prepare-hosts.yaml"
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.yaml") if path.name != OF_HOSTS)
SMALL = ("two-vgpus.yaml",)
TRIED = extent.examples(3, 1000)
"""Of how many privileges each is taken away, one at a time."""
MOST = ("head-and-workers.yaml", "nvlink-pair.yaml")
"""Examples that take every privilege between them."""
LATER = pytest.mark.exhaustive("examples with the role of each command: tests/cli/test_privileges.py")
EACH = pytest.mark.exhaustive("every example, and without each privilege: tests/cli/test_privileges.py")


def estate_of(plan: Path) -> str:
    server = load_plan(plan).desired.vcenter
    assert server is not None
    return server.removeprefix("lab:")


def unlock_what_stays(ran: Ran, privilege: str, vgpu_cfg: CommandLine, estate: str) -> None:
    """Remove the lock that a run could not: that the account may not shows once it has made one."""
    if privilege == "Alarm.Delete":
        vgpu_cfg.done("unlock", still_locked(ran), "--yes", f"--server=lab:{estate}")


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, marks=() if one in SMALL else LATER if one in MOST else EACH) for one in EXAMPLES],
)
def test_each_command_works_with_just_its_role(example: str, vgpu_cfg: CommandLine) -> None:
    plan = Path("examples", example)
    estate = estate_of(plan)
    for command in ("apply", "destroy") if example in SMALL else ("apply", "verify", "destroy"):
        Given(vgpu_cfg, plan, f"--for={command}", "--required").give(vgpu_cfg, estate)
        words = [command, plan] if command == "verify" else [command, "--yes", plan]
        words += ["--allow-destroy", "20"] if command == "destroy" else []
        ran = vgpu_cfg(*as_account(words))
        assert ran.code == 0, f"{command}: {ran.out}{ran.err}"


@pytest.mark.parametrize("command", ["apply", "destroy"])
@pytest.mark.parametrize(
    "example", [pytest.param(one, marks=() if one in SMALL else EACH) for one in EXAMPLES]
)
def test_each_privilege_that_lacks_is_told_before_the_first_write(
    example: str, command: str, vgpu_cfg: CommandLine
) -> None:
    plan = Path("examples", example)
    estate = estate_of(plan)
    if command == "destroy":
        vgpu_cfg.done("apply", "--yes", plan)
    given = Given(vgpu_cfg, plan, f"--for={command}", "--required")
    before = written(vgpu_cfg.lab(estate).state)
    pairs = sorted(given.pairs())
    assert pairs
    for moid, privilege in pairs[:: max(1, len(pairs) // TRIED)]:
        given.give(vgpu_cfg, estate, without=[(moid, privilege)])
        leave = ["--allow-destroy", "20"] if command == "destroy" else []
        ran = vgpu_cfg(*as_account([command, "--yes", plan, *leave]))
        what = f"{privilege} on {given.path(moid)}: {ran.told}"
        assert ran.code == 5, what
        assert f"lacks {privilege}" in ran.told, what
        unlock_what_stays(ran, privilege, vgpu_cfg, estate)
        assert written(vgpu_cfg.lab(estate).state) == before, what


def test_taking_vms_in_and_letting_them_go_takes_just_its_role(vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    vgpu_cfg.done("apply", "--yes", plan)
    for command in ("forget", "import"):
        given = Given(vgpu_cfg, plan, f"--for={command}", "--required")
        moid = next(moid for moid, privilege in given.pairs() if privilege == ADVANCED)
        given.give(vgpu_cfg, ESTATE, without=[(moid, ADVANCED)])
        refused = vgpu_cfg(*as_account([command, "--yes", plan]))
        assert (refused.code, f"lacks {ADVANCED}" in refused.told) == (5, True), refused.told
        given.give(vgpu_cfg, ESTATE)
        vgpu_cfg.done(*as_account([command, "--yes", plan]))


def test_work_on_hosts_takes_just_its_role(vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    vgpu_cfg.done("apply", "--yes", plan)
    host = next(one.name for one in vgpu_cfg.lab(ESTATE).state.all(Host))
    words = {
        "cordon": ["cordon", f"host:{host}", "--reason=memory"],
        "drain": ["drain", host, "--reason=memory", "--yes", "--power-off=hvd-01", "--power-off=hvd-02"],
        "uncordon": ["uncordon", f"host:{host}", "--restore", "--yes"],
    }
    for command, typed in words.items():
        given = Given(vgpu_cfg, plan, f"--for={command}", "--required")
        given.give(vgpu_cfg, ESTATE)
        ran = vgpu_cfg(*as_account([*typed, f"--server=lab:{ESTATE}"]))
        assert ran.code == 0, f"{command}: {ran.told}"


def test_the_check_names_what_an_account_lacks(vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    given = Given(vgpu_cfg, plan, "--for=apply")
    given.give(vgpu_cfg, ESTATE)
    vgpu_cfg.done(*as_account(["privileges", plan, "--for=apply", "--check"]))
    refused = vgpu_cfg(*as_account(["privileges", plan, "--for=destroy", "--check"]))
    assert refused.code == 5
    assert "lacks VirtualMachine.Inventory.Delete" in refused.told


def test_a_file_alone_tells_what_it_could_ever_need(vgpu_cfg: CommandLine) -> None:
    for example in ("two-vgpus.yaml", OF_HOSTS):
        plan = Path("examples", example)
        now = {privilege for _, privilege in Given(vgpu_cfg, plan).pairs()}
        ever = {privilege for _, privilege in Given(vgpu_cfg, plan, "--any-state").pairs()}
        assert now < ever
    script = vgpu_cfg.done("privileges", plan, "--any-state", "--output=govc").out
    assert "# give vgpu-cfg-rack-12-host false PATH, for the host" in script


def test_a_recording_says_what_is_needed_and_not_what_an_account_has(vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    vgpu_cfg.done("inventory", "--record", "site.json", f"--server=lab:{ESTATE}")
    live = vgpu_cfg.done("privileges", plan, "--output=powercli").out
    assert vgpu_cfg.done("privileges", plan, "--output=powercli", "--from=site.json").out == live
    refused = vgpu_cfg("privileges", plan, "--check", "--from=site.json")
    assert (refused.code, "a vCenter is needed" in refused.told) == (2, True)


def test_what_is_optional_is_told_before_and_the_run_goes_on(vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    Given(vgpu_cfg, plan, "--for=apply", "--required").give(vgpu_cfg, ESTATE)
    ran = vgpu_cfg.done(*as_account(["apply", "--yes", plan]))
    assert f"{ACCOUNT} lacks Global.LogEvent: on other machines, `history`" in ran.told


@EACH
def test_hosts_are_prepared_with_just_the_role(vgpu_cfg: CommandLine) -> None:
    plan = Path("examples", OF_HOSTS)
    given = Given(vgpu_cfg, plan, "--for=apply", "--required")
    before = written(vgpu_cfg.lab("bare").state)
    lacking = []
    for moid, privilege in sorted(given.pairs()):
        given.give(vgpu_cfg, "bare", without=[(moid, privilege)])
        ran = vgpu_cfg(*as_account(["apply", "--yes", plan]), ESXI_PASSWORD="lab")
        if ran.code != 5 or f"lacks {privilege}" not in ran.told:
            lacking.append(f"{privilege} on {given.path(moid)}: {ran.code} {ran.told}")
        unlock_what_stays(ran, privilege, vgpu_cfg, "bare")
        assert written(vgpu_cfg.lab("bare").state) == before, privilege
    assert not lacking
    given.give(vgpu_cfg, "bare")
    ran = vgpu_cfg(*as_account(["apply", "--yes", plan]), ESXI_PASSWORD="lab")
    assert ran.code == 7, ran.told
    vgpu_cfg.done("lab", "hand", "bare", "esx-r12-03.lab", "esx-r12-04.lab", "--bios=sriov=on", "--power-on")
    Given(vgpu_cfg, plan, "--for=apply", "--required").give(vgpu_cfg, "bare")
    ran = vgpu_cfg(*as_account(["apply", "--yes", plan]), ESXI_PASSWORD="lab")
    assert ran.code == 0, ran.told


def test_what_errors_hide_of_apply_is_not_checked_with_success(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / "examples/two-vgpus.yaml").read_text(encoding="utf-8")
    whole = vgpu_cfg.write("whole.yaml", text)
    refused = vgpu_cfg.write("refused.yaml", text.replace("template: ", "template: no-"))
    assert vgpu_cfg("privileges", whole, "--check").code == 0
    checked = vgpu_cfg("privileges", refused, "--check")
    assert (checked.code, "the plan has errors" in checked.told) == (9, True)
    assert vgpu_cfg("privileges", refused, "--check", "--for", "destroy").code == 0
    assert vgpu_cfg("privileges", refused).code == 0
