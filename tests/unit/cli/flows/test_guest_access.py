from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.fake_vcenter import START
from vgpu_cfg.cli.flows.preparing import guest_access
from vgpu_cfg.cli.flows.preparing.guest_access import GuestSecrets, has_guests, secret_names
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.guests.guest import fingerprint_of
from vgpu_cfg.model.guests.modules import UsersModule
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, Vm, VmDetail
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.guests.plan_keys import mark_of_clone
from vgpu_cfg.settings.connection import Connection
from vgpu_cfg.settings.secrets import SecretStore

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


def guest_secrets(
    plan: DesiredPlan, observed: Inventory, *rotate: str, is_lab: bool = False
) -> GuestSecrets | None:
    store = SecretStore(plan.secrets, Path())
    return guest_access.guest_secrets(plan, observed, PlanOptions(rotate=rotate), store, is_lab=is_lab)


def with_fingerprints(plan: DesiredPlan, observed: Inventory, connection: Connection = SERVER) -> PlanOptions:
    store = SecretStore(plan.secrets, Path())
    return guest_access.with_fingerprints(plan, observed, PlanOptions(), connection, store)


def seen(*vms: Vm) -> Inventory:
    return Inventory(
        vcenter=VCenter(address="vc01.example.com", instance_uuid="1234"), read_at=START, vms=vms
    )


def staged_vm(word: str = "abcdef01", power: PowerState = PowerState.ON, mark: str = "") -> Vm:
    detail = VmDetail(extra_config={"vgpu_cfg.guest": mark or f"ssh-mesh:0123456789:{word}"})
    return Vm(
        moid="vm-7", power_state=power, name="hvd-01", mark=OwnerMark(plan="demo", vm="hvd-01"), detail=detail
    )


def word_of(found: GuestSecrets) -> str:
    """Return how the mark of a guest with these keys tells of them."""
    return fingerprint_of(UsersModule(machine_user="any"), found.fingerprints) or ""


def test_the_secrets_of_a_plans_guests_by_their_names(tmp_path: Path) -> None:
    plan = desired(tmp_path)
    assert has_guests(plan)
    assert set(secret_names(plan, seen())) == {"token", "ngc", "admin"}


def test_a_secret_that_only_a_module_of_the_site_needs_is_among_them(tmp_path: Path) -> None:
    proxy = "site: {proxy: {http: 'http://p.example:3128', user: u, password: {secret: ngc}}}\n"
    plan = desired(tmp_path, TEXT.partition("training:")[0] + proxy)
    assert set(secret_names(plan, seen())) == {"token", "ngc", "admin"}


def test_a_plan_without_guests_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    plan = desired(tmp_path).model_copy(update={"vms": ()})
    assert guest_secrets(plan, seen()) is None


def test_apply_takes_every_secret_and_a_new_seed_that_is_written_once_it_is_used(tmp_path: Path) -> None:
    found = guest_secrets(desired(tmp_path), seen())
    assert found is not None
    assert found.values == {"token": "a token", "ngc": "an api key", "admin": "a password"}
    assert set(found.fingerprints) == {PLAN_KEYS, "token", "ngc", "admin"}
    assert not (tmp_path / "state").exists()
    found.seeds.keep()
    again = guest_secrets(desired(tmp_path), seen(staged_vm(word_of(found))))
    assert again is not None
    assert again.fingerprints == found.fingerprints
    assert "a token" not in repr(found)


@pytest.mark.parametrize("name", ["TOKEN", "NGC", "ADMIN"])
def test_a_secret_that_is_not_there_stops_apply_and_not_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    known = guest_secrets(desired(tmp_path), seen())
    assert known is not None
    known.seeds.keep()
    monkeypatch.delenv(name)
    with pytest.raises(LoginFailed, match=f"secret '{name.lower()}' not found") as caught:
        guest_secrets(desired(tmp_path), seen())
    assert caught.value.subject == f"env:{name}"
    options = with_fingerprints(desired(tmp_path), seen())
    assert options.fingerprints == {
        key: value for key, value in known.fingerprints.items() if key != name.lower()
    }


def test_plan_makes_no_seed_and_knows_no_fingerprint_without_one(tmp_path: Path) -> None:
    options = with_fingerprints(desired(tmp_path), seen())
    assert options.fingerprints == {}
    assert not (tmp_path / "state").exists()


