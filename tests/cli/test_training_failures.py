"""Guests that cannot be staged: what is told of each cause, no secret among it, and that fixing helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.team import ALONE, ESTATE, IMAGE, SECRETS, boots, codes, guest_in, kinds, vm_of
from tests.cli.test_guests import options_of, told_secrets
from tests.extent import each
from vgpu_cfg.lab.guest.system.creation import guest_of

WHY = "every way in which a guest fails: tests/cli/test_training_failures.py"
GUEST = "guest: {"
SUM = "a" * 64
PACKAGE = "https://packages.example/nvidia-linux-grid-580_580.95.05_amd64.deb"
LOGIN = "login: {user: admin, password: {secret: admin}}"


def from_template(name: str, guest: str = "") -> str:
    """Return the plan of one worker from a template, with more said of its guest."""
    text = ALONE.replace("template: good", f"template: {name}")
    return text.replace(GUEST, f"{GUEST}{guest}, ") if guest else text


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan whose guest cannot be staged, what is told of it, and how it is fixed."""

    plan: str = ALONE
    module: str
    why: str
    remedy: str
    mended: str = ALONE
    secrets: Mapping[str, str] = field(default_factory=dict)
    also: str = ""


CASES = {
    "a driver of another branch": Case(
        plan=from_template("old-driver"),
        module="driver",
        why="the guest driver 470.239.06 is from branch 470",
        remedy="set `guest.driver` to a package",
        mended=from_template("old-driver", f"driver: {{package: '{PACKAGE}', sha256: {SUM}}}"),
    ),
    "no driver at all": Case(
        plan=from_template("plain"),
        module="driver",
        why="the template has no NVIDIA driver, and no package is specified",
        remedy="set `guest.driver` to a package",
        mended=from_template("plain", f"driver: {{package: '{PACKAGE}', sha256: {SUM}}}"),
    ),
    "a registry that is not reached": Case(
        plan=ALONE.replace(IMAGE, "gone.example/tf:1").replace(
            "{secret: ngc}", "{user: me, password: {secret: ngc}}"
        ),
        module="registry",
        why="the registry gone.example cannot be reached",
        remedy="the connection to the registry",
    ),
    "a registry's token that has expired": Case(
        secrets={"NGC": "ngc-SECRET-expired"},
        module="registry",
        why="the registry nvcr.io rejects the login: the token has expired",
        remedy="check the password of `training.registry`",
    ),
    "an image without Horovod": Case(
        plan=ALONE.replace("21.07-tf1", "25.02-tf2"),
        module="image",
        why="the image does not contain Horovod",
        remedy="check the image name",
        also="VG647",
    ),
    "an image that is not there": Case(
        plan=ALONE.replace("21.07-tf1", "21.07-tf9"),
        module="image",
        why="the registry nvcr.io has no image nvidia/tensorflow:21.07-tf9-py3",
        remedy="check the image name",
    ),
    "a licence token that is refused": Case(
        secrets={"TOKEN": "tok-SECRET-expired"},
        module="licence",
        why="the license server rejects the token",
        remedy="get a new token from the license portal",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    each(
        ((name,) for name in CASES),
        WHY,
        lambda name: name == next(iter(CASES)),
        one_of=6,
    ),
)
def test_a_guest_that_fails_is_told_with_a_remedy_and_goes_on_once_it_is_mended(
    name: str, vgpu_cfg: CommandLine
) -> None:
    case = CASES[name]
    plan = vgpu_cfg.write("plan.yaml", case.plan)
    secrets = {**SECRETS, **case.secrets}
    ran = vgpu_cfg("apply", plan, "--yes", **secrets)
    assert ran.code == 6, ran.told
    assert f"{case.module} could not be set up in the guest: {case.why}" in ran.told
    assert case.remedy in ran.told
    assert f"LEFT hvd-01: guest setup incomplete: {case.module}" in ran.told
    assert options_of(vgpu_cfg, "hvd-01", ESTATE)["guestinfo.userdata"] == "---"

    # The same plan again tells the reason and nothing that is not so.
    again = vgpu_cfg.done("plan", plan, "--output", "json", **secrets)
    assert kinds(again) == {"stage_guest"}
    assert codes(again) == {"VG606", *case.also.split()}
    shown = vgpu_cfg("status", plan, **secrets)
    assert case.why in shown.told

    before = boots(vgpu_cfg)
    mended = vgpu_cfg.write("fixed.yaml", case.mended)
    vgpu_cfg.keep_id(mended)
    done = vgpu_cfg.done("apply", mended, "--yes", **SECRETS)
    assert vgpu_cfg("plan", mended, "--exit-code", **SECRETS).code == 0
    assert guest_in(vgpu_cfg, "hvd-01").services["vgpu-cfg-worker"]
    # Whatever restarts, the VM stays on.
    assert {name: at for name, (_, at) in boots(vgpu_cfg).items()} == {
        name: at for name, (_, at) in before.items()
    }
    assert told_secrets(vgpu_cfg, ran, again, shown, done) == []


def test_a_disk_that_is_full_is_told_and_the_run_goes_on_once_there_is_room(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", from_template("no-room"))
    ran = vgpu_cfg("apply", plan, "--yes", **SECRETS)
    assert ran.code == 6
    assert "image could not be set up in the guest: the disk has 20 GiB free" in ran.told
    assert "the guest's free disk space" in ran.told
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        vm = vm_of(lab.state, "hvd-01")
        guest_of(vm).free_mib += 60 * 1024
        lab.state.touch(vm)
    done = vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert vgpu_cfg("plan", plan, "--exit-code", **SECRETS).code == 0
    assert told_secrets(vgpu_cfg, ran, done) == []


# ------------------------------------------------------------- told before anything is touched


@pytest.mark.parametrize(
    ("template", "code", "exit_code", "why"),
    [
        ("bios", "VG203", 4, "use a template whose operating system was installed in EFI mode"),
        ("small-disk", "VG620", 0, "the image may not fit do set disks: [{grow:"),
    ],
)
def test_what_a_template_lacks_is_told_by_plan(
    template: str, code: str, exit_code: int, why: str, vgpu_cfg: CommandLine
) -> None:
    plan = vgpu_cfg.write("plan.yaml", from_template(template))
    ran = vgpu_cfg("plan", plan, **SECRETS)
    assert ran.code == exit_code
    assert code in ran.told
    assert why in ran.told


def test_a_package_of_a_branch_that_the_host_does_not_take_is_told_by_plan(vgpu_cfg: CommandLine) -> None:
    text = (ROOT / "examples/multi-node-horovod.yaml").read_text(encoding="utf-8")
    package = PACKAGE.replace("580_580.95.05", "470_470.239.06")
    plan = vgpu_cfg.write(
        "plan.yaml", text.replace(GUEST, f"{GUEST}driver: {{package: '{package}', sha256: {SUM}}}, ")
    )
    ran = vgpu_cfg("plan", plan, **SECRETS)
    assert ran.code == 4
    assert "VG611" in ran.told
    assert "the guest's driver is from branch 470" in ran.told
    assert "use a package from branch 580 in `guest.driver`" in ran.told


# ------------------------------------------------------------- no way in


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_template_without_cloud_init_and_without_a_login_is_not_waited_for_twice(
    vgpu_cfg: CommandLine,
) -> None:
    plan = vgpu_cfg.write("plan.yaml", from_template("no-cloud-init"))
    planned = vgpu_cfg.done("plan", plan, "-v", **SECRETS)
    assert "VG603" in planned.told
    ran = vgpu_cfg("apply", plan, "--yes", **SECRETS)
    assert ran.code == 6
    assert "no report from the guest within 30 min: cloud-init is not responding" in ran.told
    assert "set `guest.login` to a user" in ran.told
    assert options_of(vgpu_cfg, "hvd-01", ESTATE)["guestinfo.userdata"] == "---"

    again = vgpu_cfg("apply", plan, "--yes", **SECRETS)
    assert again.code == 4
    assert "VG604" in again.told
    assert "set guest: {login:" in again.told

    mended = vgpu_cfg.write("fixed.yaml", from_template("no-cloud-init", LOGIN))
    vgpu_cfg.keep_id(mended)
    done = vgpu_cfg.done("apply", mended, "--yes", **SECRETS)
    assert vgpu_cfg("plan", mended, "--exit-code", **SECRETS).code == 0
    assert told_secrets(vgpu_cfg, planned, ran, again, done) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by", [pytest.param("guest-operations", marks=pytest.mark.long(WHY)), "ssh"])
def test_a_password_that_was_wrong_needs_no_leave_to_restart_afterwards(
    by: str, vgpu_cfg: CommandLine
) -> None:
    plan = vgpu_cfg.write("plan.yaml", from_template("no-cloud-init", f"by: {by}, {LOGIN}"))
    wrong = {**SECRETS, "ADMIN": "another-SECRET"}
    ran = vgpu_cfg("apply", plan, "--yes", **wrong)
    assert ran.code == 6
    assert "hvd-01: created, but not completed: stage hvd-01" in ran.told
    done = vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert vgpu_cfg("plan", plan, "--exit-code", **SECRETS).code == 0
    assert told_secrets(vgpu_cfg, ran, done) == []
