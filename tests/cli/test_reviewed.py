"""`plan -o` and `apply plan.json`: what was reviewed is what is done, or nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.command_line import CommandLine

PLAN = "plans/pair.yaml"
ESTATE = "two-a100"


def test_a_reviewed_plan_is_carried_out_and_has_nothing_to_do_after_that(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    vgpu_cfg.done("apply", "--yes", "plan.json")
    applied = vgpu_cfg.look(ESTATE)
    assert applied.vms == {"hvd-01", "hvd-02"}
    vgpu_cfg.done("apply", "--yes", "plan.json")
    assert vgpu_cfg.look(ESTATE) == applied
    assert vgpu_cfg("status", "--exit-code", "plan.json").code == 0
    vgpu_cfg.done("destroy", "--yes", "plan.json")
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_what_is_saved_is_what_json_shows(vgpu_cfg: CommandLine) -> None:
    shown = json.loads(vgpu_cfg.done("plan", PLAN, "-o", "plan.json", "--output", "json").out)
    saved = json.loads((vgpu_cfg.folder / "plan.json").read_text(encoding="utf-8"))
    assert saved == {"digest": shown["digest"], **shown["plan"]}


def test_variables_are_filled_in_a_saved_plan(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done(
        "plan", "plans/variables.yaml", "--set", "net=vm-network", "--set", "size=40c", "-o", "plan.json"
    )
    assert "NEXT   vgpu-cfg apply plan.json\n" in done.out
    vgpu_cfg.done("apply", "--yes", "plan.json")
    assert vgpu_cfg.look(ESTATE).vms == {"v-01"}


def test_an_estate_that_moved_on_makes_it_out_of_date(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    vgpu_cfg.done("apply", "--yes", "plans/before.yaml")
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 4
    assert vgpu_cfg.look(ESTATE) == before


def half_done(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 2, "message": "no"})
    failed = vgpu_cfg("apply", "--yes", "plan.json")
    assert failed.code == 6
    assert "NEXT vgpu-cfg apply plan.json" in failed.told
    vgpu_cfg.script(ESTATE)


def test_the_rest_of_a_plan_that_failed_is_what_was_reviewed(vgpu_cfg: CommandLine) -> None:
    half_done(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", "plan.json")
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


def test_the_rest_of_it_is_not_if_its_run_is_not_known_here(vgpu_cfg: CommandLine) -> None:
    half_done(vgpu_cfg)
    for path in (vgpu_cfg.state_folder / "journals").iterdir():
        path.unlink()
    assert vgpu_cfg("apply", "--yes", "plan.json").code == 4


def test_a_change_that_was_not_reviewed_is_not_its_rest(vgpu_cfg: CommandLine) -> None:
    half_done(vgpu_cfg)
    more = (vgpu_cfg.folder / PLAN).read_text(encoding="utf-8").replace("cpus: 16", "cpus: 8")
    vgpu_cfg.write("plans/more.yaml", more)
    (vgpu_cfg.folder / "plans/more.yaml.id").write_bytes((vgpu_cfg.folder / f"{PLAN}.id").read_bytes())
    vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", "plans/more.yaml")
    stale = vgpu_cfg("apply", "--yes", "--allow-power-cycle", "plan.json")
    assert stale.code == 4
    assert "out of date" in stale.told


def test_what_changed_after_a_whole_run_is_not_its_rest(vgpu_cfg: CommandLine) -> None:
    half_done(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", "plan.json")
    vgpu_cfg.done("destroy", "--yes", "--only=hvd-02", PLAN)
    assert vgpu_cfg("apply", "--yes", "plan.json").code == 4


def _other_location(plan: dict[str, Any]) -> None:
    plan["changes"][0]["location"]["datastore_moid"] = "datastore-0"


def _other_desire(plan: dict[str, Any]) -> None:
    plan["desired"]["vms"][0]["cpus"] = 2


def _no_digest(plan: dict[str, Any]) -> None:
    del plan["digest"]
    plan["changes"].pop()


def _unknown_change(plan: dict[str, Any]) -> None:
    plan["changes"][0]["kind"] = "format_disk"


def _unknown_key(plan: dict[str, Any]) -> None:
    plan["changes"][0]["also"] = True


@pytest.mark.parametrize(
    ("edit", "code"),
    [(_other_location, 3), (_other_desire, 4), (_no_digest, 3), (_unknown_change, 3), (_unknown_key, 3)],
)
def test_an_edited_plan_is_refused(
    edit: Callable[[dict[str, Any]], None], code: int, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    content = json.loads((vgpu_cfg.folder / "plan.json").read_text(encoding="utf-8"))
    edit(content)
    vgpu_cfg.write("plan.json", json.dumps(content))
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == code, ran.told
    assert vgpu_cfg.look(ESTATE) == before


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "1:1"),
        ("{\n  oh", "2:3"),
        ("[]", "1:1"),
        ("{}", "1:1"),
        ('{"format": 2}', "1:1"),
        ("version: 1", "1:1"),
        ("\N{BYTE ORDER MARK}{}", "1:1"),
    ],
)
def test_what_is_no_saved_plan_is_told(content: str, place: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.json", content)
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 3
    assert ran.err.startswith(f"plan.json:{place}: ")
    assert "`vgpu-cfg plan PLAN -o plan.json`" in ran.err


def test_the_options_that_a_plan_was_made_with_are_in_what_to_type_next(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/before.yaml")
    done = vgpu_cfg.done(
        "plan",
        "plans/shrunk.yaml",
        "--allow-power-cycle",
        "--delete",
        "ch-02",
        "--server",
        "lab:two-a100",
        COLUMNS="200",
    )
    command = done.out.rpartition("NEXT   vgpu-cfg ")[2].split()
    assert command == [
        "apply", "plans/shrunk.yaml", "--allow-power-cycle", "--delete=ch-02", "--server=lab:two-a100",
    ]  # fmt: skip
    vgpu_cfg.done(*command, "--yes")


@pytest.mark.parametrize(("found", "age"), [(1, "an older version"), (3, "a newer version")])
def test_a_plan_of_another_format_is_refused_with_a_sentence(
    found: int, age: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    path = vgpu_cfg.folder / "plan.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "format": found}), encoding="utf-8")
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 3
    said = f"the plan was saved by {age} (format {found}); this version reads format {content['format']}"
    assert said in " ".join(ran.err.split())
    assert "save it again with `vgpu-cfg plan PLAN -o plan.json`" in ran.err
