"""Guests from the command line: set up by cloud-init, guest operations and ssh, and no secret told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.team import SECRETS
from vgpu_cfg.lab.state.inventory import VirtualMachine

ESTATE = "estates/guests.yaml"
HEAD = f"""\
version: 1
name: demo
vcenter: lab:{ESTATE}
secrets: {{token: "env:TOKEN", ngc: "env:NGC", seed: "env:SEED", admin: "env:ADMIN"}}
networks:
- {{name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.99, gateway: 10.20.0.1}}
"""
WORKERS = """\
vms:
- name: hvd-{01..02}
  template: with-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {licence: {secret: token}}
training:
  workers: hvd-*
  image: nvcr.io/nvidia/tensorflow:21.07-tf1-py3
  registry: {password: {secret: ngc}}
  keys: {secret: seed}
"""
ONE = """\
vms:
- name: box-01
  template: without-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {by: BY, licence: {secret: token}, login: LOGIN}
"""


def one(by: str, login: str = "{user: admin, password: {secret: admin}}") -> str:
    return HEAD + ONE.replace("BY", by).replace("LOGIN", login)


def texts(value: object, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text in a JSON value with where it stands."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from texts(inner, *path, key)
        case list():
            for inner in value:
                yield from texts(inner, *path)
        case str():
            yield path, value
        case _:
            return


def documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents that follow each other in a text."""
    at = 0
    while text[at:].strip():
        found, at = json.JSONDecoder().raw_decode(text, len(text) - len(text[at:].lstrip()))
        yield found


def told_secrets(vgpu_cfg: CommandLine, *ran: Ran) -> list[str]:
    """Name every place but the guests' own disks where a secret stands."""
    found = [f"printed: {one.out}{one.err}" for one in ran if "SECRET" in one.out + one.err]
    for path in vgpu_cfg.folder.rglob("*"):
        if not path.is_file() or path.is_symlink() or ".yaml" in path.name:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.name == "state.json":
            found += [
                f"{path.name}: {'/'.join(where)}"
                for line in documents(text)
                for where, said in texts(line)
                if "SECRET" in said and "made_guest" not in where and "guest" not in where
            ]
        elif "SECRET" in text:
            found.append(str(path))
    return found


def programs_of(vgpu_cfg: CommandLine, name: str) -> list[str]:
    lab = vgpu_cfg.lab(ESTATE)
    vm = next(vm for vm in lab.state.all(VirtualMachine) if vm.name == name)
    guest = vm.made_guest
    return [] if guest is None else [one.command for one in guest.processes]


def options_of(vgpu_cfg: CommandLine, name: str, estate: str = ESTATE) -> dict[str, str]:
    lab = vgpu_cfg.lab(estate)
    vm = next(vm for vm in lab.state.all(VirtualMachine) if vm.name == name)
    return dict(vm.extra_config)


# ------------------------------------------------------------- cloud-init


def test_workers_are_set_up_in_one_run_and_a_second_one_does_nothing(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", HEAD + WORKERS)
    first = vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    assert "2 guest" in first.out
    planned = vgpu_cfg("plan", path, "--exit-code", **SECRETS)
    assert planned.code == 0, planned.out
    before = vgpu_cfg.look(ESTATE)
    again = vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    assert vgpu_cfg.look(ESTATE).tasks == before.tasks
    assert told_secrets(vgpu_cfg, first, planned, again) == []
    for name in ("hvd-01", "hvd-02"):
        assert options_of(vgpu_cfg, name)["guestinfo.userdata"] == "---"


def test_no_secret_is_told_when_a_guest_fails_or_a_plan_is_saved(vgpu_cfg: CommandLine) -> None:
    text = HEAD + WORKERS.replace("licence:", "driver: {package: /none.deb}, licence:")
    path = vgpu_cfg.write("plan.yaml", text)
    saved = vgpu_cfg.done("plan", path, "-o", "plan.json", **SECRETS)
    ran = vgpu_cfg("apply", "plan.json", "--yes", **SECRETS)
    assert told_secrets(vgpu_cfg, saved, ran) == []
    assert Path("plan.json").read_text(encoding="utf-8").count("SECRET") == 0


def test_a_new_token_is_brought_and_nothing_else(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", HEAD + WORKERS)
    vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    other = {**SECRETS, "TOKEN": "tok-SECRET-renewed"}
    planned = vgpu_cfg.done("plan", path, **other)
    assert "license" in planned.out
    assert "driver" not in planned.out
    ran = vgpu_cfg.done("apply", path, "--yes", **other)
    assert "2 guest" in ran.out
    assert told_secrets(vgpu_cfg, planned, ran) == []
    assert vgpu_cfg("plan", path, "--exit-code", **other).code == 0


def test_a_plan_is_shown_without_its_secrets(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", HEAD + WORKERS)
    vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    assert vgpu_cfg("plan", path, "--exit-code").code == 0


# ------------------------------------------------------------- templates without cloud-init


@pytest.mark.parametrize("by", ["cloud-init", "guest-operations", "ssh"])
def test_a_template_without_cloud_init_is_set_up_through_a_shell(vgpu_cfg: CommandLine, by: str) -> None:
    path = vgpu_cfg.write("plan.yaml", one(by))
    ran = vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    assert ("cloud-init is not responding" in ran.told) is (by == "cloud-init")
    assert vgpu_cfg("plan", path, "--exit-code", **SECRETS).code == 0
    assert told_secrets(vgpu_cfg, ran) == []
    assert options_of(vgpu_cfg, "box-01").get("guestinfo.userdata", "---") == "---"
    # What guest operations start is a program of the tools; ssh leaves none.
    assert bool(programs_of(vgpu_cfg, "box-01")) is (by != "ssh")


def test_a_guest_that_lets_nobody_in_is_told_of(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", one("guest-operations"))
    ran = vgpu_cfg("apply", path, "--yes", **{**SECRETS, "ADMIN": "another-SECRET"})
    assert ran.code == 6
    assert "the guest rejected admin's password" in ran.told
    assert told_secrets(vgpu_cfg, ran) == []


# ------------------------------------------------------------- the plan's keys


def test_the_plans_keys_are_made_by_apply_and_kept_for_its_user_alone(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", HEAD + WORKERS.replace("  keys: {secret: seed}\n", ""))
    vgpu_cfg.done("plan", path, **SECRETS)
    assert not (vgpu_cfg.state_folder / "keys").exists()
    ran = vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    (kept,) = (vgpu_cfg.state_folder / "keys").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert vgpu_cfg("plan", path, "--exit-code", **SECRETS).code == 0
    seed = kept.read_text(encoding="ascii").strip()
    journals = vgpu_cfg.state_folder / "journals"
    assert seed not in ran.out + ran.err
    assert not [one for one in journals.iterdir() if seed in one.read_text(encoding="utf-8")]


def test_keys_that_others_may_read_are_not_used(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", HEAD + WORKERS.replace("  keys: {secret: seed}\n", ""))
    vgpu_cfg.done("apply", path, "--yes", **SECRETS)
    (kept,) = (vgpu_cfg.state_folder / "keys").iterdir()
    kept.chmod(0o644)
    ran = vgpu_cfg("apply", path, "--yes", **SECRETS)
    assert (ran.code, "chmod 600" in ran.told) == (5, True)
