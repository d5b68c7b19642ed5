"""The scene of a cluster with an image: a draft is left, one fails validation, and hosts are remediated."""

from __future__ import annotations

from tests.lies.stage import PLAN, Stage
from vgpu_cfg.lab.state.cluster import Image
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine

ESTATE = """about: Two hosts that an image manages, driver 570 in it, 580 in the depot.
clusters:
- name: gpu
  drs: fullyAutomated
  image:
    components:
      NVD-AIE-800: 570.158.02-1OEM.800.1.0.20613240
      nvd-gpu-mgmt-daemon: 570.158.02-1OEM.700.1.0.15843807
    depot:
      ESXi: [8.0.3-0.0.24022510, 8.0.3-0.35.24280767]
      NVD-AIE-800: [570.158.02-1OEM.800.1.0.20613240, 580.95.02-1OEM.800.1.0.20613240]
      nvd-gpu-mgmt-daemon: [570.158.02-1OEM.700.1.0.15843807, 580.95.02-1OEM.700.1.0.15843807]
  hosts:
  - names: [esx-1.lab, esx-2.lab]
    driver: {kind: nvd-aie, version: 570.158.02}
    gpus: [{board: A100, pci_id: "0000:21:00.0"}]
vms: [{name: web-01, host: esx-1.lab, cpus: 2, memory: 4GiB}]
"""
PLAN_FILE = """hosts:
- cluster: gpu
  driver: {kind: nvd-aie, version: "580.*", by: image}
  esxi: {build: 24280767}
  disruption: {allow: [maintenance, reboot]}
"""
CONFLICT = "The lab's validation fails."
BEFORE, AFTER = ("570.158.02", "24022510"), ("580.95.02", "24280767")


def play_images(stage: Stage) -> str:
    """Play it, and return the word for it."""
    there = stage.elsewhere("images", ESTATE, PLAN_FILE)
    _edit(there, is_wrong=True)
    there.type("invalid", "apply", "--yes", PLAN)
    assert there.ran["invalid"].code
    assert _hosts(there) == {BEFORE}
    _edit(there, is_wrong=False)
    there.type("apply", "apply", "--yes", PLAN)
    there.type("again", "apply", "--yes", PLAN)
    return _word(there)


def _word(there: Stage) -> str:
    state, again = there.look(), there.ran["again"]
    assert all(vm.is_on for vm in state.all(VirtualMachine))
    for host in state.all(Host):
        assert not host.in_maintenance or (again.code and host.name.partition(".")[0] in again.told)
    if again.code:
        return f"stops {again.code}"
    assert _hosts(there) == {AFTER}
    assert "in sync" in again.told
    if there.ran["apply"].code:
        return "later"
    is_right = CONFLICT in there.ran["invalid"].told and not _image(there).drafts
    return "right" if is_right else "less"


def _edit(there: Stage, *, is_wrong: bool) -> None:
    """Let the image have a draft of an interrupted run, and a conflict, or no conflict any longer."""
    lab = there.vgpu_cfg.lab(there.estate)
    [cluster] = lab.state.all(Cluster)
    image = cluster.image
    assert image is not None
    with lab.transaction():
        image.conflicts = dict.fromkeys(image.components, CONFLICT) if is_wrong else {}
        if is_wrong:
            image.drafts["7"] = {
                "owner": "VSPHERE.LOCAL\\administrator",
                "created": "2026-11-29T08:00:00.000Z",
                "base_image": image.base_image,
                "components": dict(image.components),
            }
        lab.state.touch(cluster)


def _image(there: Stage) -> Image:
    [cluster] = there.look().all(Cluster)
    assert cluster.image is not None
    return cluster.image


def _hosts(there: Stage) -> set[tuple[str, str]]:
    return {(host.driver.version if host.driver else "", host.build) for host in there.look().all(Host)}
