"""One way to name things and to change them: the same words and the same options in every command.

`--host`, `--vm`, `--cluster`, `--only` and targets read `host:`, `vm:`, `gpu:HOST/PCI`, `cluster:`, bare
names and globs. Commands that change a vCenter have `--yes` and `--dry-run`.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_freeze import WRITE
from tests.cli.test_help import COMMANDS, OF_RECORDINGS, options_of

ESTATE = "estates/work-on-hosts.yaml"
SERVER = f"--server=lab:{ESTATE}"
PLAN = "plans/work-on-hosts.yaml"
GPU = "gpu:esx-01.lab/21:00.0"
SPELLED = ("host:esx-01.lab", "vm:t1", GPU, "cluster:gpu", "esx-01.lab", "esx-0*")

OF_ONE = {
    ("explain", "--vm"), ("fit", "--vm"), ("drain", "--power-off"), ("uncordon", "--power-off"),
    ("plan", "--delete"), ("apply", "--delete"), ("destroy", "--delete"), ("runbook", "--delete"),
    ("trial", "--cluster"), ("trial", "--move-to"),
}  # fmt: skip
"""Options that name one object of one kind, with the kind before it or not."""
OF_SEVERAL = {
    ("inventory", "--host"): [],
    ("inventory", "--cluster"): [],
    ("fit", "--host"): ["grid_a100-40c"],
    ("fit", "--cluster"): ["grid_a100-40c"],
    ("upgrade", "--host"): ["--driver=595.71"],
    ("upgrade", "--cluster"): ["--driver=595.71"],
    ("export", "--host"): [],
    ("export", "--cluster"): [],
    ("export", "--vm"): [],
    ("verify", "--host"): [PLAN, "--quick"],
    ("verify", "--vm"): [PLAN, "--quick"],
    ("plan", "--only"): [PLAN],
    ("apply", "--only"): [PLAN, "--dry-run"],
    ("destroy", "--only"): [PLAN, "--dry-run"],
    ("import", "--only"): [PLAN, "--dry-run"],
    ("forget", "--only"): [PLAN, "--dry-run"],
}
OTHERS = {("verify", "--only"): "checks", ("verify", "--template"): "templates of the plan file"}
NAMES = {"--host", "--cluster", "--vm", "--only", "--delete", "--power-off", "--move-to"}


def test_every_option_that_takes_an_object_is_listed() -> None:
    found = {(name, option) for name in COMMANDS for option in NAMES & options_of(name)}
    assert found == OF_ONE | {*OF_SEVERAL} | ({*OTHERS} & found)


@pytest.mark.parametrize(
    "stride", [3, pytest.param(1, marks=pytest.mark.exhaustive("every spelling with every option"))]
)
def test_every_spelling_selects(stride: int, vgpu_cfg: CommandLine) -> None:
    """Each option reads two of the spellings, and each spelling is read by five options or more."""
    vgpu_cfg.done("apply", PLAN, "--yes")
    wrong = {}
    for number, ((command, option), words) in enumerate(OF_SEVERAL.items()):
        server = [] if PLAN in words else [SERVER]
        for word in SPELLED[number % stride :: stride]:
            ran = vgpu_cfg(command, *words, option, word, *server)
            if ran.code not in (0, 8, 9):
                wrong[command, option, word] = (ran.code, ran.told[-200:])
        vain = vgpu_cfg(command, *words, option, "host:no-such", *server)
        if vain.code not in (4, 5):
            wrong[command, option, "host:no-such"] = (vain.code, vain.told[-200:])
    assert wrong == {}


def test_a_recording_is_carried_into_what_is_typed_next_and_only_where_it_can_be(
    vgpu_cfg: CommandLine,
) -> None:
    recording = "examples/site-repository/vcenter.json.gz"
    told = vgpu_cfg.done("doctor", "--from", recording).out
    next_ones = re.findall(r"\$ vgpu-cfg (.+)$", told, re.MULTILINE)
    assert next_ones
    for command in next_ones:
        has_one = f"--from={recording}" in command
        assert has_one == (command.split()[0] in OF_RECORDINGS), command
        if has_one:
            vgpu_cfg.done(*shlex.split(command))


def test_a_selection_is_the_objects_of_the_word(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    gone = json.loads(vgpu_cfg.done("destroy", PLAN, "--dry-run", "--only", GPU, "--output=json").out)
    names = {one["subject"]["name"] for one in gone["plan"]["changes"]}
    assert len(names & {"t1", "t2"}) == 1, "each of the two VMs has a GPU of its own"
    both = ["esx-01.lab", "esx-02.lab"]
    for word, hosts in (("host:esx-02", both[1:]), ("vm:t*", both[:1]), ("cluster:g*", both)):
        told = json.loads(vgpu_cfg.done("inventory", "--host", word, SERVER, "--output=json").out)
        assert [one["name"] for one in told["hosts"]] == hosts


@pytest.mark.parametrize("word", ["host:esx-01.lab", "cluster:gpu", GPU])
def test_one_of_a_kind_refuses_another_by_name(word: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("explain", "--vm", word, SERVER)
    assert (ran.code, "use vm:NAME" in ran.told) == (2, True)


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
def test_a_target_of_another_kind_is_answered_with_its_host(command: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg(command, "vm:plain-db", "--reason=x", "--yes", SERVER)
    assert (ran.code, "specify host:esx-01.lab" in ran.told) == (5, True)


def test_a_bare_name_of_a_cluster_is_answered_with_its_hosts(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("drain", "gpu", "--dry-run", SERVER)
    assert (ran.code, "specify host:esx-01.lab or host:esx-02.lab" in ran.told) == (5, True)


def test_a_misspelt_vm_of_the_plan_is_answered_with_the_one_that_was_meant(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("plan", PLAN, "--only", "vm:tt1")
    assert (ran.code, "did you mean 't1'?" in ran.told) == (4, True)


def test_what_changes_a_vcenter_asks_and_shows() -> None:
    assert {name: {"--yes", "--dry-run"} - options_of(name) for name in WRITE} == {
        name: set() for name in WRITE
    }


@pytest.mark.parametrize(
    "words",
    [
        ("cordon", "esx-01.lab", "--reason=x", SERVER),
        ("freeze", "--until=2099-01-07", "--reason=x", SERVER),
        ("apply", PLAN),
    ],
    ids=lambda words: words[0],
)
def test_a_dry_run_changes_nothing(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    assert vgpu_cfg.done(*words, "--dry-run").out
    assert vgpu_cfg.look(ESTATE) == before


def test_uncordon_only_uncordons(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    vgpu_cfg.done("drain", "esx-01.lab", "--others", "--yes", "--reason=x", SERVER)
    ran = vgpu_cfg.done("uncordon", "host:esx-01.lab", SERVER)
    again = f"vgpu-cfg uncordon host:esx-01.lab --restore {SERVER}"
    assert f"to return them, run `{again}`" in ran.told
    on = {vm["name"]: vm["host"] for vm in _vms(vgpu_cfg)}
    assert {on[name] for name in ("t1", "t2")} == {"esx-02.lab"}
    vgpu_cfg.done(*again.split()[1:], "--yes")
    assert {vm["host"] for vm in _vms(vgpu_cfg) if vm["name"] in ("t1", "t2")} == {"esx-01.lab"}


def _vms(vgpu_cfg: CommandLine) -> list[dict[str, str]]:
    shown: list[dict[str, str]] = json.loads(vgpu_cfg.done("status", PLAN, "--output=json").out)["vms"]
    return shown
