"""Items of content libraries, by name: on the lab, and as vcsim has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.vcenters import VCenter, fresh, lab_vcenter
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.libraries import TEMPLATES, read_library_items
from vgpu_cfg.vsphere.wire.session import Session


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
    if vcenter.kind == "lab":
        pytest.skip("nothing is put into a library of the lab; the tests above look at what its estates have")
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
