"""A plan's keys among its admins: shared, missing, other ones, and replaced when somebody says so."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pyrage
import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import state_file, watch_labs
from tests.cli.locks import leave_proofs
from tests.cli.team import SECRETS, codes, staged_modules, vm_of
from tests.cli.test_guests import ESTATE, HEAD, WORKERS, options_of
from tests.extent import examples
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import takes_key
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.model.guests.guest import HOST_KEY_KEY
from vgpu_cfg.shells.keys import PlanKeyRing

PLAN = Path("plan.yaml")
OPS = PlanKeyRing(b"o" * 32).login_key()
SHARED = HEAD + WORKERS.replace(
    "guest: {", f"guest: {{users: [{{name: ops, keys: {OPS.public}, sudo: true}}], "
)
OWN = SHARED.replace("  keys: {secret: seed}\n", "")
"""A plan whose keys the state folder keeps."""
VMS = ("hvd-01", "hvd-02")
OTHER = {"VGPU_CFG_STATE_FOLDER": "other"}
"""A colleague's machine: another state folder, the same plan file, the same vCenter."""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apply the plan once; every test begins with a copy of what that left."""
    with pytest.MonkeyPatch.context() as patch:
        run = CommandLine(tmp_path_factory.mktemp("applied"), patch)
        run.done("apply", run.write("plan.yaml", OWN), "--yes", **SECRETS)
        return run.folder


@pytest.fixture
def here(applied: Path, vgpu_cfg: CommandLine) -> CommandLine:
    for name in ("state", "plan.yaml.id"):
        copy = shutil.copytree if name == "state" else shutil.copy
        copy(applied / name, vgpu_cfg.folder / name)
    vgpu_cfg.write("plan.yaml", OWN)
    (vgpu_cfg.folder / "other").mkdir()
    (vgpu_cfg.folder / "other" / "lab").symlink_to(vgpu_cfg.folder / "state" / "lab")
    return vgpu_cfg


def seeds_of(run: CommandLine, folder: str = "state") -> str:
    """Return what the state folder of a machine keeps of the plan's keys, "" where nothing."""
    found = [one.read_text(encoding="ascii") for one in (run.folder / folder / "keys").glob("*.seed")]
    return found[0] if found else ""


def ring(text: str) -> PlanKeyRing:
    return PlanKeyRing(bytes.fromhex(text.split(maxsplit=1)[0].removeprefix("hex:")))


def let_in(state: LabState, name: str, keys: PlanKeyRing) -> bool:
    """Whether a guest lets this tool in by the login key of a seed."""
    return takes_key(guest_of(vm_of(state, name)), "vgpu-cfg", keys.login_key().public)


def share(run: CommandLine) -> dict[str, str]:
    """Do what the how-to says: keep the seed in the secret that the plan names; return who can read it."""
    run.write("plan.yaml", SHARED)
    seed = seeds_of(run)
    shutil.rmtree(run.folder / "state" / "keys")
    return {**SECRETS, "SEED": seed}


# ---------------------------------------------------------------- two machines


def test_a_second_machine_with_the_shared_secret_has_nothing_to_do(here: CommandLine) -> None:
    secrets = share(here)
    tasks = here.look(ESTATE).tasks
    for machine in ({}, OTHER):
        assert here("plan", PLAN, "--exit-code", **secrets, **machine).code == 0
        assert "0 changes" in here.done("apply", PLAN, "--yes", **secrets, **machine).out
    assert here.look(ESTATE).tasks == tasks
    assert not seeds_of(here) + seeds_of(here, "other")


