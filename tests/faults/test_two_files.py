"""Two persons whose files have one name: no file deletes or changes another's VM that it does not name."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine, plan_id

VM = "- {name: NAME, template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 2, memory: 8GiB}\n"
HEAD = "version: 1\nname: train\nvcenter: lab:two-a100\nvms:"
ESTATE = "two-a100"


def of(*names: str, identity: str = "") -> str:
    """Return a plan file called as everybody's, with these VMs."""
    head = HEAD.replace("vms:", f"id: {identity}\nvms:") if identity else HEAD
    return head + ("\n" + "".join(VM.replace("NAME", name) for name in names) if names else " []\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("identity", ["", plan_id(9)], ids=["without an id", "with another id"])
@pytest.mark.parametrize(
    "words",
    [("apply", "--yes"), ("destroy", "--yes"), ("apply", "--yes", "--delete=hers", "--allow-power-cycle")],
    ids=" ".join,
)
def test_a_file_of_one_name_touches_nothing_of_the_other(
    words: tuple[str, ...], identity: str, vgpu_cfg: CommandLine
) -> None:
    hers, his = vgpu_cfg.folder / "hers", vgpu_cfg.folder / "his"
    for folder in (hers, his):
        folder.mkdir()
    vgpu_cfg.write("hers/train.yaml", of("hers"))
    vgpu_cfg.done("apply", "--yes", "hers/train.yaml")
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg.write("his/train.yaml", of("his", identity=identity))
    ran = vgpu_cfg(words[0], "his/train.yaml", *words[1:])
    assert ran.code != 1, ran.told
    after = vgpu_cfg.look(ESTATE)
    assert before.vms <= after.vms, ran.told
    assert vgpu_cfg("plan", "--exit-code", "hers/train.yaml").code == 0
