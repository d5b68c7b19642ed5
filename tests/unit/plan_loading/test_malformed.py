"""Every file of tests/malformed is one way to get a plan file wrong; its first lines say what it is told.

A line is `LINE:COLUMN: message (hint)`, with the file's name before it where the
fault is in an included one. Adding a case is adding a file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.plan_loading import load_plan

FOLDER = Path(__file__).parents[2] / "malformed"
CASES = sorted(path.name for path in FOLDER.glob("*.yaml"))


def expected_of(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("# ")]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 45


@pytest.mark.parametrize("case", CASES)
def test_every_fault_is_told_where_it_stands(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(DocumentError) as caught:
        load_plan(case)
    told = [str(fault).removeprefix(f"{case}:") for fault in caught.value.faults]
    assert told == expected_of(FOLDER / case)
    assert caught.value.exit_code == 3
    assert "hunter" not in f"{told} {caught.value} {caught.value.remedy}", "a secret must not be repeated"


WHOLE = """
version: 1
name: p
vcenter: {server: vc01.example.com, datacenter: dc1}
include: [parts/good.yaml]
vars: {net: prod}
secrets: {ngc: env:NGC_KEY, esxi: keyring:esxi}
protect: {folders: [/dc1/vm/VDI], names: ["vdi-*"], clusters: [vdi]}
checks: {VG031: warning}
defaults:
  folder: training
  place: {spread: gpus, hosts: [a], not_hosts: [b], host_group: g, pack: true, keep_free: 1, must: true}
networks: [a, {name: "b-{1..2}", switch: {name: "dvs-{n}", make: true}, vlan: "11{i}", mtu: 9000}]
hosts:
- cluster: gpu
  names: ["esx-{1..2}"]
  mode: check
  prepare: from_vms
  graphics_type: sharedDirect
  assignment_policy: performance
  ats: true
  gpus:
  - match: {model: A100, pci_id: "3b:00.0", numa: 0}
    use: vgpu
    vgpu_mode: same_size
    scheduler: best_effort
    ecc: true
  - {match: {model: L40S}, use: passthrough, label: pt}
  nics:
    match: {model: ConnectX-7, vmnic: vmnic4, pci_id: "3c:00.0", numa: 0}
    use: sriov
    vfs: 8
    firmware: {ATS_ENABLED: true, NUM_OF_VFS: 8, LINK_TYPE_P1: ETH}
    roce: {trust: dscp, dscp: 26, priority: 3}
    switch: dvs-roce
  vmknics: [{network: b-1, address: dhcp, addresses: {esx-1: 10.1.1.1/24}, mtu: 9000}]
  pvrdma: {network: b-1}
  driver: {kind: nvd-aie, version: "580.*", by: esxcli, depot: [/vmfs/volumes/ds1/driver.zip]}
  bios: {sriov: true, above_4g: true, iommu: true}
  licence: {secret: esxi}
  cluster_options: {evacuate_vgpu: true, hot_migrate: true, drs: {LimitVMsPerESXHost: 5}}
  access: {ssh: open-and-close, user: root, password: {secret: esxi}, key: {secret: esxi}, host_keys: pin}
  disruption:
    max_hosts_down: 1
    allow: [maintenance]
    canary: 1
    vsan: noAction
    window: "Sat 22:00-04:00 UTC"
    power_off_own: true
vms:
- name: hvd-{01..02}
  template: {scratch: ubuntu64Guest}
  cluster: [gpu]
  cpus: 16
  memory: 64GiB
  gpus:
  - {profile: [grid_a100-40c], count: 2, uvm: true}
  - {device: {label: x, device_id: "10de:20f1"}}
  - {pin: "3b:00.0"}
  numa: [0]
  nics: ["${net}", {network: "rail-{k}", count: 2, mac: "00:50:56:00:00:0{k}"}]
  disks: [{size: 1TiB, controller: nvme}]
  extra_config: {a: 1}
  power: true
  expires: 2027-03-31
  ignore: [memory]
  lock: false
  except: {hvd-02: {memory: 96GiB}}
"""
JUNK: list[object] = [
    None, True, -1, 0, 1.5, 10**30, "", "x", "{n}", "{k}", "{1..9}", "{9..1}", "{", "${", "${net}", "${no}",
    "\n",
    [], [[]], [None], [1], ["x", "x"], {}, {"x": None}, {"x": {"x": []}}, {"": ""}, {"name": "a"}, {"*": {}},
]  # fmt: skip


def faults_of(path: Path) -> tuple[DocumentFault, ...]:
    try:
        load_plan(path)
    except DocumentError as error:
        return error.faults
    return ()


def every_place(value: object, loc: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield loc
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from every_place(inner, (*loc, key))


PLACES = list(every_place(parse_text(WHOLE, "whole").data))


@given(st.sampled_from(PLACES[1:]), st.sampled_from(JUNK), st.booleans())
@example(("vms", 0, "name"), None, True)
@settings(max_examples=examples(60, 150), deadline=None)
def test_junk_anywhere_is_told_and_never_a_traceback(
    place: tuple[str | int, ...], junk: object, extra: bool
) -> None:
    data = copy.deepcopy(parse_text(WHOLE, "whole").data)
    surroundings: Any = data
    for step in place[:-1]:
        surroundings = surroundings[step]
    if extra and isinstance(surroundings, dict):
        surroundings[f"{place[-1]}x"] = junk
    else:
        surroundings[place[-1]] = junk
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(dump(data), encoding="utf-8")
        (Path(folder) / "parts").mkdir()
        (Path(folder) / "parts" / "good.yaml").write_text("defaults: {cpus: 1}\n", encoding="utf-8")
        faults = faults_of(path)
    assert all(fault.line >= 1 and fault.column >= 1 and fault.message for fault in faults)
