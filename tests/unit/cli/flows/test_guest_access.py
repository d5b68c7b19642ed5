from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.fake_vcenter import START
from vgpu_cfg.cli.flows.guest_access import guest_secrets, has_guests, secret_names, with_fingerprints
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.observed.vm import OwnerMark, Vm, VmDetail
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.settings.connection import Connection

TEXT = """\
version: 1
name: demo
vcenter: vc01.example.com
secrets: {token: "env:TOKEN", ngc: "env:NGC", seed: "env:SEED", admin: "env:ADMIN"}
networks:
- {name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.99, gateway: 10.20.0.1}
vms:
- name: hvd-{01..02}
  template: ubuntu-22.04-efi
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {licence: {secret: token}, login: {user: admin, password: {secret: admin}}}
training:
  workers: hvd-*
  image: nvcr.io/nvidia/tensorflow:21.07-tf1-py3
  registry: {password: {secret: ngc}}
"""
KEYS = "  keys: {secret: seed}\n"
SERVER = Connection(server="vc01.example.com", user="anna")


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_CFG_STATE_FOLDER", str(tmp_path / "state"))
    monkeypatch.setenv("TOKEN", "a token")
    monkeypatch.setenv("NGC", "an api key")
    monkeypatch.setenv("ADMIN", "a password")


def desired(folder: Path, text: str = TEXT) -> DesiredPlan:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return load_plan(path).desired


def seen(*vms: Vm) -> Inventory:
    return Inventory(
        vcenter=VCenter(address="vc01.example.com", instance_uuid="1234"), read_at=START, vms=vms
    )


def staged_vm() -> Vm:
    detail = VmDetail(extra_config={"vgpu_cfg.guest": "users:0123456789:abcdef01"})
    return Vm(moid="vm-7", name="hvd-01", mark=OwnerMark(plan="demo", vm="hvd-01"), detail=detail)


def test_the_secrets_of_a_plans_guests_by_their_names(tmp_path: Path) -> None:
    plan = desired(tmp_path)
    assert has_guests(plan)
    assert set(secret_names(plan)) == {"token", "ngc", "admin"}


def test_a_plan_without_guests_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    plan = desired(tmp_path).model_copy(update={"vms": ()})
    assert guest_secrets(plan, seen(), is_lab=False) is None


def test_apply_takes_every_secret_and_a_new_seed_that_is_written_once_it_is_used(tmp_path: Path) -> None:
    found = guest_secrets(desired(tmp_path), seen(), is_lab=False)
    assert found is not None
    assert found.values == {"token": "a token", "ngc": "an api key", "admin": "a password"}
    assert set(found.fingerprints) == {PLAN_KEYS, "token", "ngc", "admin"}
    assert not (tmp_path / "state").exists()
    found.seed.keep()
    again = guest_secrets(desired(tmp_path), seen(staged_vm()), is_lab=False)
    assert again is not None
    assert again.fingerprints == found.fingerprints
    assert "a token" not in repr(found)


@pytest.mark.parametrize("name", ["TOKEN", "NGC", "ADMIN"])
def test_a_secret_that_is_not_there_stops_apply_and_not_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    known = guest_secrets(desired(tmp_path), seen(), is_lab=False)
    assert known is not None
    known.seed.keep()
    monkeypatch.delenv(name)
    with pytest.raises(LoginFailed, match=f"the secret '{name.lower()}' is not there") as caught:
        guest_secrets(desired(tmp_path), seen(), is_lab=False)
    assert caught.value.subject == f"env:{name}"
    options = with_fingerprints(desired(tmp_path), seen(), PlanOptions(), SERVER)
    assert options.fingerprints == {
        key: value for key, value in known.fingerprints.items() if key != name.lower()
    }


def test_plan_makes_no_seed_and_knows_no_fingerprint_without_one(tmp_path: Path) -> None:
    options = with_fingerprints(desired(tmp_path), seen(), PlanOptions(), SERVER)
    assert options.fingerprints == {}
    assert not (tmp_path / "state").exists()


def test_a_seed_from_a_secret_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = desired(tmp_path, TEXT + KEYS)
    with pytest.raises(LoginFailed, match="the secret 'seed' is not there"):
        guest_secrets(plan, seen(), is_lab=False)
    monkeypatch.setenv("SEED", "short")
    with pytest.raises(LoginFailed, match="too short"):
        guest_secrets(plan, seen(), is_lab=False)
    assert with_fingerprints(plan, seen(), PlanOptions(), SERVER).fingerprints == {}
    monkeypatch.setenv("SEED", "s" * 64)
    found = guest_secrets(plan, seen(staged_vm()), is_lab=False)
    assert found is not None
    found.seed.keep()
    assert not (tmp_path / "state").exists()


def test_guests_that_have_keys_already_get_no_others_by_accident(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match="hvd-01 was set up with them") as caught:
        guest_secrets(desired(tmp_path), seen(staged_vm()), is_lab=False)
    assert caught.value.subject.endswith("keys/demo-1234.seed")


def test_nothing_is_fetched_for_a_recording(tmp_path: Path) -> None:
    known = guest_secrets(desired(tmp_path), seen(), is_lab=False)
    assert known is not None
    known.seed.keep()
    recorded = Connection(server="a.json", recording=tmp_path / "a.json")
    assert with_fingerprints(desired(tmp_path), seen(), PlanOptions(), recorded).fingerprints == {}


def test_on_the_lab_any_value_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    found = guest_secrets(desired(tmp_path, TEXT + KEYS), seen(), is_lab=True)
    assert found is not None
    assert found.values["token"]
    assert found.seed.path is not None
