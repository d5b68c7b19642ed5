"""`doctor --evidence`: what is sent has the verdicts and nothing of the site, whatever is planted there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import Watch, watch_labs
from vgpu_cfg.lab.state.inventory import Gpu, LabState, VirtualMachine
from vgpu_cfg.plan_loading.side_files import read_verdicts, verdicts_text
from vgpu_cfg.vsphere.wire import leaves

SERVER = ("--server", "lab:mixed-fleet")
OUT = Path("evidence")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def test_it_gives_the_verdicts_of_the_vcenter_and_writes_nothing_there(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    ran = vgpu_cfg.done("doctor", *SERVER, "--output", "json", "--evidence", OUT)
    live = {one["id"]: one["verdict"] for one in json.loads(ran.out)["beliefs"]}
    sent = read_verdicts(OUT / "verdicts.yaml")
    assert {key: row.verdict.value for key, row in sent.beliefs.items()} == live
    assert "changes the verdict" not in ran.told
    assert not watch.writes


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_verdicts_of_trials_go_along_without_their_objects(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("doctor", *SERVER, "--save", "site.yaml")
    kept = read_verdicts(Path("site.yaml"))
    row = next(iter(kept.beliefs.values())).model_copy(update={"by": "vm", "seen": "payroll-07"})
    more = kept.model_copy(update={"beliefs": {**kept.beliefs, "alarm-time-moves": row}})
    vgpu_cfg.write("site.yaml", verdicts_text(more))
    vgpu_cfg.done("doctor", *SERVER, "--save", "site.yaml", "--evidence", OUT)
    text = (OUT / "verdicts.yaml").read_text(encoding="utf-8")
    assert read_verdicts(OUT / "verdicts.yaml").beliefs["alarm-time-moves"].by == "vm"
    assert "payroll" not in text


def test_a_recording_cannot_be_recorded(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "site.json", *SERVER)
    ran = vgpu_cfg("doctor", "--from", "site.json", "--evidence", OUT)
    assert ran.code == 2
    assert not OUT.exists()


def test_a_recording_that_cannot_be_replayed_is_reported(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "api_words", frozenset)
    ran = vgpu_cfg("doctor", *SERVER, "--save", "site.yaml", "--evidence", OUT)
    assert ran.code == 5
    assert "the recording without names cannot be replayed: " in ran.told
    assert Path("site.yaml").exists()


STRUCTURE = {
    *("moid", "parent", "host", "datastore", "resource_pool", "owner", "switch", "vm", "uplink_portgroup"),
    *("datastore_folder", "host_folder", "network_folder", "vm_folder", "pci_id", "parent_bridge", "device"),
    *(
        "rdma_device",
        "uplink_of",
        "distributed",
        "portgroup",
        "root",
        "estate",
        "board",
        "profile",
        "service",
    ),
    *(
        "kind",
        "power_state",
        "connection",
        "drs_behavior",
        "graphics_type",
        "vgpu_mode",
        "guest_id",
        "policy",
    ),
    *("configured_vgpu_mode", "assignment_policy", "configured_assignment_policy", "binding", "at_boot"),
    *("configured_default_graphics_type", "firmware", "latency_sensitivity", "lockdown", "configured", "os"),
    *("runtime", "current", "next_boot", "default", "phase", "ofed", "datasource", "cloud_state", "netmask"),
    *("driver", "vendor_name", "device_name", "vendor", "model", "version", "build", "api_version", "update"),
    *("kernel", "cpu_model", "shell", "home_policy", "change_version"),
}
"""Fields that other fields refer to, words of the API, and products: what remains is attacked."""
REACHED = {
    *("AdvancedOption.value", "Cluster.name", "Datacenter.name", "Datastore.name", "DistributedSwitch.name"),
    *("DistributedSwitch.uuid", "FirewallRuleset.label", "Folder.name", "Guest.host_name", "Host.name"),
    *("Host.system_id", "HostService.label", "KernelSetting.description", "Network.name", "Nic.mac"),
    *("Passthrough.label", "ResourcePool.name", "StandardSwitch.name", "VirtualMachine.instance_uuid"),
    *("VirtualMachine.name", "Vmknic.ip", "Vmknic.mac", "extraConfig", "key"),
}
"""The attacked fields that an ordinary recording contains."""
SHAPES = {
    "mac": "b8:ce:f6:{0:02x}:{1:02x}:5a",
    "ip": "10.47.{0}.{1}",
    "uuid": "4d9f1c3a-77b1-4b6e-{0:04x}-{1:012x}",
    "instance_uuid": "5d9f1c3a-77b1-4b6e-{0:04x}-{1:012x}",
    "system_id": "6d9f1c3a-77b1-4b6e-{0:04x}-{1:012x}",
}


def objects_in(value: Any) -> Iterator[Any]:
    """Yield every dataclass instance of a state, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from objects_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in fields(value):
            yield from objects_in(getattr(value, field.name, None))


def plant(state: LabState) -> dict[str, str]:
    """Write a secret into every text that describes something; return the field of each."""
    secrets: dict[str, str] = {}
    for thing in list(objects_in(state)):
        for field in fields(thing):
            value = getattr(thing, field.name, None)
            if not isinstance(value, str) or field.name in STRUCTURE or isinstance(thing, Gpu):
                continue
            number = len(secrets)
            shape = SHAPES.get(field.name, "payroll{0}x{1}.acme.example")
            secret = shape.format(number // 250, number % 250)
            try:
                setattr(thing, field.name, secret)
            except AttributeError:  # a frozen value
                continue
            secrets[secret] = f"{type(thing).__name__}.{field.name}"
    return secrets


def test_nothing_that_is_planted_in_an_estate_is_sent(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab("mixed-fleet")
    with lab.transaction():
        secrets = plant(lab.state)
        for number, vm in enumerate(lab.state.all(VirtualMachine)):
            key, value = f"guestinfo.site{number}", f"Tr0ub4dor-{number}-x"
            vm.extra_config |= {key: value, f"site.acme{number}": f"hunter2-{number}-y"}
            secrets |= {value: "extraConfig", f"hunter2-{number}-y": "extraConfig", f"acme{number}": "key"}
        lab.state.touch(*lab.state.objects.values())
    vgpu_cfg.done("inventory", "--record", "plain.json", *SERVER)
    plain = Path("plain.json").read_text(encoding="utf-8")
    reached = {where for secret, where in secrets.items() if secret in plain}
    assert reached >= REACHED
    vgpu_cfg.done("doctor", *SERVER, "--evidence", OUT)
    sent = (OUT / "verdicts.yaml").read_text(encoding="utf-8")
    sent += gzip.decompress((OUT / "recording.json.gz").read_bytes()).decode()
    assert {where for secret, where in secrets.items() if secret in sent} == set()
    assert [word for word in ("acme", "payroll", "esx-", "lab:", "10.0.") if word in sent] == []
    assert lab.state.instance_uuid not in sent
