"""Guest drivers, ending licenses, SR-IOV that is off: found in a sick lab, and not in its healthy twin."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.model.observed.inventory import Host, Inventory, Sriov
from vgpu_cfg.model.reservations import LicencePool, Quotas
from vgpu_cfg.planning.doctor.ailments import Kind
from vgpu_cfg.planning.doctor.examine import examine
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

KEY = "VSPH8-00001-ENTPL-US001-00001"
HEALTHY = f"""
about: Two hosts with a vGPU VM of somebody else.
vcenter: {{name: lab, licence_ends: {{{KEY}: 2099-01-01}}}}
clusters:
- name: gpu
  hosts:
  - &host
    name: esx-1.lab
    licence: {KEY}
    bios: {{sriov: true, iommu: true}}
    gpus: [{{board: A100, pci_id: "0000:21:00.0"}}]
    nics: [{{vmnic: vmnic0, pci_id: "0000:c1:00.0"}}]
  - {{<<: *host, name: esx-2.lab}}
networks: [{{name: prod}}]
datastores: [{{name: vsan}}]
vms:
- name: other
  host: esx-1.lab
  gpus: [grid_a100-40c]
  networks: [prod]
  attributes: {{owner: ana}}
  extra_config: {{guestinfo.vgpu_cfg.driver: "570.86.15"}}
"""
NEW = (Kind.GUEST_DRIVER, Kind.LICENCE_ENDS, Kind.SRIOV_OFF)


@cache
def read(before: str = "", after: str = "") -> Inventory:
    assert before in HEALTHY
    with TemporaryDirectory() as folder:
        estate = Path(folder, "estate.yaml")
        estate.write_text(HEALTHY.replace(before, after) if before else HEALTHY, encoding="utf-8")
        return read_to_examine(resolve_connection(ConnectionFlags(server=f"lab:{estate}")))


def found(observed: Inventory, *quotas: Quotas) -> list[tuple[Kind, str, str, str]]:
    ailments = examine(observed, load_catalog(), (), quotas).ailments
    return [(one.kind, one.subject, one.says, one.owner) for one in ailments if one.kind in NEW]


def test_the_healthy_twin_has_none() -> None:
    assert found(read()) == []


@pytest.mark.parametrize(
    ("version", "is_refused"),
    [("470.82.01", True), ("535.183.06", False), ("571.1", False), ("\x1b[31m470.82.01", False), ("", False)],
)
def test_a_guest_names_a_driver_that_its_host_does_not_take(version: str, *, is_refused: bool) -> None:
    observed = read()
    key = "guestinfo.vgpu_cfg.driver"
    vms = tuple(
        vm.model_copy(update={"detail": vm.detail.model_copy(update={"extra_config": {key: version}})})
        for vm in observed.vms
        if vm.detail is not None
    )
    rows = found(observed.model_copy(update={"vms": vms}))
    says = f"{version}; esx-1.lab has R580, for R580 or R570 or R535"
    assert rows == ([(Kind.GUEST_DRIVER, "vm:other", says, "ana")] if is_refused else [])


def test_a_license_that_ends_soon() -> None:
    rows = found(read("2099-01-01", "2026-02-20"))
    says = "VMware vSphere 8 Enterprise Plus ends on 2026-02-20"
    assert rows == [(Kind.LICENCE_ENDS, f"host:esx-{one}.lab", says, "") for one in (1, 2)]


@pytest.mark.parametrize(("ends", "count"), [(date(2026, 2, 1), 1), (date(2099, 2, 1), 0), (None, 0)])
def test_a_pool_that_ends_soon(ends: date | None, count: int) -> None:
    pool = LicencePool(product="nvaie", count=9, per="vgpu", series=("C",), ends=ends, origin="quotas.yaml:3")
    rows = found(read(), Quotas(file="quotas.yaml", licences=(pool,)))
    assert rows == [(Kind.LICENCE_ENDS, "vcenter", "nvaie expires on 2026-02-01 (quotas.yaml:3)", "")] * count


def test_sriov_is_off_where_idle_gpus_give_nothing() -> None:
    rows = found(read("name: esx-2.lab", "name: esx-2.lab, bios: {sriov: false}"))
    assert [(kind, subject) for kind, subject, _, _ in rows] == [(Kind.SRIOV_OFF, "host:esx-2.lab")]
    assert "idle GPUs" in rows[0][2]


def test_nothing_is_capable_of_passthrough_without_an_iommu() -> None:
    rows = found(read("name: esx-2.lab", "name: esx-2.lab, bios: {iommu: false}"))
    assert [(kind, subject) for kind, subject, _, _ in rows] == [(Kind.SRIOV_OFF, "host:esx-2.lab")]
    assert "IOMMU" in rows[0][2]


@pytest.mark.parametrize(("functions", "count"), [(0, 2), (4, 0)])
def test_virtual_functions_are_requested_and_not_there(functions: int, count: int) -> None:
    state = Sriov(is_capable=True, is_active=functions > 0, functions=functions, requested=4, most=16)

    def asked(host: Host) -> Host:
        devices = (
            one.model_copy(update={"sriov": state}) if one.sriov is not None else one
            for one in host.pci_devices
        )
        return host.model_copy(update={"pci_devices": tuple(devices)})

    observed = read()
    rows = found(observed.model_copy(update={"hosts": tuple(map(asked, observed.hosts))}))
    assert [kind for kind, _, _, _ in rows] == [Kind.SRIOV_OFF] * count
