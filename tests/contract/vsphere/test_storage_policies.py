"""Storage policies: this tool's client before vcsim and the lab, and the lab before govc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.test_govc import MakeGovc, served
from tests.contract.vcenters import VCenter, lab_vcenter, location_on
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.vm_spec import NewDisk, PolicyRef, SetDiskPolicy, VmSpec
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.ports import ReadScope

ESTATE = """
about: two datastores, and policies that one of them fits
vcenter:
  storage_policies:
  - {name: gold, description: fast, datastores: [nvme]}
  - {name: any, datastores: [nvme, vsan]}
datastores: [{name: vsan}, {name: nvme, kind: VMFS}]
clusters:
- {name: gpu, hosts: [{name: esx-1}]}
templates:
- {name: ubuntu-22.04-efi}
"""


@pytest.fixture
def lab(tmp_path: Path) -> VCenter:
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE, encoding="utf-8")
    return lab_vcenter(str(path))


def test_it_reads_those_of_vcsim_and_which_datastores_fit(own_vcsim: VCenter) -> None:
    with own_vcsim.desk() as desk:
        scope = ReadScope(storage_policies=frozenset({"vsan default storage policy"}))
        observed = desk.inventory(scope)
        assert observed.vcenter.storage_policies is not None
        found = {one.name: one for one in observed.vcenter.storage_policies}
        default = found["vSAN Default Storage Policy"]
        assert default.id == "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"
        assert default.datastore_moids == {store.moid for store in observed.datastores}
        assert found["VM Encryption Policy"].datastore_moids == frozenset()
        assert desk.inventory().vcenter.storage_policies is None


def test_what_a_clone_is_given_is_read_back_and_changed(lab: VCenter) -> None:
    with lab.desk() as desk:
        scope = ReadScope(
            storage_policies=frozenset({"gold"}), template_names=frozenset({"ubuntu-22.04-efi"})
        )
        observed = desk.inventory(scope)
        gold, other = (PolicyRef(id=one.id, name=one.name) for one in observed.vcenter.storage_policies or ())
        stores = {store.name: store.moid for store in observed.datastores}
        fitting = {one.name: one.datastore_moids for one in observed.vcenter.storage_policies or ()}
        assert fitting == {"gold": {stores["nvme"]}, "any": frozenset()}
        template = next(vm for vm in observed.vms if vm.is_template)
        assert template.detail is not None
        (disk,) = template.detail.disks
        spec = VmSpec(
            home_policy=gold,
            devices=(SetDiskPolicy(key=disk.key, policy=other), NewDisk(size_mib=1024, policy=gold)),
        )
        host = observed.hosts[0]
        moid = desk.made(
            desk.writer.create_vm(
                CreateVm(
                    id="create a",
                    subject=Subject(kind="vm", name="a"),
                    host_moid=host.moid,
                    vm=VmRef(name="a"),
                    source=CloneFrom(template=VmRef(name=template.name, moid=template.moid)),
                    location=location_on(observed, host).model_copy(
                        update={"datastore_moid": stores["nvme"], "datastore_name": "nvme"}
                    ),
                    spec=spec,
                )
            )
        )
        detail = desk.vm(moid).detail
        assert detail is not None
        assert detail.home_policy == gold.id
        assert [one.policy for one in detail.disks] == [other.id, gold.id]
        changed = VmSpec(home_policy=other, devices=(SetDiskPolicy(key=disk.key, policy=gold),))
        desk.done(desk.writer.reconfigure_vm(moid, changed))
        detail = desk.vm(moid).detail
        assert detail is not None
        assert (detail.home_policy, detail.disks[0].policy) == (other.id, gold.id)


def test_govc_finds_the_labs(govc: MakeGovc, tmp_path: Path) -> None:
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE, encoding="utf-8")
    with served(str(path)) as server:
        run = govc(server)
        if "storage.policy.ls" not in run("-h"):
            pytest.skip("govc was built without its policy commands: run script/build-contract")
        assert [line.split()[1] for line in run("storage.policy.ls").splitlines()] == ["gold", "any"]
        (gold,) = json.loads(run("storage.policy.info", "-s", "-json", "gold"))["policies"]
        assert gold["profile"]["description"] == "fast"
        assert gold["compatibleDatastores"] == ["nvme"]