def test_a_second_machine_without_the_keys_is_refused_before_anything_is_written(here: CommandLine) -> None:
    before = here.look(ESTATE)
    planned = here("plan", PLAN, "--output", "json", **SECRETS, **OTHER)
    assert (planned.code, codes(planned)) == (0, {"VG433"})
    assert not json.loads(planned.out)["plan"]["changes"]
    assert "share-a-plans-keys.md" in here.done("status", PLAN, **SECRETS, **OTHER).told
    refused = here("apply", PLAN, "--yes", **SECRETS, **OTHER)
    assert refused.code == 5
    assert "the plan's keys are not on this machine; guests that use them: hvd-{01..02}" in refused.told
    assert here.look(ESTATE) == before
    assert not seeds_of(here, "other")
    # What it says to do: copy the folder.
    assert "copy keys/ in the state folder from the machine that applied the plan" in refused.told
    shutil.copytree(here.folder / "state" / "keys", here.folder / "other" / "keys")
    assert here("plan", PLAN, "--exit-code", **SECRETS, **OTHER).code == 0
    assert "0 changes" in here.done("apply", PLAN, "--yes", **SECRETS, **OTHER).out


def test_a_second_machine_reads_the_keys_from_a_file_beside_the_plan(here: CommandLine) -> None:
    """What the refusal's page says to do: encrypt what the file holds to all admins, and name it."""
    anna, ben = (pyrage.x25519.Identity.generate() for _ in range(2))
    for folder in ("demo", "elsewhere"):
        (here.folder / folder).mkdir()
    shutil.move(here.folder / "plan.yaml.id", here.folder / "demo")
    recipients = [anna.to_public(), ben.to_public()]
    (here.folder / "demo" / "demo.keys.age").write_bytes(pyrage.encrypt(seeds_of(here).encode(), recipients))
    plan = here.write("demo/plan.yaml", SHARED.replace('seed: "env:SEED"', 'seed: "age:demo.keys.age"'))
    for name, identity, machine in (("anna", anna, {}), ("ben", ben, OTHER)):
        here.write(f"{name}.txt", f"{identity}\n")
        said = {**SECRETS, **machine, "VGPU_CFG_AGE_IDENTITY": f"{name}.txt"}
        # The path counts from the plan file, wherever the plan is saved.
        here.done("plan", plan, "--exit-code", "-o", "elsewhere/plan.json", **said)
        assert "0 changes" in here.done("apply", plan, "--yes", **said).out
        assert "0 changes" in here.done("apply", "elsewhere/plan.json", "--yes", **said).out
    stranger = here("apply", plan, "--yes", **SECRETS, VGPU_CFG_AGE_IDENTITY="anna.txt.none")
    assert stranger.code == 5
    assert "AGE-SECRET" not in stranger.told


# ---------------------------------------------------------------- other keys


def test_other_keys_are_refused_and_nothing_is_planned_anew(here: CommandLine) -> None:
    secrets = share(here)
    before = here.look(ESTATE)
    other = {**secrets, "SEED": "another-SECRET-of-the-plans-keys-0123456789"}
    planned = here("plan", PLAN, "--output", "json", **other)
    assert (planned.code, codes(planned)) == (4, {"VG434"})
    assert not json.loads(planned.out)["plan"]["changes"]
    refused = here("apply", PLAN, "--yes", **other)
    assert refused.code == 5
    assert "the keys in hvd-{01..02} differ from the plan's keys on this machine" in refused.told
    assert here.look(ESTATE) == before
    # What it says to do: bring the keys back.
    assert "0 changes" in here.done("apply", PLAN, "--yes", **secrets).out


# ---------------------------------------------------------------- replaced


def test_keys_of_the_state_folder_are_replaced_when_told_to(here: CommandLine) -> None:
    before = seeds_of(here)
    shown = here.done("plan", PLAN, "--rotate", "keys", **SECRETS)
    assert ("new keys" in shown.out, seeds_of(here) == before) == (True, True)
    staged = staged_modules(here, PLAN, "--rotate", "keys")
    assert staged == {name: {"users", "licence", "ssh-mesh", "registry"} for name in VMS}
    here.done("plan", PLAN, "--rotate", "keys", "-o", "plan.json", **SECRETS)
    ran = here.done("apply", "plan.json", "--rotate", "keys", "--yes", **SECRETS)
    assert "the old keys were discarded" in ran.told
    after = seeds_of(here)
    assert (len(after.split()), after == before) == (1, False)
    (kept,) = (here.state_folder / "keys").iterdir()
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    state = here.lab(ESTATE).state
    for name in VMS:
        assert (let_in(state, name, ring(after)), let_in(state, name, ring(before))) == (True, False)
    assert here("plan", PLAN, "--exit-code", **SECRETS).code == 0
    journals = [one.read_text(encoding="utf-8") for one in (here.state_folder / "journals").iterdir()]
    for seed in (*before.split(), *after.split()):
        assert not [text for text in (*journals, shown.told, ran.told) if seed.removeprefix("hex:") in text]


