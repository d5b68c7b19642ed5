"""Secrets planted and searched for at every moment of a run: the page on them says where each one is."""

from __future__ import annotations

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.secret_watch import OWN_KEY, SecretWatch, distinct_part, told_places, watch_secrets
from tests.cli.test_guests import ESTATE, HEAD, WORKERS, options_of
from vgpu_cfg.settings.plan_keys import seeds_of_secret
from vgpu_cfg.shells.keys import PlanKeyRing

PAGE = ROOT / "docs" / "explanation" / "guest-secrets.md"
PLANTED = {
    "TOKEN": "tok-PLANTED-licence",
    "NGC": "ngc-PLANTED-registry",
    "SEED": "seed-PLANTED-of-the-plans-keys-0123456789",
    "ADMIN": "the-admins-SECRET",
    "GRAFANA": "grafana-PLANTED-password",
}
KEYS = PlanKeyRing(seeds_of_secret("seed", PLANTED["SEED"]).value)
PLAN = (
    HEAD.replace('admin: "env:ADMIN"', 'admin: "env:ADMIN", grafana: "env:GRAFANA"')
    + """\
vms:
- name: hvd-01
  template: with-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {licence: {secret: token}}
- name: head
  template: with-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  cpus: 2
  memory: 8GiB
  nics: [{network: vm-network, ip: pool}]
  guest: {}
- name: box-01
  template: without-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: pool}]
  guest: {by: guest-operations, licence: {secret: token}, login: {user: admin, password: {secret: admin}}}
training:
  workers: hvd-*
  head: head
  image: nvcr.io/nvidia/tensorflow:21.07-tf1-py3
  registry: {password: {secret: ngc}}
  keys: {secret: seed}
  monitoring: {grafana_password: {secret: grafana}}
"""
)


NEEDLES = {
    "licence token": (PLANTED["TOKEN"],),
    "registry password": (PLANTED["NGC"],),
    "Grafana's password": (PLANTED["GRAFANA"],),
    "the mesh's private key": (distinct_part(KEYS.mesh_key().private),),
    "the key by which vgpu-cfg logs in": (distinct_part(KEYS.login_key().private),),
    "password or key of `guest.login`": (PLANTED["ADMIN"],),
    "the seed of the plan's keys": (PLANTED["SEED"],),
}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> SecretWatch:
    return watch_secrets(monkeypatch, NEEDLES)


def found_in(watch: SecretWatch) -> dict[str, frozenset[str]]:
    return {name: frozenset(place for one, place in watch.found if one == name) for name in watch.needles}


def test_every_secret_is_where_its_page_says_and_nowhere_else(
    vgpu_cfg: CommandLine, watch: SecretWatch
) -> None:
    path = vgpu_cfg.write("plan.yaml", PLAN)
    ran = [
        vgpu_cfg.done("plan", path, "-o", "plan.json", **PLANTED),
        vgpu_cfg.done("apply", "plan.json", "--yes", **PLANTED),
    ]
    watch.look_at_files(vgpu_cfg)
    for one in ran:
        watch.look_at_text("printed", one.out + one.err)
    assert watch.looks > 100
    found = found_in(watch)
    assert not [place for places in found.values() for place in places if not place.startswith("guest: ")]
    assert found == told_places(PAGE, "Locations")


EXPOSED = HEAD + WORKERS.replace("{01..02}", "01").replace(
    "{secret: token}}", "{secret: token}, secrets: exposed}"
)
DERIVED = {OWN_KEY: (distinct_part(KEYS.host_key("hvd-01").private),)}
GIVEN = ("licence token", "registry password", "the mesh's private key", OWN_KEY)


def test_exposed_secrets_stand_where_the_page_says_and_are_redacted(
    vgpu_cfg: CommandLine, watch: SecretWatch
) -> None:
    watch.needles |= DERIVED
    path = vgpu_cfg.write("plan.yaml", EXPOSED)
    ran = vgpu_cfg.done("apply", path, "--yes", **PLANTED)
    assert "VG430" in ran.out
    watch.look_at_files(vgpu_cfg)
    watch.look_at_text("printed", ran.out + ran.err)
    usual, more = told_places(PAGE, "Locations"), told_places(PAGE, "With `secrets: exposed`")
    (exposed,) = more.values()
    beside = {name: places - usual[name] for name, places in found_in(watch).items()}
    passing = frozenset({"guest: /var/lib/vgpu-cfg/secrets/mesh-host_key"})
    assert {name: places - passing for name, places in beside.items() if places} == dict.fromkeys(
        GIVEN, exposed
    )
    assert options_of(vgpu_cfg, "hvd-01")["guestinfo.userdata"] == "---"
    # It is over with the first staging: nothing of it is left but what the usual places hold.
    watch.forget()
    watch.look(vgpu_cfg.lab(ESTATE).state)
    left = {name: places - usual[name] for name, places in found_in(watch).items()}
    assert not [name for name, places in left.items() if places]
