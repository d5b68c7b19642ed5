"""`size` as people read it and as programs do: the same numbers, and what is said to a bad question."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine

ASKED = ("size", "--parameters", "7e9", "--workers", "8", "--board", "H100")


def test_text_and_json_tell_the_same(vgpu_cfg: CommandLine) -> None:
    found = json.loads(vgpu_cfg.done(*ASKED, "--output", "json").out)
    told = [line.split() for line in vgpu_cfg.done(*ASKED, "-v", COLUMNS="120").out.splitlines()]
    assert found["candidates"]
    for one in found["candidates"]:
        rows = [words for words in told if words[:1] == [one["profile"]]]
        numbers = [[word for word in words[1:] if word.isdigit()][:4] for words in rows]
        assert [str(one[key]) for key in ("gpus", "data", "tensor", "pipeline")] in numbers
        for room in one["rooms"]:
            begin = f"{room['servers']} × {room['server']} "
            (line,) = [" ".join(words) for words in told if " ".join(words).startswith(begin)]
            cells = line.removeprefix(begin).split()
            assert cells[0] == ("?" if room["watts"] is None else f"{room['watts'] / 1000:.1f}")
            keys = ("btu_per_hour", "rack_units", "power_supplies")
            assert cells[1:4] == ["?" if room[key] is None else str(room[key]) for key in keys]
            there = "?" if room["pcie_slots"] is None else str(room["pcie_slots"])
            assert cells[4:7] == [str(room["gpu_slots"]), "of", there]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify --parameters or --framebuffer"),
        (["--parameters", "7e9", "--framebuffer", "40GiB"], "specify --parameters or --framebuffer"),
        (["--framebuffer", "40GB"], "--framebuffer"),
        (["--parameters", "7"], "--parameters"),
        (["--parameters", "nan"], "--parameters"),
    ],
)
def test_a_question_that_is_none_is_2(words: list[str], said: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("size", *words, COLUMNS="200")
    assert ran.code == 2
    assert said in ran.err


def test_what_fits_nowhere_says_what_to_do(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("size", "--parameters", "70e9", "--board", "L4")
    assert "no board" in done.told
    assert "--workers" in done.told


def test_a_board_that_is_none_is_named_with_one_that_is_like_it(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("size", "--parameters", "7e9", "--board", "A1000")
    assert ran.code != 0
    assert "A100" in ran.err


def test_hosts_that_are_there_are_told_by_model_and_nothing_is_guessed(vgpu_cfg: CommandLine) -> None:
    words = ("size", "a100", "--server", "lab:mixed-fleet")
    found = json.loads(vgpu_cfg.done(*words, "--output", "json").out)
    hosts = [name for one in found["models"] for name in one["hosts"]]
    assert sorted(hosts) == [f"esx-a100-0{number}.lab" for number in range(1, 7)]
    assert [one["room"] for one in found["models"]] == [None] * len(found["models"])
    drawn = sum(one["boards_watts"] for one in found["models"])
    told = vgpu_cfg.done(*words).out
    assert f"TOTAL    boards: up to {drawn / 1000:.1f} kW" in told
    assert "no data sheet for the models of" in told


def test_a_model_that_is_known_takes_what_its_document_says(vgpu_cfg: CommandLine) -> None:
    text = """
about: Two servers of a model that is known, and one of its name with other boards.
clusters:
- name: ai
  hosts:
  - {names: [dgx-01, dgx-02], bios: {vendor: NVIDIA, model: DGXH100}, gpus: [{board: H100XM, count: 8}]}
  - {name: dgx-old, bios: {vendor: NVIDIA, model: DGXH100}, gpus: [{board: A100}]}
"""
    vgpu_cfg.write("known.yaml", text)
    found = json.loads(vgpu_cfg.done("size", "ai", "--server", "lab:known.yaml", "--output=json").out)
    rooms = {one["hosts"][0]: one["room"] for one in found["models"]}
    assert (rooms["dgx-01"]["watts"], rooms["dgx-01"]["rack_units"]) == (20400, 16)
    assert rooms["dgx-old"] is None


@pytest.mark.parametrize(("memory", "is_short"), [("1279GiB", True), ("1280GiB", False)])
def test_a_host_with_less_memory_than_twice_its_framebuffer_is_named(
    memory: str, is_short: bool, vgpu_cfg: CommandLine
) -> None:
    host = "{name: dgx-01, memory: MEMORY, gpus: [{board: H100XM, count: 8}]}".replace("MEMORY", memory)
    vgpu_cfg.write("short.yaml", f"about: A server.\nclusters: [{{name: ai, hosts: [{host}]}}]\n")
    words = ("size", "ai", "--server", "lab:short.yaml")
    (found,) = json.loads(vgpu_cfg.done(*words, "--output=json").out)["models"]
    assert found["framebuffer_mib"] == 640 * 1024
    assert list(found["short_of_memory"]) == ["dgx-01"] * is_short
    assert ("dgx-01 has" in vgpu_cfg.done(*words).out) is is_short


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nix", "--server", "lab:mixed-fleet"], 5, "no cluster matches nix"),
        (["a100", "--parameters", "7e9"], 2, "the connection options"),
    ],
)
def test_a_room_that_is_asked_for_wrongly(
    vgpu_cfg: CommandLine, words: list[str], code: int, said: str
) -> None:
    ran = vgpu_cfg("size", *words)
    assert ran.code == code
    assert said in ran.told
