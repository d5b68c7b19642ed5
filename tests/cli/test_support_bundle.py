"""A support bundle has what was read of one GPU, and a reason for each part that is missing."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES
from vgpu_cfg.parsers.guest_system import xids_of
from vgpu_cfg.recording.anonymous import Anonymous

ESTATE = """
about: a host with a GPU that failed
templates: [{name: ubuntu}]
clusters:
- name: gpu
  hosts:
  - {name: esx-1.lab, gpus: [{board: A100, count: 2}]}
"""
PLAN = """\
version: 1
name: training
vcenter: lab:rma.yaml
secrets: {bmc: "env:BMC_PASSWORD"}
hosts:
- names: [esx-1.lab]
  access: {ssh: on, bmc: {addresses: {esx-1.lab: bmc-esx-1.lab}, password: {secret: bmc}}}
vms: [{name: secret-project, template: ubuntu, gpus: grid_a100-40c, cpus: 4, memory: 16GiB}]
"""
SITE = """\
site: {registry_mirrors: {docker.io: "https://mirror.secret.example.com"}}
training:
  workers: [secret-project]
  image: registry.secret.example.com/team/train:1
  framework: torchrun
  monitoring: {exporter: dcgm}
"""
WITH_GUESTS = PLAN.replace("memory: 16GiB", "memory: 16GiB, guest: {containers: docker}") + SITE
XID = "2026-11-27T03:14:15.926Z In(182) vmkernel: cpu9:1048576)NVRM: Xid (PCI:{pci}): 79, pid=1, GPU has gone"
PARTS = {
    "gpu.json",
    "serial.txt",
    "nvidia-smi.txt",
    "xids.txt",
    "kernel.log",
    "bmc-log.json",
    "downloads.json",
    "history.json",
}
IMAGE = "registry.secret.example.com/team/train:1"


@pytest.fixture
def site(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a host whose VM runs and whose first GPU has logged an Xid; its SSH service runs."""
    monkeypatch.setenv("BMC_PASSWORD", "lab")
    vgpu_cfg.write("rma.yaml", ESTATE)
    vgpu_cfg.write("plan.yaml", PLAN)
    lab = vgpu_cfg.lab("./rma.yaml")
    with lab.transaction():
        (host,) = lab.state.all(Host)
        host.services["TSM-SSH"].running = True
        ours, other = (gpu.pci_id.rpartition(".")[0] for gpu in host.gpus)
        host.kernel_log = (
            XID.format(pci=ours),
            XID.format(pci=other),
            "NVRM: loading for esx-1.lab at 10.1.2.3, 00:50:56:aa:bb:cc",
            "nothing about a GPU",
        )
        lab.state.touch(host)
    vgpu_cfg.done("apply", "plan.yaml", "--yes")
    return vgpu_cfg


def gpu_of(site: CommandLine) -> str:
    (host,) = site.lab("./rma.yaml").state.all(Host)
    return str(next(gpu.pci_id for gpu in host.gpus))