def test_a_shared_seed_is_replaced_by_whoever_keeps_it_and_when_told_to(here: CommandLine) -> None:
    secrets = share(here)
    old, new = secrets["SEED"].strip(), "a-new-SECRET-of-the-plans-keys-0123456789"
    unchanged = here("apply", PLAN, "--rotate", "keys", "--yes", **secrets)
    assert (unchanged.code, "insert a new seed before the old one" in unchanged.told) == (4, True)
    gone = here("apply", PLAN, "--rotate", "keys", "--yes", **{**secrets, "SEED": new})
    assert (gone.code, "append its current seed after the new one" in gone.told) == (4, True)
    both = {**secrets, "SEED": f"{new}\n{old}"}
    untold = here("apply", PLAN, "--yes", **both)
    assert (untold.code, "to replace them in the guests, use `--rotate keys`" in untold.told) == (5, True)
    ran = here.done("apply", PLAN, "--rotate", "keys", "--yes", **both, **OTHER)
    assert "2 guest" in ran.out
    # Everybody goes on with both, and is told that the old one may go; then with the new one alone.
    assert "VG436" in here.done("plan", PLAN, "--exit-code", **both).out
    assert "VG436" in here.done("apply", PLAN, "--rotate", "keys", "--yes", **both).out
    assert here("plan", PLAN, "--exit-code", **{**secrets, "SEED": new}).code == 0
    assert here("apply", PLAN, "--yes", **secrets).code == 5
    assert let_in(here.lab(ESTATE).state, "hvd-01", PlanKeyRing(new.encode()))


def test_keys_that_a_command_prints_are_replaced_when_told_to(here: CommandLine) -> None:
    secrets = share(here)
    new = "a-new-SECRET-of-the-plans-keys-0123456789"
    here.write("keys", f"{new} {secrets['SEED'].strip()}\n")
    here.write("plan.yaml", SHARED.replace("env:SEED", "command:cat keys"))
    asked = here("apply", PLAN, "--rotate", "keys", **secrets)
    assert (asked.code, "Run `cat keys` for secrets?" in asked.told) == (2, True)
    here.done("apply", PLAN, "--rotate", "keys", "--yes", **secrets)
    assert let_in(here.lab(ESTATE).state, "hvd-01", PlanKeyRing(new.encode()))
    planned = here.done("plan", PLAN, **secrets)
    assert "none; `apply` runs the secret `seed`'s command after you confirm" in planned.told
    assert "apply rejects" not in planned.told


def test_keys_that_are_lost_are_replaced_by_a_login_of_ones_own(here: CommandLine) -> None:
    shutil.rmtree(here.state_folder / "keys")
    refused = here("apply", PLAN, "--yes", **SECRETS)
    assert refused.code == 5
    assert "if the keys are lost, set `guest.login` and run with `--rotate keys`" in refused.told
    stuck = here("apply", PLAN, "--rotate", "keys", "--yes", **SECRETS)
    assert (stuck.code, "or set `guest.login`" in stuck.told, seeds_of(here)) == (4, True, "")
    text = OWN.replace('"env:TOKEN"', '"env:TOKEN", ops: "env:OPS"')
    here.write("plan.yaml", text.replace("guest: {", "guest: {login: {user: ops, key: {secret: ops}}, "))
    here.done("apply", PLAN, "--rotate", "keys", "--yes", **SECRETS, OPS=OPS.private)
    assert seeds_of(here)
    assert here("plan", PLAN, "--exit-code", **SECRETS, OPS=OPS.private).code == 0


