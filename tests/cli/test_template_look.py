"""`verify --template` on the lab: a clone is made, looked into and deleted, whatever the template lacks."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine, Ran
from vgpu_cfg.cli.flows.running import template_flow
from vgpu_cfg.errors import GuestError

PLAN = "plans/odd-templates.yaml"
ESTATE = "estates/odd-templates.yaml"
SECRETS = {"LICENCE_TOKEN": "token", "PASSWORD": "lab"}


def look(line: CommandLine, template: str, code: int = 0, *words: str) -> Ran:
    ran = line("verify", PLAN, "--template", template, "--yes", *words, **SECRETS)
    assert ran.code == code, ran.told
    assert line.look(ESTATE).vms == frozenset()
    assert not list(line.state_folder.glob("keys/*"))
    return ran


def rows(ran: Ran) -> dict[str, str]:
    """Return what stands behind each thing of the table, in one line."""
    names = (
        "EFI", "VMware Tools", "cloud-init (VMware datasource)", "sshd", "root privileges",
        "kernel headers", "NVIDIA driver", "disk space",
    )  # fmt: skip
    table = ran.out[ran.out.index("TEMPLATE ") :].splitlines()
    return {
        name: " ".join(line.split(name, 1)[1].split())
        for name in names
        for line in table
        if line.strip().startswith(name)
    }


def test_a_whole_template_is_told_and_nothing_stays(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("verify", PLAN, "--template", "whole", "--yes", **SECRETS)
    found = rows(ran)
    assert found["EFI"] == "has efi"
    assert found["cloud-init (VMware datasource)"] == "has vmware"
    assert found["root privileges"] == "has user id 0"
    # The plan sees to no driver of its own, so that none is asked for.
    assert found["NVIDIA driver"].startswith(("not checked", "LACKS"))


@pytest.mark.exhaustive("each oddity of a template; one of them, and a whole one, are looked at every time")
@pytest.mark.parametrize(
    ("template", "code", "name", "says"),
    [
        ("without-tools", 8, "VMware Tools", "unknown"),
        ("without-cloud-init", 8, "cloud-init (VMware datasource)", "LACKS"),
        ("with-another-datasource", 8, "cloud-init (VMware datasource)", "LACKS nocloud"),
        ("without-headers", 8, "kernel headers", "unknown none (5.15.0-91-generic)"),
        ("without-headers", 8, "sshd", "LACKS"),
        ("almost-full", 8, "disk space", "LACKS"),
    ],
)
def test_what_a_template_lacks(vgpu_cfg: CommandLine, template: str, code: int, name: str, says: str) -> None:
    assert rows(look(vgpu_cfg, template, code))[name].startswith(says)


def test_a_template_that_reads_another_datasource(vgpu_cfg: CommandLine) -> None:
    ran = look(vgpu_cfg, "with-another-datasource", 8)
    assert "cloud-init (VMware datasource)" in ran.out.rsplit("from the template: ", 1)[1]


def test_a_fault_while_it_is_looked_at_leaves_no_clone(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(template_flow, "_rows", interrupted)
    ran = vgpu_cfg("verify", PLAN, "--template", "whole", "--yes", **SECRETS)
    assert ran.code == 130
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_guest_that_is_silent_is_told_by_what_vcenter_says(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise GuestError("the guest does not answer")

    monkeypatch.setattr(template_flow, "_rows", silent)
    ran = vgpu_cfg("verify", PLAN, "--template", "whole", "--yes", **SECRETS)
    assert "could not inspect the guest: the guest does not answer" in ran.told
    assert rows(ran)["EFI"] == "has efi"
    assert rows(ran)["kernel headers"].startswith("unknown")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--template", "nothing*", "--yes"), "no VM in the plan uses nothing* as its template"),
        (("--template", "whole", "--yes", "--output", "json"), "--template supports only text"),
        (("--template", "nothing*", "--dry-run"), "no VM in the plan uses nothing* as its template"),
        (("--yes",), "--yes: requires --template"),
        (("--dry-run",), "--dry-run: requires --template"),
    ],
)
def test_what_cannot_be_is_refused(vgpu_cfg: CommandLine, words: tuple[str, ...], said: str) -> None:
    ran = vgpu_cfg("verify", PLAN, *words, **SECRETS)
    assert ran.code in (2, 5)
    assert said in " ".join(ran.told.split())
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_dry_run_shows_the_clone_and_creates_nothing(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("verify", PLAN, "--template", "w*", "--dry-run", **SECRETS)
    assert "clone" in ran.out
    assert "template-check-" in ran.out
    assert f"NEXT   vgpu-cfg verify {PLAN} '--template=w*'" in ran.out
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_nobody_who_says_no_gets_a_clone(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("verify", PLAN, "--template", "whole", **SECRETS)
    assert ran.code in (2, 130)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_clone_that_a_killed_run_left_is_deleted_by_the_same_command(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(template_flow, "_deleted", lambda *_, **__: ())
        assert vgpu_cfg("verify", PLAN, "--template", "whole", "--yes", **SECRETS).code in (0, 8)
    (left,) = vgpu_cfg.look(ESTATE).vms
    assert left.startswith("template-check-")
    ran = vgpu_cfg("verify", PLAN, "--template", "whole", "--yes", **SECRETS)
    assert ran.told.count(f"delete {left}") >= 2
    assert vgpu_cfg.look(ESTATE).vms == frozenset()
    assert not list(vgpu_cfg.state_folder.glob("keys/*"))
