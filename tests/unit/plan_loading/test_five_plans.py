"""Five plans that this format is made for: all that they say is taken."""

from __future__ import annotations

from pathlib import Path

from vgpu_cfg.plan_loading import load_plan

HOROVOD = """
version: 1
name: horovod-a100
vcenter: prod
secrets: {ngc: env:NGC_KEY, lic: file:/etc/vgpu-cfg/client_token.tok, esxi: keyring:esxi-root}
hosts:
- cluster: gpu
  bios: {sriov: true, above_4g: true}
  access: {ssh: open-and-close, user: root, password: {secret: esxi}}
  disruption: {max_hosts_down: 1, allow: [maintenance, reboot, cold_boot]}
networks:
- {name: roce-111, physical: true, vlan: 111, mtu: 9000, subnet: 10.111.0.0/24, pool: 10.111.0.11-10.111.0.60}
vms:
- name: hvd-{01..02}
  template: ubuntu-22.04-efi
  cluster: gpu
  datastore: vsan
  folder: training
  cpus: 16
  memory: 64GiB
  gpus: grid_a100-40c
  nics:
  - {network: vm-network, ip: dhcp}
  - {network: roce-111, type: passthrough, near: gpu, ip: pool, rdma: gpudirect}
  place: {spread: hosts}
  guest: {by: cloud-init, licence: {secret: lic}}
training:
  framework: horovod
  image: "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
  workers: hvd-*
  rdma_network: roce-111
  registry: {secret: ngc}
"""
STUDENTS = """
version: 1
name: ml26-students
vcenter: campus
hosts:
- names: [esx-a100-01.uni.example]
  gpus: {match: {model: A100}, use: vgpu, sharing: mig}
  disruption: {max_hosts_down: 1, allow: [maintenance, reboot], window: "Sun 02:00-06:00 Europe/Berlin"}
networks:
- {name: lab-a, subnet: 10.20.1.0/24, pool: 10.20.1.101-10.20.1.120, gateway: 10.20.1.1, dns: [10.20.0.53]}
- {name: lab-b, subnet: 10.20.2.0/24, pool: 10.20.2.101-10.20.2.120, gateway: 10.20.2.1, dns: [10.20.0.53]}
vms:
- name: ml26-stu{01..14}
  template: {library: gold, item: ubuntu-24.04-efi-nvidia}
  cluster: gpu
  storage_policy: vsan-r1
  folder: students/ml26
  cpus: 4
  memory: 16GiB
  gpus: grid_a100-1-5c
  nics: [{network: lab-a, ip: pool}]
  attributes: {owner: ml26@uni.example, course: ML26}
  expires: 2027-03-31
  ha: {restart: low}
  ignore: [power]
  except:
    ml26-stu{08..14}: {nics: [{network: lab-b, ip: pool}]}
    ml26-stu14: {cpus: 8, memory: 32GiB}
"""
HGX = """
version: 1
name: hgx-train
vcenter: prod
hosts:
- cluster: hgx
  driver: {kind: nvd-aie, version: "580.*", by: lifecycle}
  nics:
  - {match: {model: ConnectX-7}, use: passthrough, label: rail, firmware: {ATS_ENABLED: true}}
  disruption: {max_hosts_down: 1, allow: [maintenance, reboot, cold_boot]}
networks:
- name: rail-{1..8}
  physical: true
  mtu: 9000
  subnet: 10.20{i}.0.0/24
  pool: 10.20{i}.0.11-10.20{i}.0.99
vms:
- name: hgx-{01..01}
  template: ubuntu-22.04-efi
  cluster: hgx
  storage_policy: gold
  cpus: 96
  memory: 1536GiB
  gpus: [{profile: nvidia_h100xm-80c, count: 8, nvlink: true}]
  numa: follow-gpu
  nics:
  - vm-network
  - {network: "rail-{k}", type: passthrough, count: 8, near: gpu, ip: pool, rdma: gpudirect}
  disks: [{grow: 500GiB}, {size: 8TiB, storage_policy: nvme-local, controller: nvme}]
  ha: {restart: disabled}
  drs: manual
  lock: true
"""
FLEET = """
version: 1
name: train-c
vcenter: prod
include: [site.yaml]
protect: {clusters: [vdi], folders: [/dc1/vm/VDI], names: ["vdi-*", "cp-template-*"]}
defaults: {template: ubuntu-22.04-efi, folder: training, storage_policy: gold, nics: [vm-network]}
hosts:
- {cluster: vdi, mode: check, driver: {kind: vgpu, version: "580.*"}}
- {cluster: l40s, mode: check, driver: {kind: nvd-aie, version: "580.*"}}
- {cluster: a100, prepare: from_vms, disruption: {max_hosts_down: 1, allow: []}}
vms:
- name: ft-{01..06}
  cluster: [l40s, a100]
  cpus: 12
  memory: 96GiB
  gpus: [{profile: [nvidia_l40s-48c, grid_a100d-40c]}]
  place: {spread: hosts, must: false}
- name: nb-{01..08}
  cluster: l40s
  cpus: 6
  memory: 32GiB
  gpus: nvidia_l40s-12c
- name: pt-{01..02}
  cluster: a100
  cpus: 16
  memory: 128GiB
  gpus: [{device: {label: a100-pt}}]
  place: {host_group: a100-even, must: true}
"""
RACK = """
version: 1
name: rack-12
vcenter: prod
secrets: {esxi: keyring:esxi-root, bmc: command:op read op://infra/bmc-r12/password}
hosts:
- names: ["esx-r12-*.example.com"]
  prepare: none
  graphics_type: sharedDirect
  assignment_policy: consolidation
  ats: true
  gpus:
  - {match: {model: H100}, use: vgpu, sharing: mig, ecc: true}
  - {match: {model: L40S}, use: vgpu, vgpu_mode: mixed_size, scheduler: equal_share}
  nics:
  - match: {model: ConnectX-7}
    use: sriov
    vfs: 8
    firmware: {SRIOV_EN: true, NUM_OF_VFS: 8, ATS_ENABLED: true}
    roce: {trust: dscp, dscp: 26, priority: 3}
  driver: {kind: nvd-aie, version: "580.95.*", by: lifecycle}
  bios: {sriov: true, above_4g: true}
  access:
    ssh: open-and-close
    user: root
    password: {secret: esxi}
    bmc: {addresses: {esx-r12-01.example.com: bmc-r12-01}, password: {secret: bmc}}
  disruption: {max_hosts_down: 4, allow: [maintenance, reboot, cold_boot], vsan: noAction, canary: 1}
networks:
- {name: roce-111, switch: dvs-roce, vlan: 111, mtu: 9000}
"""
PLANS = {"horovod": HOROVOD, "students": STUDENTS, "hgx": HGX, "fleet": FLEET, "rack": RACK}


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "site.yaml").write_text("vars: {unused: x}\n", encoding="utf-8")
    return path


