"""Saved plans that are signed: whose signature counts, and what is refused before anything is read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

PLAN = "plans/small.yaml"

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")


def make_key(folder: Path, name: str) -> str:
    """Make a key pair, and return the public half."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(words, check=True, timeout=120)
    return (folder / f"{name}.pub").read_text(encoding="ascii").rsplit(" ", 1)[0]


@pytest.fixture
def signed(vgpu_cfg: CommandLine) -> CommandLine:
    """Save a plan that jane has signed, and allow her to."""
    jane = make_key(vgpu_cfg.folder, "jane")
    vgpu_cfg.write("signers", f'jane@example.com namespaces="vgpu-cfg" {jane}\n')
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json", "--sign", "jane")
    return vgpu_cfg


def refusal(vgpu_cfg: CommandLine, *words: str, command: str = "apply") -> str:
    """Return what a command says that must change nothing."""
    before = vgpu_cfg.look("one-a100")
    ran = vgpu_cfg(command, "--yes", *words)
    assert ran.code == 4, ran.told
    assert vgpu_cfg.look("one-a100") == before
    return ran.told


def test_what_an_allowed_signer_signed_is_applied(signed: CommandLine) -> None:
    ran = signed.done("apply", "--yes", "plan.json", "--require-signature", "signers")
    assert "plan.json: signed by jane@example.com" in ran.told
    assert signed.look("one-a100").vms == {"small-01"}
    ran = signed.done("destroy", "--dry-run", "plan.json", "--require-signature", "signers")
    assert "destroy plan.json --require-signature=signers" in ran.told


def test_what_is_not_signed_as_asked_is_refused(signed: CommandLine) -> None:
    asked = ("--require-signature", "signers")
    assert "this is a plan file" in refusal(signed, PLAN, *asked)
    plan = signed.folder / "plan.json"
    plan.write_text(plan.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert "or the plan was changed after signing" in refusal(signed, "plan.json", *asked)
    assert "or the plan was changed after signing" in refusal(signed, "plan.json", *asked, command="destroy")
    (signed.folder / "plan.json.sig").unlink()
    told = refusal(signed, "plan.json", *asked)
    # The remedy, word by word.
    assert "`ssh-keygen -Y sign -n vgpu-cfg -f KEY plan.json`" in told
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "vgpu-cfg", "-f", "jane", "plan.json"]
    subprocess.run(words, cwd=signed.folder, check=True, timeout=120)
    signed.done("apply", "--yes", "plan.json", *asked)


@pytest.mark.parametrize("purpose", ["vgpu-cfg", "file"])
def test_a_signature_of_others_or_for_something_else_is_none(signed: CommandLine, purpose: str) -> None:
    signer = "jane" if purpose == "file" else "mallory"
    if signer == "mallory":
        make_key(signed.folder, signer)
    (signed.folder / "plan.json.sig").unlink()
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", purpose, "-f", signer, "plan.json"]
    subprocess.run(words, cwd=signed.folder, check=True, timeout=120)
    told = refusal(signed, "plan.json", "--require-signature", "signers")
    assert "--require-signature does not allow the signer, or the plan was changed after signing" in told


def test_a_context_asks_for_signatures_however_its_server_is_named(signed: CommandLine) -> None:
    signed.write("config.yaml", "contexts: {prod: {server: 'lab:one-a100', require_signature: signers}}\n")
    assert "the context prod in config.yaml requires a signed plan" in refusal(signed, PLAN)
    signed.done("apply", "--yes", "plan.json")


def test_a_key_that_is_none_is_told(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("plan", PLAN, "-o", "plan.json", "--sign", "nobody")
    assert ran.code == 3
    assert "cannot sign with nobody" in ran.told
    assert vgpu_cfg("plan", PLAN, "--sign", "nobody").code == 2


def test_other_secrets_or_logins_are_another_plan(vgpu_cfg: CommandLine) -> None:
    plan = (vgpu_cfg.folder / "plans/hosts-one.yaml").read_text(encoding="utf-8")
    vgpu_cfg.write("hosts.yaml", plan)
    vgpu_cfg.done("plan", "hosts.yaml", "-o", "plan.json")
    saved = vgpu_cfg.folder / "plan.json"
    whole = json.loads(saved.read_text(encoding="utf-8"))
    secrets = {"secrets": {"esxi": {"kind": "command", "value": "touch forged"}}}
    access = {
        "hosts": [one | {"access": one["access"] | {"user": "toor"}} for one in whole["desired"]["hosts"]]
    }
    for forged in (secrets, access):
        assert whole["desired"] != whole["desired"] | forged
        text = json.dumps(whole | {"desired": whole["desired"] | forged})
        saved.write_text(text, encoding="utf-8")
        ran = vgpu_cfg("apply", "--yes", "plan.json")
        assert ran.code == 3
        assert "the saved plan was edited" in ran.told
    assert not (vgpu_cfg.folder / "forged").exists()
