"""Estate files: those that ship, what they hold, and the ways in which one can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig, built, estate_of
from tests.unit.lab.wire.client import shown
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab import about_estate, estate_names, open_lab
from vgpu_cfg.lab.estates.guests import Part
from vgpu_cfg.lab.guest.system.creation import copy_of
from vgpu_cfg.lab.state.guest import fault_of
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Folder, Host, Network, VirtualMachine

BASE = """\
about: a
clusters:
- name: gpu
  hosts:
  - name: esx
    gpus:
    - {board: A100}
templates:
- {name: t}
"""

WITH_OPTIONS = """\
about: a VM with every option, and one with none
vcenter: {key_providers: [{name: own}]}
clusters:
- {name: gpu, hosts: [{name: esx}]}
vms:
- name: a
  power: "off"
  vtpm: true
  boot_delay: 3000
  cpu_reservation: 25000
  cpu_hot_add: true
  memory_hot_add: true
  latency: high
  attributes: {course: ml-2026}
  drs: "off"
  restart_priority: lowest
  vm_monitoring: vmMonitoringOnly
- {name: b}
"""


@pytest.mark.parametrize("name", estate_names())
def test_every_estate_opens(name: str) -> None:
    state = Rig(name).lab.state
    assert about_estate(name).endswith(".")
    for thing in state.objects.values():
        assert thing.revision == 0
        assert thing.parent is None or thing.parent in state.objects


def test_the_names_that_plans_use() -> None:
    rig = Rig("two-a100")
    assert rig.find(Cluster).name == "gpu"
    assert rig.find(Datastore).name == "vsan"
    assert rig.find(Network, "vm-network").is_distributed is False
    assert rig.find(Network, "dv-train").is_distributed is True
    assert rig.find(Folder, "training").parent == rig.find(Folder, "vm").moid
    template = rig.vm("ubuntu-22.04-efi")
    assert (template.is_template, template.firmware) == (True, "efi")
    host = rig.host()
    assert [(gpu.board, gpu.numa_node) for gpu in host.gpus] == [("A100", 0), ("A100", 1)]
    assert [nic.pci.numa_node for nic in host.nics if "Dx" in nic.pci.device_name] == [0, 1]
    for node in host.numa_nodes:
        assert host.gpus[node.node_id].pci_id in node.pci_ids


def test_the_mixed_fleet_is_mixed() -> None:
    rig = Rig("mixed-fleet")
    hosts = rig.lab.state.all(Host)
    assert {host.version for host in hosts} == {"8.0.3", "7.0.2"}
    assert {host.connection for host in hosts} == {"connected", "notResponding"}
    assert any(host.in_maintenance for host in hosts)
    assert any(cluster.is_standalone for cluster in rig.lab.state.all(Cluster))
    assert rig.host("esx-a100-03.lab").passthrough["0000:21:00.0"].label == "a100-pt"
    assert rig.host("esx-a100-03.lab").passthrough["0000:21:00.0"].vm == rig.vm("research-pt").moid
    series = {use.profile[-1] for host in hosts for gpu in host.gpus for use in gpu.uses}
    assert series == {"q", "c"}
    assert not rig.vm("cp-template-w11").is_on
    assert all("vgpu_cfg.plan" not in vm.extra_config for vm in rig.lab.state.all(VirtualMachine))


def test_a_bare_host_has_no_driver() -> None:
    for host in Rig("bare").lab.state.all(Host):
        assert host.driver is None
        assert host.configured_default_graphics_type == "shared"
        assert {gpu.graphics_type for gpu in host.gpus} == {"basic"}


@pytest.mark.parametrize(
    ("name", "hosts", "gpus", "vms"),
    [
        ("fleet-3x8", 3, 24, 0),
        ("fleet-5x4-23vms", 5, 20, 23),
        ("fleet-60x8-600vms", 60, 480, 600),
        ("fleet-2x8+60-124vms", 62, 16, 124),
    ],
)
def test_a_fleet_has_the_size_of_its_name(name: str, hosts: int, gpus: int, vms: int) -> None:
    rig = Rig(name)
    state = rig.lab.state
    assert len(state.all(Host)) == hosts
    assert sum(len(host.gpus) for host in state.all(Host)) == gpus
    assert len([vm for vm in state.all(VirtualMachine) if not vm.is_template]) == vms
    assert rig.find(Cluster, "gpu").hosts


def test_hosts_without_gpus_have_clusters_of_their_own() -> None:
    rig = Rig("fleet-1x8+51-104vms")
    bare = [host for host in rig.lab.state.all(Host) if not host.gpus]
    clusters = [rig.find(Cluster, name) for name in ("cpu", "cpu-02")]
    assert [moid for cluster in clusters for moid in cluster.hosts] == [host.moid for host in bare]
    assert all(len(host.vms) == 2 for host in bare)


def test_a_fleet_is_always_the_same() -> None:
    one, two = (Rig("fleet-7x8-50vms").lab.state for _ in range(2))
    assert {moid: repr(thing) for moid, thing in one.objects.items()} == {
        moid: repr(thing) for moid, thing in two.objects.items()
    }


def test_devices_are_made_when_somebody_asks() -> None:
    rig = Rig("fleet-10x8-100vms")
    assert all(vm.made_devices is None for vm in rig.lab.state.all(VirtualMachine))
    assert len(rig.vm("vm-00001").devices) == 13


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("about: a", "about: a\nclusterz: []", 2, "unknown key 'clusterz'"),
        ("board: A100", "board: A10O", 7, "no board 'A10O'"),
        ("board: A100", "bord: A100", 7, "missing key 'board'"),
        ("{board: A100}", "{board: A100, pci_id: 3b:00.0}", 7, "is not a PCI address"),
        ("{board: A100}", "{board: A100, numa: 2}", 5, "no NUMA node 2"),
        ("{board: A100}", "{board: A100, count: 2, pci_id: '0000:21:00.0'}", 7, "one pci_id"),
        ("{board: A100}", "{board: A100, mode: quick}", 7, "mode"),
        ("{board: A100}", "{board: A100, nvlink: ['0000:99:00.0']}", 6, "no other GPU at 0000:99:00.0"),
        ("- name: esx", "- {name: esx, names: [a]}\n  - name: b", 5, "either name or names"),
        ("- name: esx", "- name: esx\n    memory: 12 GB", 6, "is not a size"),
        ("- name: esx", "- name: esx\n    esxi: '5.5'", 6, "not support ESXi '5.5'"),
        ("- name: esx", "- name: esx\n  - name: esx", 6, "two hosts 'esx'"),
        ("- name: esx", "- name: esx\n    networks: [nowhere]", 6, "no network 'nowhere'"),
        ("- {name: t}", "- {name: t}\n- {name: t}", 10, "two 't'"),
        ("- {name: t}", "- {name: t, datastore: x}", 9, "no datastore 'x'"),
        ("- {name: t}", "- {name: t, host: x}", 9, "no host 'x'"),
        (
            "- {name: t}",
            "- {name: t}\nvms:\n- {name: v, gpus: [grid_a100_40c]}",
            11,
            "is not a valid vGPU name",
        ),
        ("- {name: t}", "- {name: t}\nvms:\n- {name: v, cluster: x}", 11, "no cluster 'x'"),
        (
            "- {name: t}",
            "- {name: t}\nvms:\n- {name: v, gpus: [grid_t4-4c], memory: 1GiB}",
            11,
            "cannot run on esx",
        ),
        ("- {name: t}", "- {name: t}\nnetworks:\n- {name: n, switch: s}", 11, "no switch 's'"),
        ("- {name: t}", "- {name: t, guest: {faults: {clok: '5'}}}", 9, "'clok' is not a guest fault"),
    ],
)
def test_a_wrong_estate_says_where_and_what(old: str, new: str, line: int, message: str) -> None:
    built(BASE)
    assert old in BASE
    with pytest.raises(DocumentError) as caught:
        built(BASE.replace(old, new, 1))
    fault = caught.value.faults[0]
    assert message in fault.message
    assert (fault.file, fault.line) == ("estate.yaml", line)


def test_faults_of_a_template_are_those_of_its_clones() -> None:
    state = built(BASE.replace("- {name: t}", "- {name: t, guest: {faults: {clock: '-400'}}}"))
    (template,) = [vm for vm in state.all(VirtualMachine) if vm.is_template]
    assert template.made_guest is not None
    clone = copy_of(template.made_guest)
    assert clone is not None
    assert fault_of(clone, "clock") == "-400"
    with pytest.raises(KeyError):
        fault_of(clone, "clok")


def test_an_estate_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        open_lab("two-a1oo")
    assert "two-a100" in caught.value.faults[0].hint
    assert "fleet-" in caught.value.remedy
    with pytest.raises(DocumentError):
        open_lab(tmp_path / "none.yaml")


def test_an_estate_of_ones_own(tmp_path: Path) -> None:
    rig = Rig(estate_of(BASE, tmp_path))
    assert rig.lab.state.estate == "estate"
    assert rig.host().name == "esx"
    several = Rig(estate_of(BASE.replace("- name: esx", "- names: ['esx-{09..11}']", 1), tmp_path))
    assert [host.name for host in several.lab.state.all(Host)] == ["esx-09", "esx-10", "esx-11"]


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "estate-file.md").read_text(encoding="utf-8")
    for part in every_part(Part):
        for key in part.model_fields:
            assert f"`{key}`" in page or f"{key}:" in page, f"{part.__name__}.{key}"


def every_part(kind: type[Part]) -> list[type[Part]]:
    return [found for child in kind.__subclasses__() for found in (child, *every_part(child))]


def test_a_vm_has_the_options_that_its_estate_says(tmp_path: Path) -> None:
    rig = Rig(estate_of(WITH_OPTIONS, tmp_path))
    found = shown(rig.lab, rig.vm("a"))
    config, plain = found.config, shown(rig.lab, rig.vm("b")).config
    for of, expected in (
        (config, (True, True, 3000, "high", 25000)),
        (plain, (False, False, 0, "normal", 0)),
    ):
        latency, cpu = of.latencySensitivity.level, of.cpuAllocation.reservation
        assert (
            of.cpuHotAddEnabled,
            of.memoryHotAddEnabled,
            of.bootOptions.bootDelay,
            latency,
            cpu,
        ) == expected
        tpms = [d for d in of.hardware.device if isinstance(d, vim.vm.device.VirtualTPM)]
        assert len(tpms) == (of is config)
    (attribute,) = found.customValue
    names = {field.key: field.name for field in found.availableField}
    assert (names[attribute.key], attribute.value) == ("course", "ml-2026")
    cluster = shown(rig.lab, rig.find(Cluster, "gpu")).configurationEx
    (of_drs,), (of_das,) = cluster.drsVmConfig, cluster.dasVmConfig
    assert (of_drs.enabled, of_drs.behavior) == (False, None)
    assert of_das.dasSettings.restartPriority == "lowest"
    assert of_das.dasSettings.vmToolsMonitoringSettings.vmMonitoring == "vmMonitoringOnly"


def test_a_vm_without_a_cluster_is_set_nothing_by_one(tmp_path: Path) -> None:
    text = WITH_OPTIONS.replace("{name: gpu, ", "{name: gpu, standalone: true, ")
    with pytest.raises(DocumentError, match="not in a cluster"):
        Rig(estate_of(text, tmp_path))
