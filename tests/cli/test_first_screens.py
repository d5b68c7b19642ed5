"""The first screen of every command that shows an estate of 300 hosts: at most 50 lines, and 120 columns.

Exceptions: the log of a run, which is not a screen, and what is handed to another program (metrics, runbooks,
exported files, JSON).
"""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.locks import ANNA, take_for_others
from tests.extent import each
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.render.layout.most import MOST_LINES

LAB = "lab:fleet-300x1"
SERVER = ("--server", LAB)
PLAN = f"""\
version: 1
name: big
vcenter: {LAB}
defaults: {{template: ubuntu-22.04-efi, folder: training, datastore: vsan, cpus: 4, memory: 16GiB}}
vms:
- {{name: "a-{{001..040}}", gpus: nvidia_h100-80c}}
"""
OF_AN_ESTATE = (
    ["inventory"],
    ["inventory", "--gpus"],
    ["inventory", "--reservations"],
    ["fit", "nvidia_l40s-12c"],
    ["doctor"],
    ["inventory", "--hours=30d"],
    ["inventory", "--hours=30d", "--by", "vm"],
    ["history"],
    ["unlock"],
)
OF_A_PLAN = (
    ["apply", "--yes", "two.yaml"],
    ["status", "big.yaml"],
    ["verify", "--quick", "big.yaml"],
    ["destroy", "--dry-run", "big.yaml"],
    ["forget", "--dry-run", "big.yaml"],
    ["inventory"],
    ["history"],
    ["unlock"],
    ["unlock", "--yes", "--force", ANNA.run],
)
WHY = "the first screen of every command: tests/cli/test_first_screens.py"


def lines_of(run: CommandLine, words: list[str]) -> int:
    ran = run(*words, *(SERVER if ".yaml" not in words[-1] else ()))
    text = ran.out + ran.err
    assert text
    assert ran.code != 2, text
    assert "Traceback" not in text
    return len(text.splitlines())


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "words",
    each(((words,) for words in OF_AN_ESTATE), WHY, lambda words: words in OF_AN_ESTATE[:4:3]),
    ids=" ".join,
)
def test_an_estate_of_300_hosts_is_a_screen(words: list[str], vgpu_cfg: CommandLine) -> None:
    assert lines_of(vgpu_cfg, words) <= MOST_LINES


@pytest.mark.exhaustive(WHY)
def test_a_plan_on_many_hosts_is_a_screen(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("big.yaml", PLAN)
    vgpu_cfg.write("two.yaml", PLAN.replace("name: big", "name: two").replace("040", "090"))
    end = vgpu_cfg.done("apply", "--yes", "big.yaml").out.splitlines()
    assert len(end) - max(index for index, line in enumerate(end) if "[80/80]" in line) <= MOST_LINES
    vgpu_cfg.done("cordon", "host:esx-01*", "--reason", "new DIMMs", *SERVER)
    vgpu_cfg.done("freeze", "--until", "2099-01-01", "--reason", "year end", "--yes", *SERVER)
    of_all_hosts = [LockName(kind="host", key=f"host-{one}", label=f"esx-{one:04}.lab") for one in range(300)]
    take_for_others(vgpu_cfg.lab("fleet-300x1"), *of_all_hosts)
    longer = {tuple(words): count for words in OF_A_PLAN if (count := lines_of(vgpu_cfg, words)) > MOST_LINES}
    assert longer == {}
    runs = json.loads(vgpu_cfg.done("history", "--output", "json", "big", *SERVER).out)["runs"]
    run = runs[-1]["run"]
    assert (
        lines_of(vgpu_cfg, ["history", "--run", run])
        <= MOST_LINES
        < lines_of(vgpu_cfg, ["history", "-v", "--run", run])
    )
