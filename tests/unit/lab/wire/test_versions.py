from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.wire.client import connect, everything, open_virtual, read
from vgpu_cfg.lab.api.versions import (
    is_at_least,
    requested_version_id,
    service_versions_xml,
    version_ids,
    version_name,
)
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.lab.vcenter import Lab


def test_the_document_lists_the_newest_first_and_ends_at_6_5() -> None:
    root = ET.fromstring(service_versions_xml("7.0.2.0"))  # noqa: S314 - our own text
    assert root.findtext("namespace/version") == "7.0.2.0"
    prior = [found.text for found in root.findall("namespace/priorVersions/version")]
    assert (prior[-1], "8.0.0.0" in prior, "7.0.1.0" in prior) == ("6.5", False, True)
    assert version_ids("8.0.3.0")[0] == "8.0.3.0"


@pytest.mark.parametrize(
    ("action", "version_id"),
    [
        ('"urn:vim25/8.0.3.0"', "8.0.3.0"),
        ("urn:vim25/6.5", "6.5"),
        ("", None),
        ("urn:vim25", None),
        ("urn:pbm/2.0", None),
    ],
)
def test_the_version_of_a_request_stands_in_its_soap_action(action: str, version_id: str | None) -> None:
    assert requested_version_id(action) == version_id


def test_versions_compare_as_pyvmomi_does() -> None:
    newest, oldest = version_name("8.0.3.0"), version_name("6.5")
    assert newest is not None
    assert oldest is not None
    assert is_at_least(newest, oldest)
    assert not is_at_least(oldest, newest)
    assert version_name("8.0.3") is None


def test_the_lab_serves_the_document() -> None:
    lab = open_virtual("no-gpu")
    status, headers, body = lab.exchange("GET", "/sdk/vimServiceVersions.xml", {}, b"")
    assert (status, headers["Content-Type"]) == (200, "text/xml; charset=utf-8")
    assert b"<version>8.0.3.0</version>" in body
    assert lab.exchange("GET", "/ui", {}, b"")[0] == 404


def lab_of(version_id: str, estate: str = "mixed-fleet") -> Lab:
    lab = open_virtual(estate)
    lab.state.api_version = version_id
    return lab


def test_an_old_session_does_not_see_newer_fields() -> None:
    lab = open_virtual("two-a100")
    new_client = connect(lab)
    (new,) = read(new_client, everything(new_client, vim.HostSystem), vim.HostSystem, ["config.graphicsInfo"])
    assert new["config.graphicsInfo"][0].vgpuMode == "sameSize"
    old_client = connect(lab, "6.5")
    (old,) = read(old_client, everything(old_client, vim.HostSystem), vim.HostSystem, ["config.graphicsInfo"])
    assert old["config.graphicsInfo"][0].vgpuMode is None


def test_a_path_newer_than_the_session_is_invalid() -> None:
    lab = open_virtual("two-a100")
    client = connect(lab, "6.5")
    hosts = everything(client, vim.HostSystem)
    with pytest.raises(vmodl.query.InvalidProperty):
        read(client, hosts, vim.HostSystem, ["config.sharedGpuCapabilities"])


def test_a_session_newer_than_the_vcenter_is_answered_at_the_vcenters_version() -> None:
    client = connect(lab_of("7.0.2.0"), "8.0.3.0")
    host = everything(client, vim.HostSystem)[0]
    with pytest.raises(vmodl.fault.MethodNotFound):
        host.configManager.graphicsManager.RetrieveVgpuProfileInfo()
    with pytest.raises(vmodl.query.InvalidProperty):
        read(client, [host], vim.HostSystem, ["hardware.dvxClasses"])


def old_host(lab: Lab) -> Host:
    host = lab.state.all(Host)[0]
    host.version, host.api_version = "7.0.2", "7.0.2.0"
    return host


def test_a_host_of_7_0_u2_has_no_profile_info_and_a_newer_one_has() -> None:
    lab = open_virtual("two-a100")
    manager = everything(connect(lab), vim.HostSystem)[0].configManager.graphicsManager
    profiles = {info.profileName: info for info in manager.RetrieveVgpuProfileInfo()}
    assert profiles["grid_a100-40c"].deviceVendorId == 0x20F110DE
    assert profiles["grid_a100-1-5c"].profileSharing == "mig"
    old_host(lab)
    with pytest.raises(vmodl.fault.NotSupported):
        manager.RetrieveVgpuProfileInfo()


def test_a_new_vcenter_shows_of_an_old_host_only_what_that_host_knows() -> None:
    lab = open_virtual("two-a100")
    old_host(lab)
    client = connect(lab)
    hosts = everything(client, vim.HostSystem)
    paths = ["config.graphicsInfo", "hardware.numaInfo.numaNode", "config.sharedGpuCapabilities"]
    (found,) = read(client, hosts, vim.HostSystem, paths)
    assert found["config.graphicsInfo"][0].vgpuMode is None
    assert found["hardware.numaInfo.numaNode"][0].memorySize is None
    assert found["config.sharedGpuCapabilities"]
    browser = everything(client, vim.ClusterComputeResource)[0].environmentBrowser
    target = browser.QueryConfigTarget(hosts[0])
    assert not target.vgpuProfileInfo
    assert target.sharedGpuPassthroughTypes
