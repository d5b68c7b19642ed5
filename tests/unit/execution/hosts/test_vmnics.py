from __future__ import annotations

import json

from tests.fakes.fake_hosts import FakeHosts
from tests.unit.execution.host_makers import LIVE, change, enter, estate, in_order, leave, run
from tests.unit.execution.makers import statuses
from vgpu_cfg.changes.kinds.change_host import PassthroughDevice, PassthroughWrite
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import HostNic, PciDevice

NIC = HostNic(device="vmnic2", pci_id="0000:3c:00.0")
OTHER = HostNic(device="vmnic3", pci_id="0000:3c:00.1")


def hand_out(value: bool = True) -> PassthroughWrite:
    devices = tuple(
        PassthroughDevice(pci_id=pci_id, is_passthrough=value) for pci_id in (NIC.pci_id, "0000:3b:00.0")
    )
    return PassthroughWrite(devices=devices)


def names(server: FakeHosts) -> dict[str, str]:
    found: dict[str, str] = json.loads(server.host("esx-01").attributes.get(HostAttribute.VMNICS, "{}"))
    return found


def test_the_name_of_a_nic_is_kept_before_it_is_handed_out_and_only_once() -> None:
    server = estate()
    server.host("esx-01").nics = (NIC, OTHER)
    run(server, change(LIVE, write=hand_out()))
    assert server.asked() == [
        ("set_host_attribute", "esx-01 vgpu_cfg.vmnics"),
        ("write_host", "esx-01 passthrough"),
    ]
    assert names(server) == {"0000:3c:00.0": "vmnic2"}
    server.host("esx-01").configure("live", "off")
    run(server, change(LIVE, write=hand_out()))
    assert len(server.asked("set_host_attribute")) == 1


def test_a_nic_that_is_taken_back_or_a_function_that_is_none_keeps_no_name() -> None:
    server = estate()
    server.host("esx-01").nics = (NIC,)
    run(server, change(LIVE, write=hand_out(False)))
    assert names(server) == {}
    server = estate()
    run(server, change(LIVE, write=hand_out()))
    assert names(server) == {}


def test_a_name_goes_when_the_host_that_lists_the_nic_again_is_given_back() -> None:
    kept = {"0000:3c:00.0": "vmnic2", "0000:3c:00.1": "vmnic3", "0000:b0:00.0": "vmnic4"}
    enabled = PciDevice(pci_id=OTHER.pci_id, vendor_id=0x15B3, device_id=0x101D, passthrough_enabled=True)
    server = estate()
    host = server.host("esx-01")
    host.attributes[HostAttribute.VMNICS] = json.dumps(kept)
    host.nics = (NIC, OTHER.model_copy(update={"pci": enabled}))
    report, _ = run(server, *in_order(enter(), leave()))
    assert set(statuses(report).values()) == {"done"}
    assert names(server) == {"0000:3c:00.1": "vmnic3", "0000:b0:00.0": "vmnic4"}
    host.nics = (NIC, OTHER, HostNic(device="vmnic4", pci_id="0000:b0:00.0"))
    run(server, *in_order(enter(), leave()))
    assert HostAttribute.VMNICS not in host.attributes


def test_a_name_that_cannot_be_kept_keeps_the_nic_from_being_handed_out() -> None:
    server = estate(refused={("set_host_attribute", 1): VCenterError("not now")})
    server.host("esx-01").nics = (NIC,)
    report, _ = run(server, change(LIVE, write=hand_out()))
    assert statuses(report) == {"set live on esx-01": "failed"}
    assert server.written == []
