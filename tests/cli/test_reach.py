"""Two datacenters in which all has the same names: a run writes in the one that it names, and only there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.properties.shown_and_run.test_random_plans import touched_beyond

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command_line import CommandLine

ESTATE = "two.yaml"
SERVER = f"--server=lab:{ESTATE}"


def _datacenter(name: str, host: str) -> dict[str, Any]:
    hosts = [{"name": host, "gpus": [{"board": "A100", "pci_id": "0000:21:00.0"}], "graphics_type": "shared"}]
    return {
        "datacenter": name,
        "clusters": [{"name": "gpu", "hosts": hosts}],
        "folders": ["training"],
        "templates": [{"name": "ubuntu", "hardware_version": 21, "cpus": 4, "memory": "8GiB"}],
    }


def _begin(vgpu_cfg: CommandLine, datacenter: str | None) -> Path:
    second = _datacenter("dc2", "esx-2.lab") | {"vms": [{"name": "a", "folder": "training"}]}
    estate = _datacenter("dc1", "esx-1.lab") | {"about": "two datacenters", "beside": [second]}
    vgpu_cfg.write(ESTATE, json.dumps(estate))
    vm = {"name": "a", "template": "ubuntu", "cluster": "gpu", "folder": "training", "gpus": "grid_a100-10c"}
    plan = {
        "version": 1,
        "name": "demo",
        "vcenter": {"server": f"lab:{ESTATE}"} | ({"datacenter": datacenter} if datacenter else {}),
        "hosts": [
            {
                "names": ["esx-*"],
                "graphics_type": "sharedDirect",
                "disruption": {"allow": ["maintenance"]},
            }
        ],
        "vms": [vm | {"cpus": 2, "memory": "8GiB", "numa": "off"}],
    }
    return vgpu_cfg.write("plan.yaml", json.dumps(plan))


def test_a_plan_writes_in_its_datacenter_only(vgpu_cfg: CommandLine) -> None:
    plan = _begin(vgpu_cfg, "dc1")
    vgpu_cfg.done("apply", plan, "--yes")
    assert touched_beyond(vgpu_cfg.lab(ESTATE).state) == []
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    vgpu_cfg.done("destroy", plan, "--yes")
    assert touched_beyond(vgpu_cfg.lab(ESTATE).state) == []


def test_a_plan_without_its_datacenter_is_refused(vgpu_cfg: CommandLine) -> None:
    refused = vgpu_cfg("apply", _begin(vgpu_cfg, None), "--yes")
    assert (refused.code, "VG428" in refused.told) == (4, True)


def test_a_cordon_keeps_to_the_datacenter_that_is_named(vgpu_cfg: CommandLine) -> None:
    _begin(vgpu_cfg, "dc1")
    said = ["--datacenter", "dc1", "--reason", "new DIMM", SERVER]
    refused = vgpu_cfg("cordon", "host:esx-*", *said)
    assert (refused.code, touched_beyond(vgpu_cfg.lab(ESTATE).state)) == (4, [])
    assert "esx-2.lab: the host is not in datacenter dc1" in refused.told.replace("\n", " ")
    vgpu_cfg.done("cordon", "host:esx-1*", *said)


def test_status_has_a_word_of_its_own_for_hosts_that_are_cordoned_or_silent(vgpu_cfg: CommandLine) -> None:
    plan = _begin(vgpu_cfg, "dc1")
    vgpu_cfg.done("apply", plan, "--yes")
    assert "1 host, 1 VM, in sync" in vgpu_cfg.done("status", plan).out
    vgpu_cfg.done("cordon", "host:esx-1.lab", "--reason", "new DIMM", SERVER)
    cordoned = vgpu_cfg.done("status", plan).out
    assert "in sync; 1 host cordoned" in cordoned
    assert "! cordoned: new DIMM" in cordoned
    assert vgpu_cfg("status", plan, "--exit-code").code == 0
    vgpu_cfg.done("lab", "hand", ESTATE, "esx-1.lab", "--cut-off")
    found = json.loads(vgpu_cfg.done("status", plan, "--output", "json").out)
    assert [row["state"] for row in found["hosts"]] == ["does not respond"]
    assert "1 host does not respond" in vgpu_cfg.done("status", plan).out
    assert vgpu_cfg("status", plan, "--exit-code").code == 10
