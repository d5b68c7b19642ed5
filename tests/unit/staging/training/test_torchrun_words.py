"""Every word that `train` gives torchrun is an option of its own parser, of each version that was read.

`script/record-torchrun` read the options out of PyTorch's wheels. What a word means is not judged here.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vgpu_cfg.staging import rendering

WORDS: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "torchrun_words.json").read_text())
LINE = Path(rendering.__file__).parent / "templates/train/torchrun.sh.j2"
GIVEN = "here=/opt/vgpu-cfg nodes=2 most= MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 job=a"
MODES = {
    "fixed": ("least= restarts=0", "--node_rank"),
    "elastic": ("least=1 restarts=0", "--rdzv_endpoint"),
    "restarts": ("least= restarts=3", "--rdzv_endpoint"),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_torchrun_knows_the_words(mode: str) -> None:
    settings, expected = MODES[mode]
    quoted = "quoted() { printf '%s\\n' \"$@\"; }"
    script = f"{quoted}\n. {LINE}\n{GIVEN} {settings}\nline_torchrun 0 10.0.0.1 1 python"
    written = subprocess.run(
        ["/bin/sh", "-euc", script], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    words = {word.split("=")[0].removeprefix("exec ") for word in written.split()}
    used = {word for word in words if word.startswith("--")}
    assert {"--no_python", "--nnodes", "--nproc_per_node", "--max_restarts", expected} <= used
    for version, known in WORDS.items():
        assert used <= set(known), f"torchrun of torch {version} does not know {sorted(used - set(known))}"


def test_a_word_of_a_later_torchrun_is_noticed() -> None:
    """--local_addr came with 2.0, which is why the address is handed over as PET_LOCAL_ADDR."""
    knowing = {version for version, known in WORDS.items() if {"--local-addr", "--local_addr"} & set(known)}
    assert knowing == {version for version in WORDS if not version.startswith("1.")}