def test_a_token_and_a_registrys_password_are_brought_again_and_once(here: CommandLine) -> None:
    words = ("--rotate", "licence", "--rotate", "registry")
    assert staged_modules(here, PLAN, *words) == {name: {"licence", "registry"} for name in VMS}
    ran = here.done("apply", PLAN, *words, "--yes", **{**SECRETS, "TOKEN": "tok-SECRET-renewed"})
    assert ran.told.count("remains valid until you revoke it") == 2
    assert "--rotate" not in ran.out.partition("CHECK")[2]
    assert here("plan", PLAN, "--exit-code", **{**SECRETS, "TOKEN": "tok-SECRET-renewed"}).code == 0


def test_what_a_plan_does_not_have_cannot_be_replaced(vgpu_cfg: CommandLine) -> None:
    for word, text in (("licence", OWN.replace("licence: {secret: token}", "")), ("keys", HEAD)):
        here = vgpu_cfg.write("none.yaml", text)
        ran = vgpu_cfg("plan", here, "--rotate", word, **SECRETS)
        assert (ran.code, "no guest in the plan uses" in ran.told) == (2, True)
    assert vgpu_cfg("plan", "none.yaml", "--rotate", "token").code == 2


# ---------------------------------------------------------------- killed


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_replacement_that_is_killed_is_mended_by_the_same_command(here: CommandLine) -> None:
    """Whatever a process leaves that dies: the lab's state and the file of seeds of every moment."""
    before, file = seeds_of(here), next((here.state_folder / "keys").iterdir())
    place = state_file(here, ESTATE)
    moments = [(place.read_bytes(), file.read_bytes())]
    with pytest.MonkeyPatch.context() as patch:

        def keep(_name: str) -> None:
            moment = place.read_bytes(), file.read_bytes()
            if moment not in moments[-1:]:
                moments.append(moment)

        watch_labs(patch).after_call = keep
        here.done("apply", PLAN, "--rotate", "keys", "--yes", **SECRETS)
    assert len(moments) > 10
    assert len({len(seeds.split()) for _, seeds in moments}) == 2
    for state, seeds in moments[1 :: max(1, len(moments) // examples(2, 100))]:
        place.write_bytes(state)
        file.write_bytes(seeds)
        lab = here.lab(ESTATE)
        while lab.state.open_tasks and lab.wait():
            continue  # what vCenter was told it does, whoever has died
        leave_proofs(here.state_folder, lab.state)
        here.done("apply", PLAN, "--rotate", "keys", "--yes", **SECRETS)
        after = seeds_of(here)
        assert len(after.split()) == 1
        assert here("plan", PLAN, "--exit-code", **SECRETS).code == 0
        found = here.lab(ESTATE).state
        for name in VMS:
            assert (let_in(found, name, ring(after)), let_in(found, name, ring(before))) == (True, False)


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_guest_whose_host_key_follows_from_the_old_keys_is_known_by_it_afterwards(
    vgpu_cfg: CommandLine,
) -> None:
    """A derived host key stays in the guest: its VM keeps it, since nobody can derive it any more."""
    text = OWN.replace("guest: {", "guest: {secrets: exposed, ")
    plan = vgpu_cfg.write("plan.yaml", text)
    vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert not options_of(vgpu_cfg, "hvd-01").get(HOST_KEY_KEY)
    before = ring(seeds_of(vgpu_cfg))
    vgpu_cfg.done("apply", plan, "--rotate", "keys", "--yes", **SECRETS)
    for name in VMS:
        kept = options_of(vgpu_cfg, name)[HOST_KEY_KEY]
        assert kept == " ".join(before.host_key(name).public.split()[:2])
    assert vgpu_cfg("plan", plan, "--exit-code", **SECRETS).code == 0
    vgpu_cfg.done("apply", plan, "--rotate", "licence", "--yes", **SECRETS)
    vgpu_cfg.done("verify", plan, **SECRETS)
