"""The JSON schema says what the models say, and the page names every key."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.sections import left_over, section
from vgpu_cfg.documents import parse_text
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.plan_file import VmKeys, plan_file_schema
from vgpu_cfg.plan_loading import load_plan

ROOT = Path(__file__).parents[3]
EXPANDED = Path(__file__).with_name("expanded.txt")
HEADER = "version: 1\nname: p\nvcenter: prod\n"

GUEST_MODELS = [
    "GuestEntry",
    "LoginEntry",
    "UserEntry",
    "LicenceEntry",
    "PackageEntry",
    "CudaEntry",
    "OfedEntry",
    "TrainingEntry",
    "RegistryEntry",
    "SharedFolderEntry",
    "MonitoringEntry",
    "TrafficEntry",
    "TrainingRoceEntry",
    "UpdateEntry",
    "CheckpointEntry",
    "SiteEntry",
    "ProxyEntry",
    "AptEntry",
]
HOST_MODELS = [
    "HostEntry",
    "HostGpuEntry",
    "HostNicEntry",
    "RoceEntry",
    "VmknicEntry",
    "PvrdmaEntry",
    "DriverEntry",
    "EsxiEntry",
    "FirmwareToolsEntry",
    "BiosEntry",
    "ClusterOptionsEntry",
    "AccessEntry",
    "BmcEntry",
    "DisruptionEntry",
    "EstimateEntry",
]

GOOD = [
    "vms: [{name: a, template: t, gpus: grid_a100-40c}]",
    "vms: [{name: 'a-{1..2}', template: {scratch: x}, cpus: 4, memory: 1.5TiB, disks: [{size: 4GiB}]}]",
    "vms: [{name: a, template: t, gpus: [{profile: [grid_t4-16c], count: 2, uvm: true}, {pin: '3b:00.0'}]}]",
    "vms: [{name: a, template: t, gpus: [{device: {label: x, device_id: '10de:20f1'}}], numa: off}]",
    "vms: [{name: a, template: t, numa: [0, 1], nics: [n, {network: m, mac: '00:50:56:00:00:0{k}'}]}]",
    "vars: {a: 5, b: true}\nvms: [{name: a, template: t, cpus: '${a}', lock: '${b}', numa: '${a}'}]",
    "vms: [{name: a, template: t, vtpm: true, drs: off, ha: {restart: low}, attributes: {a: ml}}]",
    "vms: [{name: a, template: {library: gold, item: u24}, clone: linked}]",
    "vms: [{name: a, template: t, tags: {Backup: daily, Team: [ml, vision], Rack: []}}]",
    "vms: [{name: a, template: t, cpu_hot_add: true, boot_delay: 5, latency_sensitivity: high}]",
    "vms: [{name: a, template: t, power: leave, expires: 2027-03-31, ignore: [power], lock: true}]",
    "vms: [{name: 'a{1..2}', template: t, except: {'a1': {cpus: 4, place: {spread: hosts, hosts: 'x*'}}}}]",
    "defaults: {template: t, extra_config: {a: true, b: 5, c: x}}\nx-here: [1]\nvms: [{name: a}]",
    "protect: {names: 'vdi-*', folders: [/dc/vm/x]}\nchecks: {VG031: warning}\nsecrets: {a: env:A}",
    "hosts: [{cluster: a, gpus: {match: {model: A100, numa: 0}, use: vgpu, sharing: mig, ecc: true}}]",
    "hosts: [{names: 'esx-{1..2}', mode: check, prepare: none, graphics_type: sharedDirect, ats: false}]",
    "hosts: [{cluster: a, nics: [{match: {vmnic: vmnic4}, use: sriov, vfs: 8, roce: {dscp: 26}}]}]",
    "hosts: [{cluster: a, nics: [{match: {numa: 1}, roce: false}]}]",
    "hosts: [{cluster: a, nics: {match: {model: x}, firmware: {A_B: true, C: 8, D: ETH, 'E[0]': 1}}}]",
    "vars: {n: 8}\nhosts: [{cluster: a, nics: {match: {model: x}, firmware: {N: '${n}'}}}]",
    "hosts: [{cluster: a, vmknics: {network: n, addresses: {esx-1: 10.1.1.1/24}}, pvrdma: {network: n}}]",
    "hosts: [{names: [b], vmknics: [{network: n, address: 10.1.1.1/24, mtu: 9000}], pvrdma: false}]",
    "hosts: [{cluster: a, driver: {kind: vgpu, version: '580.*', by: esxcli, depot: /vmfs/volumes/d/x.zip}}]",
    "hosts: [{cluster: a, driver: {by: esxcli, depot: ['https://depot.example.com/x.zip']}}]",
    "secrets: {s: env:S}\nhosts: [{cluster: a, access: {ssh: off, password: {secret: s}, key: {secret: s}}}]",
    "hosts: [{cluster: a, disruption: {allow: [], canary: 1, window: 'Sat,Sun 22:00-04:00 Europe/Berlin'}}]",
    "hosts: [{cluster: a, disruption: {window: 'daily 00:00-24:00 UTC', power_off_own: true}}]",
    "hosts: [{cluster: a, cluster_options: {evacuate_vgpu: true, drs: {A: 5, B: ''}}}]",
    "networks: [a, {name: 'b-{1..2}', switch: 'dvs-{n}', vlan: '11{i}', mtu: 9000}]",
    "networks: [{name: b, switch: {name: dvs, make: true}, vlan: 0}]",
    "networks: [{name: 'r-{1..2}', physical: true, vlan: 5, mtu: 9000, subnet: '10.{i}.0.0/24'}]",
    "networks: [{name: a, subnet: 10.1.0.0/24, pool: 10.1.0.9-10.1.0.99, gateway: 10.1.0.1, dns: 10.0.0.53}]",
    "networks: [{name: a, gateway: '', dns: [10.0.0.53, 10.0.0.54], physical: false}]",
    "vms: [{name: a, template: t, nics: [{network: n, ip: dhcp}, {network: m, ip: 10.1.0.5/24}]}]",
    "vms: [{name: a, template: t, nics: [{network: n, type: pvrdma, rdma: host, ip: ''}]}]",
    "vms: [{name: 'a{1..2}', template: t, nics: [{network: n, ip: '10.1.{i}.{k}/24', count: 2}]}]",
    "vms: [{name: a, template: t, nics: [{type: passthrough, mac: '00:50:56:00:00:01', ip: dhcp}]}]",
    "vms: [{name: a, template: t, guest: {}, ignore: [guest]}]",
    "vms: [{name: 'a{1..2}', template: t, guest: {hostname: 'node-{n}', domain: lab.example}}]",
    "secrets: {s: env:S}\nvms: [{name: a, template: t, guest: {login: {user: u, password: {secret: s}}}}]",
    "secrets: {s: env:S}\nvms: [{name: a, template: t, guest: {licence: {secret: s, type: 4}, wait: 45m}}]",
    "secrets: {s: env:S}\nvms: [{name: a, template: t, guest: {licence: {token: {secret: s}}}}]",
    "vms: [{name: a, template: t, guest: {users: [anna, {name: b, sudo: false, shell: /bin/sh}]}}]",
    "vms: [{name: a, template: t, guest: {driver: template, ofed: inbox, containers: containerd}}]",
    "vms: [{name: a, template: t, guest: {driver: leave, ofed: leave, containers: leave, users: anna}}]",
    'vms: [{name: a, template: t, guest: {cuda: "12.8"}}]',
    'vms: [{name: a, template: t, guest: {cuda: {version: "12.8", package: /srv/cuda.run}}}]',
    "vms: [{name: a, template: t, guest: {driver: /opt/d.run, ofed: {stack: doca, package: /opt/o.deb}}}]",
    "vms: [{name: a, template: t, guest: {driver: {package: 'https://x.io/d.deb'}, shared_memory: 8GiB}}]",
    "vms: [{name: a, template: t, guest: {toolkit_repository: 'https://mirror.example/nvidia'}}]",
    "vms: [{name: a, template: t, gpus: grid_a100-40c}]\ntraining: {workers: a}",
    "vms: [{name: a, template: t}]\ntraining: {workers: [a], slots: 1, image: 'x/y:1', mounts: '/a:/b'}",
    "secrets: {s: env:S}\nvms: [{name: a, template: t}]\n"
    "training: {workers: a*, slots: 1, image: 'nvcr.io/a/b', registry: {secret: s}, keys: {secret: s}}",
    "secrets: {s: env:S}\nvms: [{name: a, template: t}]\n"
    "training: {workers: a, slots: 1, image: 'r.example:5000/x', "
    "registry: {server: r.example:5000, user: u, password: {secret: s}}, "
    "monitoring: {exporter: nvidia-smi, images: {grafana: 'g/g:1'}, grafana_password: {secret: s}}}",
    "vms: [{name: a, template: t}, {name: h, template: t}]\n"
    "training: {workers: a, head: h, slots: 2, shared_folder: true, monitoring: true, environment: {A: 1}}",
    "vms: [{name: a, template: t}]\ntraining: {workers: a, slots: 2, shared_folder: /data, "
    "monitoring: false, roce: {dscp: 24, priority: 4}}",
    "vms: [{name: a, template: t}]\ntraining: {workers: a, slots: 1, shared_folder: {path: /data}, "
    "port: 2022, traffic: {link: 25Gbps, control: 500Mbps}, framework: none}",
]
BAD = [
    "vm: []",
    "vms: [{template: t}]",
    "vms: [{name: a, memroy: 4GiB}]",
    "vms: [{name: a, memory: 64}]",
    "vms: [{name: a, memory: 64GB}]",
    "vms: [{name: a, cpus: 0}]",
    "vms: [{name: a, gpus: [{count: 2}]}]",
    "vms: [{name: a, gpus: [{pin: nonsense}]}]",
    "vms: [{name: a, disks: [{grow: 1GiB, size: 1GiB}]}]",
    "vms: [{name: a, nics: [{network: n, type: e1000}]}]",
    "vms: [{name: a, nics: [{network: n, mac: 00-50-56-00-00-00}]}]",
    "vms: [{name: a, place: {spread: racks}}]",
    "vms: [{name: a, expires: tomorrow}]",
    "vms: [{name: a, except: {a: {name: b}}}]",
    "vms: {a: {}}",
    "checks: {VG31: warning}",
    "vars: {1x: a}",
    "secrets: {a: hunter2}",
    "protect: {folder: [x]}",
    "hosts: {cluster: a}",
    "hosts: [{mode: check}]",
    "hosts: [{cluster: a, mode: report}]",
    "hosts: [{cluster: a, graphics_type: SharedPassthru}]",
    "hosts: [{cluster: a, gpus: [A100]}]",
    "hosts: [{cluster: a, gpus: {match: {vmnic: vmnic4}}}]",
    "hosts: [{cluster: a, nics: {match: {vmnic: eth0}}}]",
    "hosts: [{cluster: a, nics: {match: {model: x}, firmware: {ats enabled: true}}}]",
    "hosts: [{cluster: a, nics: {use: sriov, vfs: 0}}]",
    "hosts: [{cluster: a, nics: {roce: {priority: 8}}}]",
    "hosts: [{cluster: a, vmknics: {network: n, address: 10.1.1.1}}]",
    "hosts: [{cluster: a, driver: {version: 580.10}}]",
    "hosts: [{cluster: a, driver: {by: esxcli, depot: driver.zip}}]",
    "hosts: [{cluster: a, licence: AAAAA-BBBBB}]",
    "hosts: [{cluster: a, access: {ssh: true}}]",
    "hosts: [{cluster: a, disruption: {window: Saturday 22:00-04:00 UTC}}]",
    "hosts: [{cluster: a, disruption: {max_hosts_down: 0}}]",
    "networks: [{name: a, vlan: 111}]",
    "networks: [{name: a, switch: dvs, mtu: 1000}]",
    "networks: [{name: a, switch: {make: true}}]",
    "networks: [{name: a, physical: true, switch: dvs}]",
    "networks: [{name: a, physical: false, vlan: 5}]",
    "networks: [{name: a, subnet: 10.1.0.0}]",
    "networks: [{name: a, pool: 10.1.0.5-10.1.0.9}]",
    "networks: [{name: a, subnet: 10.1.0.0/24, pool: 10.1.0.5}]",
    "networks: [{name: a, dns: dns.example.com}]",
    "vms: [{name: a, template: t, nics: [{network: n, ip: static}]}]",
    "vms: [{name: a, template: t, nics: [{network: n, ip: 10.1.0.5}]}]",
    "vms: [{name: a, template: t, nics: [{network: n, type: sriov, rdma: true}]}]",
    "vms: [{name: a, template: t, guest: {by: ansible}}]",
    "vms: [{name: a, template: t, guest: {hostname: a_b}}]",
    "vms: [{name: a, template: t, guest: {wait: 30}}]",
    "vms: [{name: a, template: t, guest: {users: [{name: Anna Berg}]}}]",
    "vms: [{name: a, template: t, guest: {users: [{sudo: true}]}}]",
    "vms: [{name: a, template: t, guest: {driver: {sha256: 12}}}]",
    "vms: [{name: a, template: t, guest: {ofed: mellanox}}]",
    "vms: [{name: a, template: t, guest: {cuda: latest}}]",
    "vms: [{name: a, template: t, guest: {licence: {type: 3}}}]",
    "vms: [{name: a, template: t, guest: {containers: podman}}]",
    "training: {image: x}",
    "training: {workers: a, framework: spark}",
    "training: {workers: a, image: UPPER/case}",
    "training: {workers: a, port: 0}",
    "training: {workers: a, environment: {1A: x}}",
    "training: {workers: a, traffic: {link: 10}}",
    "training: {workers: a, monitoring: {images: {node: x}}}",
    "training: {workers: a, registry: hunter2}",
]


@cache
def schema() -> dict[str, Any]:
    return plan_file_schema()


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


def loaded(text: str, tmp_path: Path) -> DesiredPlan:
    path = tmp_path / "plan.yaml"
    path.write_text(HEADER + text, encoding="utf-8")
    return load_plan(path).desired


def section_of(text: str) -> str:
    return text.replace("\n", "; ")


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"].endswith("2020-12/schema")
    named = set(re.findall(r"#/\$defs/(\w+)", json.dumps(schema())))
    assert named == set(schema()["$defs"])
    assert "title" not in {word for rule in schema()["properties"].values() for word in rule}


@pytest.mark.parametrize("text", GOOD)
def test_what_the_loader_takes_the_schema_takes(text: str, tmp_path: Path) -> None:
    """What it expands to is compared with a stored text: each of these plans has other keys."""
    plan = loaded(text, tmp_path)
    left_out: dict[str, Any] = {"name": True, "vcenter": True, "id_file": True}
    left_out["vms"] = {"__all__": {"defaulted": True}}
    words = plan.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
    lines = [
        f"{key}: {json.dumps(one)}"
        for key, value in words.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    expanded = "\n".join(lines).replace(f"{tmp_path}/", "")
    assert expanded == section(EXPANDED, section_of(text), expanded)
    data = parse_text(HEADER + text, "plan.yaml").root.value
    assert [error.message for error in validator().iter_errors(data)] == []


def test_no_expanded_plan_is_left_over() -> None:
    assert left_over(EXPANDED, map(section_of, GOOD)) == []


@pytest.mark.parametrize("text", BAD)
def test_what_the_schema_refuses_the_loader_refuses(text: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError):
        loaded(text, tmp_path)
    assert not validator().is_valid(parse_text(HEADER + text, "plan.yaml").root.value)


def test_the_examples_pass_both() -> None:
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        data = parse_text(path.read_text(encoding="utf-8"), path.name).root.value
        assert [error.message for error in validator().iter_errors(data)] == [], path.name
        load_plan(path)


def test_a_header_is_needed() -> None:
    for key in ("version", "name", "vcenter"):
        data = {"version": 1, "name": "p", "vcenter": "prod"}
        del data[key]
        assert not validator().is_valid(data)


def test_every_key_is_described_and_every_vm_key_tells_when_it_takes_effect() -> None:
    undescribed = [
        f"{where}.{name}"
        for where, definition in {"": schema(), **schema()["$defs"]}.items()
        for name, rule in definition.get("properties", {}).items()
        if "description" not in rule
    ]
    assert undescribed == []
    vm_keys: dict[str, Any] = schema()["$defs"]["VmKeys"]["properties"]
    assert set(vm_keys) == set(VmKeys.model_fields)
    assert [name for name, rule in vm_keys.items() if "x-takes-effect" not in rule] == []


@pytest.mark.parametrize("name", [*HOST_MODELS, *GUEST_MODELS])
def test_every_key_of_hosts_and_guests_tells_when_it_takes_effect(name: str) -> None:
    rules: dict[str, Any] = schema()["$defs"][name]["properties"]
    selecting = {"match", "gpus", "nics", "vmknics"}
    """They say which devices are meant; the keys below them say when."""
    assert {key for key, rule in rules.items() if "x-takes-effect" not in rule} <= selecting


def models_below(*names: str) -> set[str]:
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        found.add(name)
        rules = json.dumps(schema()["$defs"][name])
        waiting += set(re.findall(r"#/\$defs/(\w+)", rules)) - found - set(waiting)
    return found - {"Templated", "SecretUse", "GpuMatch", "NicMatch"}


def test_every_model_of_hosts_and_guests_is_looked_at() -> None:
    assert models_below("HostEntry") == set(HOST_MODELS)
    assert models_below("GuestEntry", "TrainingEntry", "SiteEntry") == set(GUEST_MODELS)


def test_the_reference_page_names_every_key() -> None:
    page = (ROOT / "docs" / "reference" / "plan-file.md").read_text(encoding="utf-8")
    of_hosts = {
        key for name in [*HOST_MODELS, *GUEST_MODELS] for key in schema()["$defs"][name]["properties"]
    }
    named = set(VmKeys.model_fields) | set(schema()["properties"]) | of_hosts | {"except"}
    assert [key for key in sorted(named) if f"`{key}`" not in page] == []


@pytest.mark.parametrize("name", ["VmKeys", "NetworkEntry", "SwitchEntry", *HOST_MODELS, *GUEST_MODELS])
def test_the_reference_page_tells_when_each_key_takes_effect_and_its_default(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "plan-file.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| `")
    ]
    for key, rule in schema()["$defs"][name]["properties"].items():
        effects = {row[2] for row in rows if f"`{key}`" in row[1].split(", ")}
        assert rule.get("x-takes-effect", "") in effects, key
        defaults = {row[3].replace("`", "") for row in rows if row[1] == f"`{key}`" and len(row) > 4}
        needed = "needed" if key in schema()["$defs"][name].get("required", []) else ""
        assert name == "VmKeys" or rule.get("x-default", needed) in defaults, key
