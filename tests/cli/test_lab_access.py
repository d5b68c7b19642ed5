"""Who is let in to the lab, as a real vCenter and real hosts would, and how a runbook says to get in."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from paramiko import RSAKey

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli import labs
from vgpu_cfg.settings.connection import LAB_ADDRESS, LAB_PORT

PLAN = "plans/hosts-one.yaml"
SERVER = ("--server", "lab:two-a100")


def test_a_wrong_password_of_the_vcenter_is_refused_and_the_right_one_or_none_is_not(
    vgpu_cfg: CommandLine,
) -> None:
    wrong, right = vgpu_cfg.write("wrong", "guess"), vgpu_cfg.write("right", "lab\n")
    refused = vgpu_cfg("inventory", *SERVER, "--password-file", wrong)
    assert refused.code == 5
    assert "wrong user or password" in refused.err
    assert "guess" not in refused.told
    vgpu_cfg.done("inventory", *SERVER, "--password-file", right)
    vgpu_cfg.done("inventory", *SERVER)


def test_the_password_in_the_environment_is_for_somebodys_vcenter(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", *SERVER, VGPU_CFG_PASSWORD="theirs")


def test_a_wrong_password_of_a_host_is_refused_and_nothing_is_changed(vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look("bare")
    for command in (["plan", "--open-shell"], ["apply", "--yes"]):
        refused = vgpu_cfg(*command, PLAN, ESXI_PASSWORD="guess")
        assert refused.code in (4, 5, 6), refused.told
        assert "the login of root was rejected" in " ".join(refused.told.split())
        assert "guess" not in refused.told
    assert replace(vgpu_cfg.look("bare"), revision=before.revision) == before


def test_the_right_password_of_a_host_opens_its_shell_as_none_does(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", "--open-shell", PLAN, ESXI_PASSWORD="lab")
    vgpu_cfg.done("plan", "--open-shell", PLAN)


def test_a_key_must_be_one(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    text = (
        (vgpu_cfg.folder / PLAN)
        .read_text(encoding="utf-8")
        .replace("password: {secret: esxi}", "key: {secret: esxi}")
    )
    plan = vgpu_cfg.write("by-key.yaml", text)
    refused = vgpu_cfg("plan", "--open-shell", plan, ESXI_PASSWORD="no key at all")
    told = " ".join(refused.told.split())
    assert "the private key that `access` refers to is invalid or has a passphrase" in told, told
    kept = tmp_path / "key"
    RSAKey.generate(1024).write_private_key_file(str(kept))
    vgpu_cfg.done("plan", "--open-shell", plan, ESXI_PASSWORD=kept.read_text(encoding="utf-8"))


@pytest.mark.enable_socket
def test_the_runbook_of_a_lab_names_what_serves_it_and_where(vgpu_cfg: CommandLine) -> None:
    told = vgpu_cfg.done("runbook", "plans/first-40c.yaml").out
    assert "lab:" not in told[told.index("export GOVC_URL") :].split("\n\n")[0]
    serve = re.search(r"^vgpu-cfg lab serve (.*) --ssh$", told, re.MULTILINE)
    exports = dict(re.findall(r"(GOVC_\w+)=(\S+)", told))
    assert serve is not None
    with labs.serve_lab(serve[1], LAB_ADDRESS, 0, with_ssh=True) as served:
        port = served.url.rpartition(":")[2].partition("/")[0]
        assert exports["GOVC_URL"] == served.url.replace(port, str(LAB_PORT))
        assert shlex.split(exports["GOVC_TLS_CA_CERTS"]) == [str(served.certificate)]
        assert f"ssh -F {served.ssh_config} HOST" in told
        ca_file = str(served.certificate)
        account = ["--user", exports["GOVC_USERNAME"], "--ca-file", ca_file]
        words = ["inventory", "--server", f"{LAB_ADDRESS}:{port}", *account]
        vgpu_cfg.done(*words, VGPU_CFG_PASSWORD=exports["GOVC_PASSWORD"])
        assert vgpu_cfg(*words, VGPU_CFG_PASSWORD="other").code == 5