def content(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {one.name: archive.extractfile(one) for one in archive}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def manifest(files: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a bundle's manifest, and why parts are missing; each part is one or the other."""
    made = json.loads(files["manifest.json"])
    there = {one["file"] for one in made["parts"] if one["file"]}
    missing = {one["name"]: one["why_missing"] for one in made["parts"] if not one["file"]}
    assert there == files.keys() - {"manifest.json"}
    assert there | missing.keys() == PARTS
    assert all(missing.values())
    return made, missing


def test_a_bundle_has_what_was_read(site: CommandLine) -> None:
    before, pci = site.look("./rma.yaml"), gpu_of(site)
    done = site.done("doctor", "--bundle", f"gpu:esx-1/{pci}", "--plan", "plan.yaml", "-o", "rma.tar.gz")
    assert site.look("./rma.yaml") == before
    path = site.folder / "rma.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = content(path)
    _, missing = manifest(files)
    assert missing == {"downloads.json": "the plan's guests download nothing"}
    assert pci.rpartition(".")[0] in files["xids.txt"]
    assert len(files["xids.txt"].splitlines()) == 1
    assert len(files["kernel.log"].splitlines()) == 3
    assert "Product Name" in files["nvidia-smi.txt"]
    assert "power on" in files["bmc-log.json"]
    (run,) = json.loads(files["history.json"])["runs"]
    assert run["plan"] == "training"
    assert "create secret-project" in run["changes"]
    assert "check its contents before you send it" in done.told
    assert "rma.tar.gz: " in done.out


def test_it_lists_what_guests_download_as_validate_does(site: CommandLine) -> None:
    site.write("plan.yaml", WITH_GUESTS)
    words = ("doctor", "--bundle", f"gpu:esx-1/{gpu_of(site)}", "--plan", "plan.yaml", "-o")
    site.done(*words, "rma.tar.gz")
    site.done(*words, "scrubbed.tar.gz", "--scrub")
    printed = site.done("validate", "plan.yaml", "--downloads", "--output", "json").out
    listed = json.loads(printed)["downloads"]
    assert IMAGE in {one["address"] for one in listed}
    assert json.loads(content(site.folder / "rma.tar.gz")["downloads.json"]) == listed
    scrubbed = content(site.folder / "scrubbed.tar.gz")["downloads.json"]
    assert "secret" not in scrubbed
    assert [one["pin"] for one in json.loads(scrubbed)] == [one["pin"] for one in listed]
    assert MONITORING_IMAGES["dcgm-exporter"] in scrubbed


def test_a_scrubbed_one_names_nothing_of_the_site(site: CommandLine) -> None:
    pci = gpu_of(site)
    site.done("doctor", "--bundle", f"gpu:esx-1/{pci}", "--plan", "plan.yaml", "--scrub", "-o", "rma.tar.gz")
    files = content(site.folder / "rma.tar.gz")
    made, _ = manifest(files)
    assert made["is_scrubbed"]
    text = "\n".join(files.values())
    for name in (
        "esx-1",
        "secret-project",
        "10.1.2.3",
        "00:50:56:aa:bb:cc",
        "jane",
        "desk-01",
        "administrator@",
    ):
        assert name not in text
    assert pci in text
    assert "Xid" in files["xids.txt"]


def test_what_cannot_be_had_is_listed_with_the_reason(
    site: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pci = gpu_of(site)
    words = ("doctor", "--bundle", f"gpu:esx-1/{pci}")
    told = site.done(*words, "--server", "lab:rma.yaml", "-o", "a.tar.gz").out
    _, missing = manifest(content(site.folder / "a.tar.gz"))
    assert missing.keys() == PARTS - {"gpu.json", "history.json"}
    assert all("add --plan" in why for why in missing.values())
    assert "missing: kernel.log: no plan file" in told

    lab = site.lab("./rma.yaml")
    with lab.transaction():
        (host,) = lab.state.all(Host)
        host.services["TSM-SSH"].running = False
        lab.state.touch(host)
    monkeypatch.setenv("BMC_PASSWORD", "wrong")
    site.done(*words, "--plan", "plan.yaml", "-o", "b.tar.gz")
    _, missing = manifest(content(site.folder / "b.tar.gz"))
    assert "SSH service is not running" in missing["nvidia-smi.txt"]
    assert "access denied for root" in missing["bmc-log.json"]


def test_a_file_that_is_there_stays(site: CommandLine) -> None:
    site.write("rma.tar.gz", "mine")
    ran = site("doctor", "--bundle", f"gpu:esx-1/{gpu_of(site)}", "--plan", "plan.yaml", "-o", "rma.tar.gz")
    assert ran.code == 3
    assert (site.folder / "rma.tar.gz").read_text(encoding="utf-8") == "mine"


def test_it_is_about_one_gpu(site: CommandLine) -> None:
    ran = site("doctor", "--bundle", "gpu:esx-1/*", "--plan", "plan.yaml")
    assert ran.code == 5
    assert "exactly one is required" in ran.told


@pytest.mark.parametrize("logged", ["0000:3b:00", "3b:00.0", "0000:3B:00.0", "0000:3b:00 GPU-CI:0"])
def test_an_xid_is_of_a_gpu_however_its_address_is_written(logged: str) -> None:
    line = f"NVRM: Xid (PCI:{logged}): 79, pid='<unknown>'\n"
    assert xids_of(line, "0000:3b:00.0") == line
    assert xids_of(line, "0000:3c:00.0") == ""


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("10.1.2.3", False),
        ("[fe80::250:56ff:fe01:2]", False),
        ("2001:db8:0:0:0:0:0:7", False),
        ("00:50:56:aa:bb:cc", False),
        ("anna@example.com", False),
        ("564d0a1b-0000-1111-2222-333344445555", False),
        ("erp", False),
        ("esx-01.lab", False),
        ("GPU-564d0a1b-0000-1111-2222-333344445555", True),
        ("0000:3b:00.0", True),
        ("00000000:3B:00.0", True),
        ("12:34:56.789", True),
        ("92.00.36.00.01", True),
        ("enterprise", True),
        ("Serial Number : 1560921012345", True),
    ],
)
def test_free_text_loses_names_and_addresses_only(text: str, is_kept: bool) -> None:
    scrubbed = Anonymous(frozenset()).in_text(f"x {text}, y", ["erp", "esx-01", "esx-01.lab"])
    assert (scrubbed == f"x {text}, y") is is_kept
    assert scrubbed.startswith("x ")
    assert scrubbed.endswith(", y")


def test_a_cordoned_gpu_is_checked_before_it_is_given_back(site: CommandLine) -> None:
    target = f"gpu:esx-1/{gpu_of(site)}"
    check = ("cordon", target, "--check", "--plan", "plan.yaml")
    assert "PCI:0000:31:00" not in site(*check).out
    assert site(*check).code == 8
    site.done("cordon", target, "--reason", "Xid 79", "--server", "lab:rma.yaml")
    assert f"NEXT vgpu-cfg uncordon {target} --server=lab:rma.yaml" in site.done(*check).told
    (site.folder / "plan.yaml").write_text(PLAN.replace("ssh: on, ", ""), encoding="utf-8")
    unread = site(*check)
    assert (unread.code, "readable only from the host's shell" in unread.told) == (9, True), unread.told
    assert "requires --plan" in site(*check[:3]).told
    assert "cannot be combined with --check" in site(*check, "--reason", "x").told
