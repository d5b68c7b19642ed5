"""What the lab believes of horovodrun, held against those of the registry."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.extent import each
from vgpu_cfg.lab.guest.tools.containers import complaint_about, complaint_about_script, version_of

SOURCES = Path(__file__).resolve().parents[4] / ".cache" / "horovod"
PARSE = """
import sys
sys.argv[0] = "horovodrun"
try:
    from horovod.runner.launch import parse_args
except ImportError:
    from horovod.run.runner import parse_args
parse_args()
"""
LINES = (
    "-np 2 -p 2222 --disable-cache --hostfile /h --network-interface ens224 python train.py --lr 1",
    "-np 2 -p 2222 --disable-cache --hostfile /h --network-interfaces ens224 python train.py --lr 1",
    "-np 2 -H a:1,b:1 --network-interfaces=ens224 python",
    "-np 2 --gloo --verbose --start-timeout 60 python --unknown",
    "-np 2 --min-np 1 --max-np 2 --reset-limit 3 --host-discovery-script /up python",
    "-np 2 --unknown python",
    "--disable-cache python",
)


@pytest.mark.parametrize(
    ("line", "version"),
    each(
        product(LINES, ["0.19.5", "0.20.3", "0.22.1", "0.24.3", "0.25.0", "0.28.1"]),
        "horovodrun of six versions of Horovod",
        lambda _line, _version: False,
        one_of=10,
    ),
)
def test_the_lab_complains_as_the_real_one_does(version: str, line: str) -> None:
    if not (SOURCES / "installed").exists():
        pytest.skip("there are no sources of Horovod: script/build-horovod says why")
    done = subprocess.run(
        [SOURCES / "env/bin/python", "-c", PARSE, *line.split()],
        env={"PYTHONPATH": str(SOURCES / version), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = done.stderr.splitlines()[-1] if done.returncode else ""
    assert complaint_about(version, line.split()) == said


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/tensorflow:20.10-tf1-py3", "0.20.0"),
        ("nvcr.io/nvidia/tensorflow:21.07-tf1-py3", "0.22.0"),
        ("nvcr.io/nvidia/tensorflow:23.03-tf1-py3", "0.28.1"),
        ("registry.example/team/tf:1", "0.28.1"),
    ],
)
def test_an_image_holds_what_its_release_notes_list(image: str, version: str) -> None:
    assert version_of(image) == version


@pytest.mark.parametrize(
    ("text", "version", "starts"),
    [
        ("horovodrun --network-interfaces x", "0.22.0", False),
        ("horovodrun --network-interfaces x", "0.28.1", True),
        ("horovodrun --network-interface x", "0.22.0", True),
        ("horovodrun --network-interface x; horovodrun --network-interfaces x", "0.22.0", True),
        ("", "0.22.0", True),
    ],
)
def test_a_script_starts_where_it_has_a_word_that_is_known(text: str, version: str, starts: bool) -> None:
    assert (complaint_about_script(version, text) == "") is starts
