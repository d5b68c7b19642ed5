"""A cluster that an image manages: one edit of the image, hosts that are remediated, and no draft lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.host_watch import is_tidy, watch_labs
from vgpu_cfg.lab.state.cluster import Image
from vgpu_cfg.lab.state.inventory import Cluster, Host, LabState

ESTATE = ROOT / "tests/cli/estates/image-2.yaml"
PLAN = """
version: 1
name: driver
vcenter: lab:ESTATE
hosts:
- cluster: gpu
  driver: {kind: nvd-aie, version: "580.*", by: image}
  disruption: {allow: [maintenance, reboot]}
"""
OLD, NEW = "570.158.02", "580.95.02"


class Images:
    """A plan for an estate, and what becomes of the hosts and the image."""

    def __init__(self, vgpu_cfg: CommandLine, more: str = "") -> None:
        self.estate = str(vgpu_cfg.write("estate.yaml", ESTATE.read_text(encoding="utf-8") + more))
        vgpu_cfg.write("plan.yaml", PLAN.replace("ESTATE", self.estate))
        self.run = vgpu_cfg

    @property
    def versions(self) -> list[str]:
        hosts = self.run.lab(self.estate).state.all(Host)
        return sorted(host.driver.version for host in hosts if host.driver is not None)

    @property
    def image(self) -> Image:
        found = next(iter(self.run.lab(self.estate).state.all(Cluster))).image
        assert found is not None
        return found

    def change(self, edit: Callable[[Image], Any]) -> None:
        lab = self.run.lab(self.estate)
        cluster = next(iter(lab.state.all(Cluster)))
        assert cluster.image is not None
        edit(cluster.image)
        lab.state.touch(cluster)
        lab.save()


@pytest.fixture
def images(vgpu_cfg: CommandLine) -> Images:
    return Images(vgpu_cfg)


def draft(*, owner: str, **components: str) -> dict[str, Any]:
    return {
        "owner": owner,
        "created": "2026-11-29T08:00:00.000Z",
        "base_image": "8.0.3-0.0.24022510",
        "components": components,
    }


def test_the_image_is_edited_once_and_each_host_remediated(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_labs(monkeypatch)
    images.run.done("apply", "--yes", "plan.yaml")
    assert images.versions == [NEW, NEW]
    assert watch.most_down == 1
    assert watch.restarts == {"esx-01.lab": 1, "esx-02.lab": 1}
    assert "RebootHost_Task" not in watch.calls
    assert [one["description"] for one in images.image.commits.values()] == ["vgpu-cfg: plan driver"]
    assert not images.image.drafts
    assert is_tidy(images.run.lab(images.estate).state)
    assert "in sync" in images.run.done("plan", "plan.yaml").out


def test_a_draft_that_does_not_validate_takes_no_host_down(images: Images) -> None:
    text = "NVD-AIE-800 requires ESXi 9.0."
    images.change(lambda image: image.conflicts.update({"NVD-AIE-800": text}))
    ran = images.run("apply", "--yes", "plan.yaml")
    assert ran.code == 6
    assert text in ran.told
    assert images.versions == [OLD, OLD]
    assert not images.image.drafts
    assert not images.image.commits
    images.change(lambda image: image.conflicts.clear())
    images.run.done("apply", "--yes", "plan.yaml")
    assert images.versions == [NEW, NEW]


def test_a_draft_of_an_interrupted_run_is_replaced(images: Images) -> None:
    left = draft(owner="VSPHERE.LOCAL\\administrator", **images.image.components)
    images.change(lambda image: image.drafts.update({"7": left}))
    images.run.done("apply", "--yes", "plan.yaml")
    assert images.versions == [NEW, NEW]
    assert not images.image.drafts


@pytest.mark.parametrize("owner", ["VSPHERE.LOCAL\\administrator", "CORP\\mona"])
def test_a_draft_with_other_changes_is_kept(owner: str, images: Images) -> None:
    other = draft(owner=owner, **images.image.components, tool="1.0")
    images.change(lambda image: image.drafts.update({"7": other}))
    ran = images.run("apply", "--yes", "plan.yaml")
    assert images.image.drafts == {"7": other}
    if owner.startswith("CORP"):
        assert images.versions == [NEW, NEW]
    else:
        assert ran.code == 6
        assert "has a draft of gpu's image with other changes" in ran.told
        assert images.versions == [OLD, OLD]


def test_a_component_that_the_plan_did_not_show_reaches_no_host(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another admin adds it to the image while the first host goes down."""
    watch = watch_labs(monkeypatch)

    def add(name: str) -> None:
        if name == "EnterMaintenanceMode_Task" and "tool" not in images.image.components:
            images.change(lambda image: image.components.update({"tool": "1.0"}))

    watch.before_call = add
    ran = images.run("apply", "--yes", "plan.yaml")
    assert ran.code == 6
    assert "also changes tool on esx-01.lab, but the plan did not show this" in ran.told
    assert not watch.restarts
    assert "tool: absent -> 1.0" in images.run("plan", "plan.yaml").told
    images.run.done("apply", "--yes", "plan.yaml")
    assert images.versions == [NEW, NEW]


