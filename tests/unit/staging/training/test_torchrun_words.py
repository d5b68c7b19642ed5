"""What `train` gives torchrun is read as it was meant by its own parser, of each version that was recorded.

`script/record-torchrun` read the options, with their types and choices, out of PyTorch's wheels, and let each
version's own functions take values apart. What an option does is not judged here: `tests/proof` runs some.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.planning.expand.training import CHOICES, NUMBERS, WHOLE_NUMBERS, WRITTEN
from vgpu_cfg.staging import rendering

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "torchrun_words.json").read_text())
LINE = Path(rendering.__file__).parent / "templates/train/torchrun.sh.j2"
GIVEN = "here=/opt/vgpu-cfg nodes=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 job=a"
MET = {"rdzv_backend": "c10d", "rdzv_endpoint": "10.0.0.1:29500", "rdzv_id": "a"}
MODES: dict[str, tuple[str, dict[str, object], list[int]]] = {
    "fixed": (
        "least= most= restarts=0",
        {"node_rank": 1, "master_addr": "10.0.0.1", "master_port": 29500, "max_restarts": 0},
        [2, 2],
    ),
    "elastic": ("least=1 most=2 restarts=0", {**MET, "max_restarts": 0}, [1, 2]),
    "restarts": ("least= most= restarts=3", {**MET, "max_restarts": 3}, [2, 2]),
}
TYPES = {"str": str, "int": int, "float": float}


def words_for(settings: str) -> list[str]:
    """Return the words that the second worker's shell runs, torchrun's own behind `exec`."""
    quoted = 'quoted() { for word in "$@"; do printf \'%s \' "$word"; done; }'
    script = f"{quoted}\n. {LINE}\n{GIVEN} {settings}\nline_torchrun 1 10.0.0.2 4 python train.py --lr 1"
    done = subprocess.run(
        ["/bin/sh", "-euc", script], capture_output=True, text=True, check=True, timeout=120
    )
    program, *words = shlex.split(done.stdout.splitlines()[-1].removeprefix("exec "))
    assert program == "torchrun"
    return words


class Reader(argparse.ArgumentParser):
    """It raises what argparse would say."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


def parser_of(version: str) -> Reader:
    """Make a parser of what a version declares."""
    parser = Reader(add_help=False)
    for option in RECORDED[version]["options"]:
        more: dict[str, Any] = {}
        if not option["value"]:
            more["action"] = "store_true"
        elif option.get("type") in TYPES:
            more["type"] = TYPES[option["type"]]
        if option.get("choices"):
            more["choices"] = option["choices"]
        if "nargs" in option:
            more["nargs"] = {"REMAINDER": argparse.REMAINDER}.get(option["nargs"], option["nargs"])
        parser.add_argument(*option["words"], **more)
    return parser


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", RECORDED)
def test_each_torchrun_reads_what_was_meant(version: str, mode: str) -> None:
    settings, meant, nodes = MODES[mode]
    found = vars(parser_of(version).parse_args(words_for(settings)))
    assert {key: found[key] for key in meant} == meant
    assert found["no_python"] is True
    assert int(found["nproc_per_node"]) == 4
    reads = RECORDED[version]["reads"]
    assert reads["--nnodes"][found["nnodes"]] == nodes
    if mode != "fixed":
        assert reads["--rdzv_conf"][found["rdzv_conf"]] == {"is_host": "false"}
    # What behind the program looks like an option of torchrun is none.
    assert found["training_script"] == "/opt/vgpu-cfg/rank"
    assert found["training_script_args"] == ["python", "train.py", "--lr", "1"]


@pytest.mark.parametrize(
    "words",
    [
        ["--max_restarts=three", "x"],
        ["--node_rank=", "x"],
        ["--master_port=29500/tcp", "x"],
        ["--start_method=thread", "x"],
        ["--no_python=1", "x"],
        ["--nodes=2", "x"],
        [],
    ],
)
def test_nonsense_is_noticed_by_each(words: list[str]) -> None:
    for version in RECORDED:
        with pytest.raises(ValueError, match="argument"):
            parser_of(version).parse_args(words)
        assert RECORDED[version]["reads"]["--nnodes"]["two"] is None


def test_a_word_of_a_later_torchrun_is_noticed() -> None:
    """--local_addr came with 2.0, which is why the address is handed over as PET_LOCAL_ADDR."""
    refusing = set()
    for version in RECORDED:
        try:
            parser_of(version).parse_args(["--local_addr=10.0.0.2", "x"])
        except ValueError:
            refusing.add(version)
    assert refusing == {version for version in RECORDED if version.startswith("1.")}


def test_variables_are_judged_as_some_torchrun_reads_them() -> None:
    """What a plan's `environment` is told of PET_OPTION is what is recorded of the option."""
    options = {
        "PET_" + word.lstrip("-").upper(): option
        for told in RECORDED.values()
        for option in told["options"]
        for word in option["words"]
        if word.startswith("--") and "-" not in word[2:]
    }
    assert set(WRITTEN) <= set(options)
    assert {options[name]["type"] for name in WHOLE_NUMBERS} == {"int"}
    assert {options[name]["type"] for name in NUMBERS} == {"float"}
    assert {name: tuple(options[name]["choices"]) for name in CHOICES} == CHOICES


def test_what_train_writes_is_not_left_to_variables() -> None:
    written = {word.partition("=")[0] for settings, *_ in MODES.values() for word in words_for(settings)}
    options = {word for word in written if word.startswith("--") and word != "--lr"}
    assert {"PET_" + word[2:].upper() for word in options} <= set(WRITTEN)
