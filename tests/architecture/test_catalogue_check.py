"""`script/catalogue-check` on small files in the formats of the sources, and on a git repository."""

from __future__ import annotations

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.sources import ROOT

NAMES = """
static const CHIPS_RELEASED sChipsReleased[] = {
    { 0x20F1, 0x145f, 0x10de, "NVIDIA A100-PCIE-40GB" },
    { 0x2F99, 0x0001, 0x10de, "NVIDIA B400" },
    { 0x2204, 0x147d, 0x10de, "NVIDIA GeForce RTX 3090" },
    { 0x20F1, 0x1493, 0x10DE, "GRID A100-1-5C" },
    { 0x20F1, 0x149c, 0x10DE, "GRID A100-20C" },
    { 0x20F1, 0x149b, 0x10DE, "GRID A100-13C" },
    { 0x2F98, 0x149e, 0x10DE, "NVIDIA A10-6C" },
    { 0x2F99, 0x149d, 0x10DE, "NVIDIA B400-1-5C" },
"""
VGPU = """
version: v1
vgpu-configs:
  default:
    - {device-filter: "0x20F110DE", devices: all, vgpu-devices: {A100-20C: 1}}
    - {device-filter: "0x223610DE", devices: all, vgpu-devices: {A100-20C: 1}}
  A100-20C:
    - {devices: all, vgpu-devices: {A100-20C: 2}}
  A100-1-5C:
    - {devices: all, vgpu-devices: {A100-1-5C: 6}}
"""
MIG = """
apiVersion: v1
kind: ConfigMap
data:
  config.yaml: |
    version: v1
    mig-configs:
      all-enabled:
        - {devices: all, mig-enabled: true, mig-devices: {}}
      all-3g.20gb:
        - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2}}
      all-2g.10gb:
        - {devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 4}}
      all-balanced:
        - {device-filter: ["0x20F110DE"], devices: all, mig-devices: {"1g.5gb": 2, "5g.25gb": 1}}
"""
PCI = """1002  AMD
\t20f6  Another board
10de  NVIDIA Corporation
\t20f1  GA100 [A100 PCIe 40GB]
\t\t10de 145f  A subsystem
\t2236  GA102GL [A10]
15b3  Mellanox Technologies
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = str(ROOT / "script" / "catalogue-check")
    spec = spec_from_loader("catalogue_check", SourceFileLoader("catalogue_check", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Return a folder with two boards, one with MIG."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name in ("grid_a100", "nvidia_a10"):
        text = (ROOT / "profiles" / f"{name}.yaml").read_text(encoding="utf-8")
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def put(folder: Path, text: str) -> str:
    path = folder / "source"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("option", "text", "found"),
    [
        ("--driver", NAMES, ["board B400", "id nvidia_a10 2f98", "type grid_a100-13c", "types nvidia_b400"]),
        ("--vgpu", VGPU, ["id 2236", "max A100-1-5C"]),
        ("--mig", MIG, ["instance 20f1 5g.25gb", "instance 2g.10gb"]),
        ("--pci-ids", PCI, ["pci.ids 20f6"]),
    ],
)
def test_differences_are_printed(
    script: ModuleType,
    profiles: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    text: str,
    found: list[str],
) -> None:
    code = script.main([option, put(tmp_path, text), "--profiles", str(profiles)])
    told = capsys.readouterr().out
    shown = {
        line.removeprefix("  DIFFERS  ").partition(":")[0] for line in told.splitlines() if "DIFFERS" in line
    }
    assert code == 1
    assert set(found) <= shown
    assert not {"max A100-20C", "id 20f1", "instance 3g.20gb", "type grid_a100-20c", "pci.ids 2236"} & shown


def test_a_difference_with_a_reason_is_known(
    script: ModuleType, profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (profiles / "sources").mkdir()
    accepted = "differences: {'id 2236': a reason, 'max A100-1-5C': another}\n"
    (profiles / "sources" / "differences.yaml").write_text(accepted, encoding="utf-8")
    assert script.main(["--vgpu", put(tmp_path, VGPU), "--profiles", str(profiles)]) == 0
    assert "known  id 2236: 2236 is a100; in the catalog it is A10 (a reason)" in capsys.readouterr().out


def test_a_git_repository_is_read_at_its_head(
    script: ModuleType, profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / "pciids"
    repository.mkdir()
    (repository / "pci.ids").write_text(PCI, encoding="utf-8")
    name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "IDs"]):
        command = ["git", "-C", str(repository), *words]
        subprocess.run(command, check=True, timeout=120)
    (repository / "pci.ids").unlink()
    assert script.main(["--pci-ids", str(repository), "--profiles", str(profiles)]) == 1
    told = capsys.readouterr().out
    assert f"{repository} at " in told
    assert "pci.ids 20f6: A100: 20f6 has no name" in told


def test_an_accepted_difference_must_still_exist_where_all_sources_are_read(
    script: ModuleType, profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = tmp_path / "operator"
    for inner, text in ((script.OPERATOR_VGPU, VGPU), (script.OPERATOR_MIG, MIG)):
        (operator / inner).parent.mkdir(parents=True, exist_ok=True)
        (operator / inner).write_text(text, encoding="utf-8")
    (profiles / "sources").mkdir()
    accepted = "differences: {'id 2236': a reason, 'max A100-7C': no longer there}\n"
    (profiles / "sources" / "differences.yaml").write_text(accepted, encoding="utf-8")
    files = {"--driver": NAMES, "--vgpu": VGPU, "--pci-ids": PCI}
    words = ["--profiles", str(profiles), "--operator", str(operator)]
    for option, text in files.items():
        path = tmp_path / option.strip("-")
        path.write_text(text, encoding="utf-8")
        words += [option, str(path)]
    assert script.main(words) == 1
    told = capsys.readouterr().out
    assert "no longer a difference, remove it from differences.yaml: max A100-7C" in told
    assert "remove it from differences.yaml: id 2236" not in told


def test_a_source_is_required(script: ModuleType, profiles: Path) -> None:
    with pytest.raises(SystemExit):
        script.main(["--profiles", str(profiles)])