SDDC = "vcenter: {extensions: [com.vmware.sddcManager]}\n"
UPGRADE = ("upgrade", "--driver", "580.95", "--output", "json")


def test_images_of_sddc_manager_are_named_and_never_touched(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = Images(vgpu_cfg, SDDC)
    before = vgpu_cfg.lab(images.estate).state
    watch = watch_labs(monkeypatch)
    ran = vgpu_cfg("apply", "--yes", "plan.yaml")
    assert (ran.code, "VG572" in ran.told) == (4, True)
    found = json.loads(vgpu_cfg.done(*UPGRADE, "--server", f"lab:{images.estate}").out)
    assert found["waves"] == []
    for host in found["hosts"]:
        assert host["blocked"] == "SDDC Manager (VMware Cloud Foundation) manages the image of its cluster"
    assert not any(name.startswith(("POST /api/esx", "PATCH", "DELETE /api")) for name in watch.calls)
    state = vgpu_cfg.lab(images.estate).state
    assert (state.diary, state.tasks) == (before.diary, before.tasks)
    assert state.get(_cluster(state).moid, Cluster).image == _cluster(before).image


def test_an_upgrade_says_what_the_last_check_of_an_image_says(images: Images) -> None:
    """The estate's depot has the driver already; another component of the image is on no host."""
    server = ("--server", f"lab:{images.estate}")
    assert not any("Lifecycle Manager" in one["text"] for one in _firsts(images, *UPGRADE, *server))
    assert any(
        one["text"].startswith("Import NVIDIA host driver 595.71 in Lifecycle Manager")
        for one in _firsts(images, "upgrade", "--driver", "595.71", "--output", "json", *server)
    )
    images.change(lambda image: image.components.update({"tool": "1.0"}))
    said = "Remediation also changes tool on esx-{01..02}.lab: not compliant at the last check"
    assert said in [one["text"] for one in _firsts(images, *UPGRADE, *server)]
    told = images.run("plan", "plan.yaml").told
    assert "tool: absent -> 1.0" in told
    assert "last check non-compliant, reboot required; vCenter expects: The host will be put into" in told
    images.run.script(images.estate, lacking=["VcIntegrity.lifecycleSoftwareRemediation.Read"])
    told = images.run("plan", "plan.yaml").told
    assert ("last check non-compliant, reboot required" in told, "vCenter expects" in told) == (True, False)


def test_apply_shows_the_impact_that_vcenter_expects_of_the_edited_image(images: Images) -> None:
    """Before the edit, the hosts are compliant, and vCenter expects nothing."""
    assert "vCenter expects" not in images.run("plan", "plan.yaml").told
    told = images.run.done("apply", "--yes", "plan.yaml").told
    assert "reboot required; vCenter expects: The host will be put into maintenance mode." in told


ESXI = PLAN.replace('driver: {kind: nvd-aie, version: "580.*", by: image}', "esxi: {build: BUILD}")


def test_the_image_brings_esxi_and_a_later_build_stays(images: Images) -> None:
    images.run.write("esxi.yaml", ESXI.replace("ESTATE", images.estate).replace("BUILD", "24280767"))
    images.run.done("apply", "--yes", "esxi.yaml")
    hosts = images.run.lab(images.estate).state.all(Host)
    assert {(host.version, host.build) for host in hosts} == {("8.0.3", "24280767")}
    assert images.image.base_image == "8.0.3-0.35.24280767"
    assert images.versions == [OLD, OLD]
    images.run.write("older.yaml", ESXI.replace("ESTATE", images.estate).replace("BUILD", "24022510"))
    assert images.run("plan", "--exit-code", "older.yaml").code == 0
    assert is_tidy(images.run.lab(images.estate).state)


def test_a_build_that_the_depot_lacks_is_refused(images: Images) -> None:
    images.run.write("esxi.yaml", ESXI.replace("ESTATE", images.estate).replace("BUILD", "99999999"))
    ran = images.run("plan", "esxi.yaml")
    assert (ran.code, "VG573" in ran.told, "ESXi build 99999999" in ran.told) == (4, True, True)
    assert "the depot contains 24022510, 24280767" in ran.told


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_an_esxi_upgrade_is_written_and_rehearsed(images: Images) -> None:
    words = ("upgrade", "--esxi", "24280767", "--server", f"lab:{images.estate}", "--output", "json")
    found = json.loads(images.run.done(*words, "--write", "waves", "--rehearse").out)
    assert [(one["exit_code"], one["done"]) for one in found["rehearsal"]] == [(0, 1), (0, 1)]
    assert "2 hosts with ESXi build 24022510 -> 24280767" in images.run.done(*words[:-2]).told
    images.run.done("apply", "--yes", "waves/wave-01.yaml")
    assert sorted(host.build for host in images.run.lab(images.estate).state.all(Host)) == [
        "24022510",
        "24280767",
    ]


def _firsts(images: Images, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(images.run.done(*words).out)["first"]
    return found


def _cluster(state: LabState) -> Cluster:
    return next(iter(state.all(Cluster)))