def test_the_guides_case_is_supported_whole(tmp_path: Path) -> None:
    plan = load_plan(written(tmp_path, HOROVOD)).desired
    assert plan.training is not None
    assert plan.training.workers == ("hvd-01", "hvd-02")
    assert plan.training.registry is not None
    assert plan.training.registry.server == "nvcr.io"
    (network,) = plan.networks
    assert (network.is_physical, network.subnet, network.pool) == (
        True,
        "10.111.0.0/24",
        ("10.111.0.11", "10.111.0.60"),
    )
    for vm in plan.vms:
        assert [(nic.network, nic.ip, nic.rdma) for nic in vm.nics] == [
            ("vm-network", "dhcp", None),
            ("roce-111", "pool", "gpudirect"),
        ]
        assert vm.guest is not None
        assert (vm.guest.host_name, vm.guest.runtime) == (vm.name, "docker")
        assert vm.guest.licence is not None
        assert vm.guest.driver is not None
        assert vm.guest.ofed is not None


def test_all_of_them_load(tmp_path: Path) -> None:
    found = {name: load_plan(written(tmp_path, text)).desired for name, text in PLANS.items()}
    assert {
        name: [(one.cluster or one.names, one.prepare) for one in plan.hosts] for name, plan in found.items()
    } == {
        "horovod": [("gpu", "from_vms")],
        "students": [(("esx-a100-01.uni.example",), "from_vms")],
        "hgx": [("hgx", "from_vms")],
        "fleet": [("vdi", "from_vms"), ("l40s", "from_vms"), ("a100", "from_vms")],
        "rack": [(("esx-r12-*.example.com",), "none")],
    }
    assert {name: len(plan.vms) for name, plan in found.items()} == {
        "horovod": 2, "students": 14, "hgx": 1, "fleet": 16, "rack": 0,
    }  # fmt: skip
    assert [one.mode for one in found["fleet"].hosts] == ["check", "check", "enforce"]
    assert found["students"].hosts[0].disruption.window == "Sun 02:00-06:00 Europe/Berlin"
    assert found["hgx"].hosts[0].nics[0].label == "rail"
    assert [network.subnet for network in found["hgx"].networks[:2]] == ["10.201.0.0/24", "10.202.0.0/24"]
    assert [nic.network for nic in found["hgx"].vms[0].nics[1:]] == [f"rail-{k}" for k in range(1, 9)]
    assert [vm.nics[0].network for vm in found["students"].vms[6:8]] == ["lab-a", "lab-b"]
    assert all(vm.guest is not None and vm.nics[0].ip == "pool" for vm in found["students"].vms)
    assert {str(vm.source) for vm in found["students"].vms} == {"gold/ubuntu-24.04-efi-nvidia"}
    assert (found["rack"].networks[0].switch, found["rack"].networks[0].mtu) == ("dvs-roce", 9000)
