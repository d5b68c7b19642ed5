"""The build of the how-to on templates, judged by the configuration of Packer's own vSphere plugin.

Packer's core is on no module proxy that is asked here, so that blocks beside the source are only read as HCL.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "examples" / "template" / "ubuntu.pkr.hcl"
BUILT = ROOT / ".cache" / "contract" / "packer-judge"

pytestmark = pytest.mark.exhaustive("Packer's vSphere plugin, built of Go: tests/contract/packer")


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the judge and a key that it can read; skipped aloud where one of them is not there."""
    keygen = shutil.which("ssh-keygen")
    if keygen is None or not BUILT.exists():
        pytest.skip(
            "Packer's plugin judges nothing: script/build-contract says why, or there is no ssh-keygen"
        )
    folder = tmp_path_factory.mktemp("packer")
    key = folder / "key"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=120)
    return str(BUILT), str(key)


def judged(judge: tuple[str, str], path: Path, **values: str) -> subprocess.CompletedProcess[str]:
    binary, key = judge
    given = {
        "vcenter_server": "vc.example.com",
        "vcenter_username": "packer",
        "vcenter_password": "secret",
        "base": "ubuntu-24.04-base",
        "ssh_private_key_file": key,
    } | values
    return subprocess.run(
        [binary, path, *(f"{name}={value}" for name, value in given.items())],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_plugin_takes_the_build_as_written(judge: tuple[str, str]) -> None:
    ran = judged(judge, BUILD)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "source: template firmware: efi to template: true\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('firmware = "efi"', 'firmwares = "efi"', "Unsupported argument"),
        ('firmware = "efi"', 'firmware = "uefi"', "firmware"),
        ("template = var.base", "# none", "'template' is required"),
        ('source "vsphere-clone"', 'source "vsphere-iso"', "a source of another builder"),
    ],
)
def test_the_judge_refuses_what_the_plugin_does_not_know(
    judge: tuple[str, str], tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = BUILD.read_text(encoding="utf-8")
    assert old in text
    broken = tmp_path / "broken.pkr.hcl"
    broken.write_text(text.replace(old, new), encoding="utf-8")
    ran = judged(judge, broken)
    assert ran.returncode == 1
    assert said in ran.stderr


def test_what_the_build_runs_in_the_guest_is_shell(tmp_path: Path) -> None:
    inline = re.search(r"inline = \[\n(.*?)\n    \]", BUILD.read_text(encoding="utf-8"), re.DOTALL)
    assert inline is not None
    lines = [
        line.strip().removesuffix(",").strip('"').replace("\\\\", "\\")
        for line in inline[1].splitlines()
        if not line.strip().startswith("#")
    ]
    script = tmp_path / "inline.sh"
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    assert subprocess.run(["/bin/sh", "-n", script], check=False, timeout=120).returncode == 0
    shellcheck = shutil.which("shellcheck")
    if shellcheck is not None:
        assert subprocess.run([shellcheck, script], check=False, timeout=120).returncode == 0
