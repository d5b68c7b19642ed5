"""Items of content libraries, by name: on the lab, and as vcsim has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.contract.conftest import running_vcsim, vcenter_at
from tests.contract.test_govc import MakeGovc
from tests.contract.vcenters import VCenter, fresh, lab_vcenter
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.own_items import TEMPLATES, read_library_items
from vgpu_cfg.vsphere.wire.session import Session

OVF = """<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
<References/>
<VirtualSystem ovf:id="u24"><Info>a VM</Info><Name>u24</Name>
<OperatingSystemSection ovf:id="94"><Info>Ubuntu</Info></OperatingSystemSection>
<VirtualHardwareSection><Info>hardware</Info>
<System><vssd:ElementName>hardware</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID>
<vssd:VirtualSystemType>vmx-21</vssd:VirtualSystemType></System>
<Item><rasd:ElementName>CPUs</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID>
<rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
<Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>memory</rasd:ElementName>
<rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
<rasd:VirtualQuantity>2048</rasd:VirtualQuantity></Item>
</VirtualHardwareSection></VirtualSystem></Envelope>
"""


def found(session: Session, library: str, name: str) -> tuple[str, bool, tuple[str, ...]]:
    (item,) = read_library_items(session, [(library, name)])
    return item.kind, item.has_library, item.others


def test_an_item_that_is_a_template_is_read_as_a_template_of_the_inventory() -> None:
    with lab_vcenter("mixed-fleet").desk() as desk:
        wanted = ("gold", "ubuntu-22.04-nvidia")
        inventory = desk.inventory(ReadScope(library_items=frozenset({wanted})))
        (item,) = inventory.library_items or ()
        template = inventory.vm_by_moid[item.template_moid or ""]
        assert (item.kind, template.name, template.is_template) == ("vm-template", "ubuntu-22.04-efi", True)
        assert template.detail is not None
        assert template.detail.disks
        assert desk.session.rest.round_trips == 5


def test_what_is_not_there_is_told_with_what_is() -> None:
    with lab_vcenter("mixed-fleet").session() as session:
        assert found(session, "gold", "appliance") == ("ovf", True, ())
        assert found(session, "gold", "ubuntu") == ("", True, ("appliance", "ubuntu-22.04-nvidia"))
        assert found(session, "silver", "ubuntu") == ("", False, ("gold",))
    with lab_vcenter("one-a100").session() as session:
        assert found(session, "gold", "ubuntu") == ("", False, ())


def test_items_are_found_as_vcsim_has_them(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        library, item = fresh("library"), fresh("item")
        storage = [{"datastore_id": inventory.datastores[0].moid, "type": "DATASTORE"}]
        spec: dict[str, Any] = {"name": library, "type": "LOCAL", "storage_backings": storage}
        rest = desk.session.rest
        made = rest.act("/com/vmware/content/local-library", "", {"create_spec": spec}, "making a library")
        assert found(desk.session, library, item) == ("", True, ())
        template = next(vm for vm in inventory.vms if vm.name == vcenter.template)
        placement = {"folder": template.folder_moid, "host": template.host_moid}
        body = {"name": item, "library": made, "source_vm": template.moid, "placement": placement}
        rest.act(TEMPLATES, "", {"spec": body}, "putting a template into it")
        assert found(desk.session, library, item) == ("vm-template", True, ())
        assert library in found(desk.session, "no such", item)[2]


def test_the_way_out_of_an_ovf_ends_with_a_template_that_is_read_whole(
    govc: MakeGovc, tmp_path: Path
) -> None:
    """The commands are those of the page of VG246."""
    with running_vcsim() as server:
        run = govc(server)
        run("library.create", "-ds", "LocalDS_0", "gold")
        (tmp_path / "u24.ovf").write_text(OVF, encoding="utf-8")
        run("library.import", "-n", "ubuntu-24.04", "gold", str(tmp_path / "u24.ovf"))
        run("folder.create", "/DC0/vm/templates")
        place = ("-folder", "/DC0/vm/templates", "-pool", "/DC0/host/DC0_C0/Resources", "-ds", "LocalDS_0")
        run("library.deploy", *place, "/gold/ubuntu-24.04", "ubuntu-24.04")
        run("vm.markastemplate", "ubuntu-24.04")
        with vcenter_at(server).desk() as desk:
            assert found(desk.session, "gold", "ubuntu-24.04") == ("ovf", True, ())
            scope = ReadScope(template_names=frozenset({"ubuntu-24.04"}))
            (template,) = [vm for vm in desk.inventory(scope).vms if vm.name == "ubuntu-24.04"]
            assert template.is_template
            assert template.detail is not None
            assert (template.detail.cpus, template.detail.memory_mib) == (2, 2048)
