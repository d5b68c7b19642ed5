"""`plan`, `status` and `validate` on a folder: each plan as it is alone, one that fails beside the others."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from tests.cli.command_line import ROOT, CommandLine

FILES = {
    "site.yaml": "version: 1\ndefaults: {template: ubuntu-22.04-efi, folder: training}\n",
    "a.yaml": "version: 1\nname: plan-a\nvcenter: lab:two-a100\ninclude: site.yaml\n"
    "vms: [{name: a-01, gpus: grid_a100-40c}]\n",
    "b.yaml": "version: 1\nname: plan-b\nvcenter: lab:mig-a100\ninclude: site.yaml\n"
    "vms: [{name: b-01, gpus: grid_a100-1-5c}]\n",
    "c.yaml": "version: 1\nname: plan-c\nvcenter: lab:two-a100\ninclude: site.yaml\n"
    "vms: [{name: 'c-{1..3}', gpus: grid_a100-40c}]\n",
}
MOMENTS = ("read_at", "digest")
FAULTY = "version: 1\nname: plan-d\nvcenter: lab:two-a100\nvms: [{name: d-01, gpus: no-such}]\n"


@pytest.fixture
def site(vgpu_cfg: CommandLine) -> CommandLine:
    (vgpu_cfg.folder / "site").mkdir()
    for name, text in FILES.items():
        vgpu_cfg.write(f"site/{name}", text)
    return vgpu_cfg


def without_moments(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: without_moments(one) for key, one in value.items() if key not in ("read_at", "digest")
            }
        case list():
            return [without_moments(one) for one in value]
        case _:
            return value


@pytest.mark.parametrize(
    ("words", "codes", "code"),
    [(["plan"], [0, 0, 4], 4), (["plan", "--exit-code"], [10, 10, 4], 4), (["status"], [0, 0, 0], 0)],
)
def test_each_plan_says_what_it_says_alone(
    words: list[str], codes: list[int], code: int, site: CommandLine
) -> None:
    ran = site(*words, "site", "--output", "json")
    document = json.loads(ran.out)
    names = [f"site/{letter}.yaml" for letter in "abc"]
    alone = [site(*words, name, "--output", "json") for name in names]
    assert (document["kind"], document["command"]) == ("plans", words[0])
    assert [(row["name"], row["exit_code"]) for row in document["plans"]] == list(
        zip(names, codes, strict=True)
    )
    assert [without_moments(row["answer"]) for row in document["plans"]] == [
        without_moments(json.loads(one.out)) for one in alone
    ]
    assert (ran.code, [one.code for one in alone]) == (code, codes)
    told = [json.loads(line) for line in ran.err.splitlines()]
    assert [one["message"] for one in told] == [json.loads(one.err)["message"] for one in alone if one.err]
    assert all(one["subject"].endswith("(plan site/c.yaml)") for one in told)


def test_one_with_faults_hides_none_of_the_others(site: CommandLine) -> None:
    site.write("site/c.yaml", FAULTY)
    ran = site("plan", "site/")
    assert ran.code == 3
    assert [line for line in ran.out.splitlines() if line.startswith("== ")] == [
        "== plan site/a.yaml",
        "== plan site/b.yaml",
    ]
    assert ran.out.splitlines()[-1].split() == ["2", "of", "3", "2", "4", "0"]
    assert "site/c.yaml:4:" in ran.err


def test_plans_of_one_vcenter_do_not_know_of_each_other_and_that_is_said(site: CommandLine) -> None:
    note = "plans may compete for the same free capacity in vCenter"
    assert note in site("plan", "site").out
    (site.folder / "site" / "c.yaml").unlink()
    assert note not in site("plan", "site").out


def test_a_vm_in_two_plans_is_a_fault_without_a_vcenter(site: CommandLine) -> None:
    site.done("validate", "site")
    shutil.copy(site.folder / "site" / "a.yaml", site.folder / "site" / "e.yaml")
    ran = site("validate", "site", "--output", "json")
    assert ran.code == 3
    assert [row["exit_code"] for row in json.loads(ran.out)["plans"]] == [3, 0, 0, 3]
    assert "the VM a-01 is also used by site/e.yaml" in ran.err


@pytest.mark.parametrize("command", ["apply", "destroy", "verify", "runbook"])
def test_what_takes_one_plan_names_those_of_the_folder(command: str, site: CommandLine) -> None:
    ran = site(command, "site")
    assert (ran.code, ran.out) == (3, "")
    assert "the command requires a single plan" in ran.told
    assert "site/a.yaml, site/b.yaml, site/c.yaml" in ran.told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "site", "--server", "lab:two-a100"], "each plan in a folder specifies its own vCenter"),
        (["status", "site", "--context", "prod"], "each plan in a folder specifies its own vCenter"),
        (["status", "site", "--context", "prod-*"], "each plan in a folder specifies its own vCenter"),
        (["plan", "site", "--from", "old.json"], "each plan in a folder specifies its own vCenter"),
        (["plan", "site", "-o", "plan.json"], "applies to a single plan"),
        (["plan", "site", "--only", "a-*"], "applies to a single plan"),
        (["plan", "site", "--delete", "a-01"], "applies to a single plan"),
        (["plan", "site", "--output", "markdown"], "applies to a single plan"),
        (["status", "site", "--output", "junit"], "applies to a single plan"),
        (["validate", "site", "--output", "junit"], "applies to a single plan"),
    ],
)
def test_what_is_of_one_plan_is_refused_for_a_folder(words: list[str], said: str, site: CommandLine) -> None:
    ran = site(*words)
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", "").split())


def test_the_folder_that_the_reference_draws_is_valid(vgpu_cfg: CommandLine) -> None:
    page = (ROOT / "docs/reference/plan-file.md").read_text(encoding="utf-8")
    drawn = re.findall(r"[├└]── (\w+\.yaml) +(.+)", page)
    given = {"defaults": "{folder: training}", "protect": "{names: [dc]}", "vms": "[{name: a, template: t}]"}
    (vgpu_cfg.folder / "site").mkdir()
    for name, keys in drawn:
        parts = keys.partition(": included by")[0].split(", ")
        lines = (part if ": " in part else f"{part}: {given[part]}" for part in parts)
        vgpu_cfg.write(f"site/{name}", "".join(f"{line}\n" for line in lines))
    told = vgpu_cfg.done("validate", "site/").told
    assert len(drawn) == 3
    assert ("site/muc.yaml: valid" in told, "site/ham.yaml: valid" in told) == (True, True)


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_what_is_wrong_with_a_file_that_all_include_is_told_once(command: str, site: CommandLine) -> None:
    site.write("site/site.yaml", FILES["site.yaml"] + "polocies: {}\n")
    site.write("site/d.yaml", FAULTY)
    ran = site(command, "site")
    assert ran.code == 3
    assert ran.err.count("site/site.yaml:3:1: unknown key 'polocies'") == 1
    assert ran.err.count("site/d.yaml:4:") == 1
    in_json = site(command, "site", "--output", "json")
    subjects = [json.loads(line)["subject"] for line in in_json.err.splitlines()]
    assert [subject.partition(" ")[2] for subject in subjects] == [
        f"(plan site/{letter}.yaml)" for letter in "abcd"
    ]


def test_a_profile_that_no_board_has_is_refused_without_a_vcenter(site: CommandLine) -> None:
    site.write("site/d.yaml", FAULTY.replace("no-such", "grid_a100-11c"))
    alone, among = site("validate", "site/d.yaml"), site("validate", "site")
    assert alone.code == site("plan", "site/d.yaml").code == 4
    assert "VG101 no known board supports the profile grid_a100-11c" in alone.err
    assert "did you mean grid_a100-10c" in alone.err
    assert "VG101 no known board supports the profile grid_a100-11c" in among.err
    site.write("site/d.yaml", FAULTY.replace("no-such", "{profile: [grid_a100-11c, grid_a100-10c]}"))
    site.done("validate", "site")
