"""`export` at the command line: from a server or a recording to a plan file that changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_examples import EXAMPLES, estate_and_vms
from vgpu_cfg.lab import estate_names
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

TEMPLATE = "ubuntu-22.04-efi"
DIVERSE = ("head-and-workers.yaml", "mig-mix.yaml", "passthrough.yaml")
"""Examples of what an export must tell apart: NICs of all kinds and a head, slices, whole GPUs."""
LATER = pytest.mark.exhaustive("what examples made exported: tests/cli/test_export.py")
EACH = pytest.mark.exhaustive("what every example made exported: tests/cli/test_export.py")
AWRY = "The next plan still reports"


def vm_of(state: LabState, name: str) -> VirtualMachine:
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def test_what_apply_made_is_exported_and_made_again_from_that(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/full-vgpu.yaml")
    before = vm_of(vgpu_cfg.lab("two-a100").state, "big-01")
    done = vgpu_cfg.done("export", "--server", "lab:two-a100", "--template", TEMPLATE, "-o", "there.yaml")
    assert "there.yaml: 1 VM and 1 host. Next: vgpu-cfg plan there.yaml" in done.err

    assert vgpu_cfg("plan", "there.yaml", "--exit-code").code == 0
    vgpu_cfg.done("destroy", "--yes", "there.yaml")
    vgpu_cfg.done("apply", "--yes", "there.yaml")
    after = vm_of(vgpu_cfg.lab("two-a100").state, "big-01")
    same = ("cpus", "memory_mib", "memory_reservation_locked", "firmware", "is_on", "parent")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    kept = {key: value for key, value in before.extra_config.items() if not key.startswith("vgpu_cfg.")}
    assert kept.items() <= after.extra_config.items()


def test_a_recording_says_what_its_vcenter_says(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "fleet.json", "--server", "lab:mixed-fleet")
    direct = vgpu_cfg.done("export", "--server", "lab:mixed-fleet", "--cluster", "vdi").out
    recorded = vgpu_cfg.done("export", "--from", "fleet.json", "--cluster", "vdi").out
    assert recorded == direct
    assert "vdi-{001..004}" in direct
    assert AWRY not in direct


def test_a_file_that_is_there_stays(vgpu_cfg: CommandLine) -> None:
    Path("kept.yaml").write_text("mine\n", encoding="utf-8")
    words = ("export", "--server", "lab:one-a100", "-o", "kept.yaml")
    refused = vgpu_cfg(*words)
    assert refused.code == 2
    assert "kept.yaml already exists; add --force to overwrite it" in refused.told
    assert Path("kept.yaml").read_text(encoding="utf-8") == "mine\n"
    vgpu_cfg.done(*words, "--force")
    assert Path("kept.yaml").read_text(encoding="utf-8").startswith("version: 1\n")


def test_an_export_follows_no_link_and_leaves_no_half_of_a_file(vgpu_cfg: CommandLine) -> None:
    words = ("export", "--server", "lab:one-a100", "-o")
    Path("leading.yaml").symlink_to("elsewhere.yaml")
    assert "cannot write" in vgpu_cfg(*words, "leading.yaml").told
    assert not Path("elsewhere.yaml").exists()
    Path("elsewhere.yaml").write_text("mine\n", encoding="utf-8")
    vgpu_cfg.done(*words, "leading.yaml", "--force")
    assert Path("elsewhere.yaml").read_text(encoding="utf-8") == "mine\n"
    before = sorted(Path().iterdir())
    (Path("full") / "plan.yaml").mkdir(parents=True)
    assert "cannot write" in vgpu_cfg(*words, "full/plan.yaml", "--force").told
    assert "cannot write" in vgpu_cfg(*words, "nowhere/plan.yaml").told
    assert sorted(Path().iterdir()) == sorted([*before, Path("full")])
    assert [path.name for path in Path("full").iterdir()] == ["plan.yaml"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--vm", "resaerch-*"), 5, "no VMs match resaerch-*"),
        (("--cluster", "a1000"), 5, "did you mean 'a100'?"),
        (("--template", "ubuntu"), 5, "template 'ubuntu' not found"),
        (("--name", "Not a name"), 2, "--name"),
    ],
)
def test_what_means_nothing_is_refused(
    words: tuple[str, str], code: int, told: str, vgpu_cfg: CommandLine
) -> None:
    refused = vgpu_cfg("export", "--server", "lab:mixed-fleet", *words)
    assert refused.code == code
    assert told in refused.told
    assert refused.out == ""


@pytest.mark.exhaustive("every estate exported: tests/cli/test_export.py")
@pytest.mark.parametrize("estate", estate_names())
def test_an_estate_is_exported_taken_in_and_in_sync(estate: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("export", "--server", f"lab:{estate}", "--vm", "*", "-o", "there.yaml")
    if not any(not vm.is_template for vm in vgpu_cfg.lab(estate).state.all(VirtualMachine)):
        assert (ran.code, "no VMs match *" in ran.told) == (5, True)
        return
    vgpu_cfg.done("import", "there.yaml", "--yes")
    vgpu_cfg.done("plan", "there.yaml", "--exit-code")


@pytest.mark.parametrize(
    "example", [pytest.param(one, marks=LATER if one in DIVERSE else EACH) for one in EXAMPLES]
)
def test_what_an_example_made_is_exported_and_in_sync(example: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", f"examples/{example}")
    estate, _ = estate_and_vms(example)
    vgpu_cfg.done("export", "--server", f"lab:{estate}", "--folder", "training", "-o", "there.yaml")
    vgpu_cfg.done("plan", "there.yaml", "--exit-code")