def test_a_seed_from_a_secret_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = desired(tmp_path, TEXT + KEYS)
    with pytest.raises(LoginFailed, match="secret 'seed' not found"):
        guest_secrets(plan, seen())
    monkeypatch.setenv("SEED", "short")
    with pytest.raises(LoginFailed, match="too short"):
        guest_secrets(plan, seen())
    assert with_fingerprints(plan, seen()).fingerprints == {}
    monkeypatch.setenv("SEED", "s" * 64)
    found = guest_secrets(plan, seen())
    assert found is not None
    assert guest_secrets(plan, seen(staged_vm(word_of(found)))) == found
    found.seeds.keep()
    assert not (tmp_path / "state").exists()


def test_guests_that_have_keys_already_get_no_others_by_accident(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match="guests that use them: hvd-01") as caught:
        guest_secrets(desired(tmp_path), seen(staged_vm()))
    assert caught.value.subject.endswith("keys/demo-1234.seed")


def test_a_guest_that_no_run_has_marked_yet_knows_the_keys_of_the_machine_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = desired(tmp_path, TEXT + KEYS)
    monkeypatch.setenv("SEED", "s" * 64)
    here = guest_secrets(plan, seen())
    assert here is not None
    made = seen(staged_vm(mark=mark_of_clone(here.fingerprints[PLAN_KEYS])))
    assert guest_secrets(plan, made) == here
    monkeypatch.setenv("SEED", "t" * 64)
    with pytest.raises(LoginFailed, match="the keys in hvd-01 differ"):
        guest_secrets(plan, made)
    with pytest.raises(LoginFailed, match="guests that use them: hvd-01"):
        guest_secrets(desired(tmp_path), made)


def test_keys_are_never_other_ones_because_this_machine_has_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = desired(tmp_path, TEXT + KEYS)
    monkeypatch.setenv("SEED", f"hex:{'ab' * 32}")
    before = guest_secrets(plan, seen())
    assert before is not None
    staged = seen(staged_vm(word_of(before)))
    monkeypatch.setenv("SEED", "s" * 64)
    with pytest.raises(LoginFailed, match="the keys in hvd-01 differ") as caught:
        guest_secrets(plan, staged)
    assert "the secret `seed`" in caught.value.remedy
    # One that is off counts as well, until another guest shows that these are the keys.
    with pytest.raises(LoginFailed, match="the keys in hvd-01 differ from the plan's"):
        guest_secrets(plan, seen(staged_vm(word_of(before), PowerState.OFF)))
    assert guest_secrets(plan, staged, "keys") is not None
    # Behind the new ones the old ones are known, and to take the new ones is still for somebody to say.
    monkeypatch.setenv("SEED", f"{'s' * 64} hex:{'ab' * 32}")
    with pytest.raises(LoginFailed, match="the keys in hvd-01 differ from the plan's") as caught:
        guest_secrets(plan, staged)
    assert caught.value.remedy == "to replace them in the guests, use `--rotate keys`"
    found = guest_secrets(plan, staged, "keys")
    assert found is not None
    assert (found.seeds.value, found.seeds.former) == (b"s" * 64, (b"\xab" * 32,))


def test_keys_of_this_machine_are_new_where_that_is_said_and_gone_on_with_where_it_broke_off(
    tmp_path: Path,
) -> None:
    first = guest_secrets(desired(tmp_path), seen())
    assert first is not None
    first.seeds.keep()
    staged = seen(staged_vm(word_of(first)))
    renewed = guest_secrets(desired(tmp_path), staged, "keys")
    assert renewed is not None
    assert renewed.seeds.former == (first.seeds.value,)
    renewed.seeds.keep()
    for said in (("keys",), ()):
        again = guest_secrets(desired(tmp_path), staged, *said)
        assert again is not None
        assert again.seeds.value == renewed.seeds.value
        assert again.in_options(PlanOptions()).rotate == ("keys",)


def test_nothing_is_fetched_for_a_recording(tmp_path: Path) -> None:
    known = guest_secrets(desired(tmp_path), seen())
    assert known is not None
    known.seeds.keep()
    recorded = Connection(server="a.json", recording=tmp_path / "a.json")
    assert with_fingerprints(desired(tmp_path), seen(), recorded).fingerprints == {}


def test_on_the_lab_any_value_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    found = guest_secrets(desired(tmp_path, TEXT + KEYS), seen(), is_lab=True)
    assert found is not None
    assert found.values["token"]
    assert found.seeds.path is not None
