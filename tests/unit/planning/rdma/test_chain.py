"""The ATS chain, link by link: what is read, what the plan brings, what nobody can tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.planning.desired_plans import plan_for, planned, vm
from tests.unit.planning.hosts.plans import GPU, NIC, estate, host
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change, ChangeHost, ManualStep, RebootHost
from vgpu_cfg.changes.kinds.change_host import OptionWrite
from vgpu_cfg.changes.values import HostRef, SettingTarget, Subject
from vgpu_cfg.model.guests.guest import REPORT_KEY
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.rdma.chain import ChainLink, Placed, ats_chain
from vgpu_cfg.planning.vms.settings.extra_config_rows import P2P_KEYS

PCI, GPU_ID = "0000:24:00.0", "0000:21:00.0"
SET = dict.fromkeys(P2P_KEYS, "TRUE")
ON = {"ATS_ENABLED": "True"}
OUT = {"pci": PCI, "node": 0, "passthrough": True}
KERNEL_WAITS = {"configured": "TRUE", "runtime": "FALSE"}
HALF = SET | {P2P_KEYS[0]: "FALSE"}
WAITS = {"ATS_ENABLED": {"default": "False", "current": "False", "next_boot": "True"}}


def report(state: str, why: str = "") -> dict[str, str]:
    module = {"name": "nic-firmware", "state": state, "why": why}
    return {REPORT_KEY: json.dumps({"state": "hand", "modules": [module]})}


def chain(
    nic: dict[str, Any],
    *changes: Change,
    extra: dict[str, str] | None = None,
    gpus: tuple[str, ...] = (GPU_ID,),
    **row: Any,
) -> dict[str, ChainLink]:
    observed = estate(host(**({"nics": [nic]} | row)))
    one = observed.hosts[0]
    view = HostView(host=one, facts=observed.facts.hosts[one.moid])
    placed = Placed("a", PCI, gpus, SET if extra is None else extra)
    links = ats_chain(placed, view, Topologies(observed, load_catalog()).of(one), changes)
    return {link.link: link for link in links}


def states(found: dict[str, ChainLink]) -> list[str]:
    return [link.state.value for link in found.values()]


def write(setting: str, value: str, device: str = "") -> ChangeHost:
    ref = HostRef(name="esx-01", moid="host-esx-01")
    return ChangeHost(
        id=f"set {setting}",
        subject=Subject(kind="host", name="esx-01"),
        host=ref,
        host_moid=ref.moid,
        write=OptionWrite(options={}),
        settings=(SettingTarget(setting=setting, device=device, value=value),),
    )


def reboot(moid: str = "host-esx-01") -> RebootHost:
    ref = HostRef(name="esx-01", moid=moid)
    return RebootHost(id="reboot", subject=Subject(kind="host", name="esx-01"), host=ref, host_moid=moid)


FIRMWARE = write("nic_firmware", "True", f"{PCI} ATS_ENABLED")


@pytest.mark.parametrize(
    ("nic", "changes", "more", "expected"),
    [
        (NIC | {"firmware": ON}, (), {}, ["on", "on", "on", "on", "on"]),
        (NIC, (), {}, ["on", "on", "off", "unknown", "on"]),
        (NIC | {"firmware": WAITS}, (), {}, ["on", "on", "pending", "pending", "on"]),
        (NIC | {"firmware": WAITS}, (reboot(),), {}, ["on", "on", "pending", "set_by_plan", "on"]),
        (NIC, (FIRMWARE, reboot()), {}, ["on", "on", "set_by_plan", "set_by_plan", "on"]),
        (NIC, (FIRMWARE, reboot("host-esx-02")), {}, ["on", "on", "set_by_plan", "pending", "on"]),
        (NIC | {"firmware": ON}, (), {"version": "7.0.2"}, ["off", "on", "on", "unknown", "on"]),
        (
            NIC | {"firmware": ON},
            (write("ats", "TRUE"), reboot()),
            {"version": "7.0.2"},
            ["set_by_plan", "on", "on", "set_by_plan", "on"],
        ),
        (
            NIC | {"firmware": ON},
            (),
            {
                "version": "7.0.2",
                "facts": {"kernel": {"atsSupport": {"configured": "TRUE", "runtime": "FALSE"}}},
            },
            ["pending", "on", "on", "pending", "on"],
        ),
        (NIC | {"firmware": ON}, (), {"extra": {}}, ["on", "off", "on", "on", "on"]),
        (
            NIC | {"firmware": ON},
            (),
            {"extra": HALF},
            ["on", "off", "on", "on", "on"],
        ),
        (OUT, (), {}, ["on", "on", "unknown", "unknown", "on"]),
        (OUT, (), {"extra": SET | report("present")}, ["on", "on", "on", "on", "on"]),
        (OUT, (), {"extra": SET | report("hand")}, ["on", "on", "pending", "pending", "on"]),
        (OUT, (reboot(),), {"extra": SET | report("hand")}, ["on", "on", "pending", "pending", "on"]),
        (OUT, (), {"extra": SET | report("done")}, ["on", "on", "on", "on", "on"]),
        (OUT, (), {"extra": SET | report("failed")}, ["on", "on", "off", "unknown", "on"]),
        (OUT, (), {"extra": SET | {REPORT_KEY: "nonsense"}}, ["on", "on", "unknown", "unknown", "on"]),
        (NIC, (), {"facts": {"shell": False}}, ["on", "on", "unknown", "unknown", "on"]),
        (NIC | {"firmware": ON, "node": 1}, (), {}, ["on", "on", "on", "on", "off"]),
        (NIC | {"firmware": ON}, (), {"gpus": ()}, ["on", "on", "on", "on", "unknown"]),
    ],
)
def test_the_state_of_each_link(
    nic: dict[str, Any], changes: tuple[Change, ...], more: dict[str, Any], expected: list[str]
) -> None:
    assert states(chain(nic, *changes, **more)) == expected


@pytest.mark.parametrize(
    ("bridge", "state", "words"),
    [
        ("0000:20:01.0", "on", "the GPU and NIC share a root complex"),
        (
            "0000:23:01.0",
            "unknown",
            "the GPU and NIC are on the same NUMA node, but on different root complexes",
        ),
    ],
)
def test_different_root_complexes_of_one_node_are_left_to_verify(bridge: str, state: str, words: str) -> None:
    """Servers with a root complex for each slot have no pair of one; the guide asks for one node."""
    nic, gpu = NIC | {"firmware": ON, "bridge": bridge}, GPU | {"bridge": "0000:20:01.0"}
    bridges = {"0000:20:01.0": None, "0000:23:01.0": None}
    observed = estate(host(nics=[nic], gpus=[gpu], bridges=bridges))
    topology = Topologies(observed, load_catalog()).of(observed.hosts[0])
    view = HostView(host=observed.hosts[0], facts=observed.facts.hosts["host-esx-01"])
    path = ats_chain(Placed("a", PCI, (GPU_ID,), SET), view, topology, ())[-1]
    assert (path.state.value, path.text) == (state, words)


def test_what_lacks_says_what_brings_it() -> None:
    found = chain(NIC, extra={}, version="7.0.2")
    assert found["kernel"].remedy == "set `ats: true` under `hosts`"
    assert found["vm options"].text == f"the VM does not have {P2P_KEYS[0]}, {P2P_KEYS[1]}"
    assert "ATS_ENABLED: true" in found["nic firmware"].remedy


# ------------------------------------------------------- as a plan tells it


def rdma(**more: Any) -> Any:
    nic = {"network": "roce", "function": {"kind": "passthrough", "near_gpu": True}, "rdma": "gpudirect"}
    return vm("a", "grid_a100-40c", nics=(nic,), stated=("nics",), **more)


def running(**extra: str) -> dict[str, Any]:
    return {
        "mark": True,
        "gpus": ["grid_a100-40c"],
        "on": [GPU_ID],
        "passthrough": [{"pci": PCI, "nic": True}],
        "extra_config": {"numa.nodeAffinity": "0"} | extra,
    }


def test_a_vm_without_the_options_gets_them_and_one_that_has_them_is_left_alone() -> None:
    desired = plan_for(rdma())
    lacking = planned(desired, estate(host(nics=[OUT]), vms={"a": running()}), allow_power_cycle=True)
    (change,) = (one for one in lacking.changes if one.kind == "reconfigure_vm")
    assert dict(change.spec.extra_config) == SET
    assert all(edit.is_default for edit in change.edits)
    assert not planned(desired, estate(host(nics=[OUT]), vms={"a": running(**SET)})).changes
    shouted = {key.upper(): "true" for key in P2P_KEYS}
    assert not planned(desired, estate(host(nics=[OUT]), vms={"a": running(**shouted)})).changes


@pytest.mark.parametrize(("value", "found"), [("FALSE", ["VG208"]), ("TRUE", []), ("true", [])])
def test_options_that_the_plan_file_states_must_not_break_the_chain(value: str, found: list[str]) -> None:
    desired = plan_for(rdma(extra_config={"pciPassthru.allowP2P": value}))
    codes = [one.code for one in planned(desired, estate(host(nics=[OUT]))).errors]
    assert codes == found


def test_a_restart_for_the_guest_is_asked_of_a_hand_until_it_gave_its_word() -> None:
    there = running(**SET, **report("hand"))
    step = "restart esx-01 for ATS"

    def asked(**facts: Any) -> list[Change]:
        return list(
            planned(plan_for(rdma()), estate(host(nics=[OUT], facts=facts), vms={"a": there})).changes
        )

    (found,) = asked()
    assert isinstance(found, ManualStep)
    assert (found.id, found.needs_acknowledgement) == (step, True)
    assert "the guest in a has set ats_enabled" in found.text.casefold()
    assert not asked(done={step: "digest"})


@pytest.mark.parametrize(
    ("function", "must"),
    [
        ({"kind": "passthrough", "near_gpu": True}, True),
        ({"kind": "sriov", "near_gpu": True}, True),
        ({"kind": "passthrough", "near_gpu": False}, False),
    ],
    ids=["passed through", "virtual function", "near: any"],
)
def test_a_nic_for_gpudirect_must_be_near_the_gpu(function: dict[str, Any], must: bool) -> None:
    nic = {"network": "vm-network", "function": function, "rdma": "gpudirect"}
    far = {
        "pci": PCI,
        "node": 1,
        "passthrough": function["kind"] == "passthrough",
        "functions": 2,
        "vmnic": "vmnic2",
    }
    desired = plan_for(vm("a", "grid_a100-40c", nics=(nic,), stated=("nics",)))
    found = [one.code for one in planned(desired, estate(host(nics=[far]))).errors]
    assert found == (["VG409"] if must else [])
    without = nic | {"rdma": "host"}
    desired = plan_for(vm("a", "grid_a100-40c", nics=(without,), stated=("nics",)))
    assert not planned(desired, estate(host(nics=[far]))).errors, "only wished"
