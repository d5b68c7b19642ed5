"""What an export says of devices that VMs can have, which VMs it means, and what it tells besides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.documents import parse_text
from vgpu_cfg.errors import Ambiguous, NotFound
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.vm import (
    DiskController,
    PassthroughDevice,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
)
from vgpu_cfg.planning.exporting.export import Asked, export, options_without_key
from vgpu_cfg.planning.exporting.lines import Content, written
from vgpu_cfg.planning.exporting.selection import Choice
from vgpu_cfg.planning.exporting.vm_keys import disks_of, gpus_of, nics_of

A100 = "grid_a100d-80c"
GPUS = [{"board": "A100", "pci": "0000:21:00.0"}, {"board": "A100", "pci": "0000:e2:00.0", "node": 1}]
ON = ["0000:21:00.0"]
ESTATE: dict[str, Any] = {
    "hosts": {"esx-01": {"gpus": GPUS}, "esx-02": {"gpus": GPUS}},
    "folders": ["students/ml26"],
    "vms": {
        "train-1": {"host": "esx-01", "gpus": ["grid_a100-20c"], "on": ON, "memory_gib": 64},
        "train-2": {"host": "esx-01", "gpus": ["grid_a100-20c"], "on": ON, "memory_gib": 64},
        "stu-1": {"host": "esx-02", "gpus": ["grid_a100-20c"], "on": ON, "folder": "students/ml26"},
        "mail": {"host": "esx-02"},
    },
}


def file_of(choice: Choice | None = None, observed: Inventory | None = None, **asked: Any) -> dict[str, Any]:
    found = export(observed or estate(), load_catalog(), Asked(choice or Choice(), "vc.example", **asked))
    return parse_text(found.text, "export").data


def estate(**more: Any) -> Inventory:
    return make_inventory(ESTATE | more)


def names_in(data: dict[str, Any]) -> list[str]:
    return [line["name"] for line in data.get("vms", [])]


def test_where_a_drain_took_a_vm_from_is_no_wish() -> None:
    kept = {"owner": "anna", "vgpu_cfg.home": '{"host":"host-esx-01"}'}
    train = {"host": "esx-01", "gpus": ["grid_a100-20c"], "on": ON, "attributes": kept}
    observed = estate(vms={"train-1": train})
    assert [line["attributes"] for line in file_of(observed=observed)["vms"]] == [{"owner": "anna"}]


def test_braces_in_what_somebody_typed_stop_no_export_and_count_nothing() -> None:
    typed = {"owner": "anna", "rack": "r{1..3}", "use": "${HOME}", "seat {n}": "x"}
    train = {"host": "esx-01", "gpus": ["grid_a100-20c"], "on": ON, "attributes": typed}
    observed = estate(vms={"train-1": train})
    (line,) = file_of(observed=observed)["vms"]
    assert line["attributes"] == {"owner": "anna"}
    text = export(observed, load_catalog(), Asked(Choice(), "vc.example")).text
    assert "train-1: the attributes rack, seat {n}, use: their braces" in text


@pytest.mark.parametrize("sign", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_name_in_a_comment_adds_no_line_to_the_file(sign: str) -> None:
    text = written(Content({"version": 1}, left_out=[f"a{sign}vms: [] # {{}}: no VM of this name"]))
    assert parse_text(text, "export").data == {"version": 1}


# ------------------------------------------------------------------ devices


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (VmDetail(vgpus=(VgpuDevice(key=13000, profile=A100),)), A100),
        (
            VmDetail(vgpus=tuple(VgpuDevice(key=13000 + n, profile=A100) for n in range(2))),
            [{"profile": A100, "count": 2}],
        ),
        (
            VmDetail(
                vgpus=(VgpuDevice(key=13001, profile=A100),),
                extra_config={"pciPassthru1.cfg.enable_uvm": "1"},
            ),
            [{"profile": A100, "uvm": True}],
        ),
        (
            VmDetail(
                vgpus=tuple(VgpuDevice(key=13000 + n, profile=A100, group_key=n // 2) for n in range(4)),
                device_groups={0: "Nvidia:2@a", 1: "Nvidia:2@a"},
            ),
            [{"profile": A100, "count": 2, "nvlink": True}] * 2,
        ),
        (VmDetail(passthrough=(PassthroughDevice(key=1, pci_id="0000:21:00.0"),)), [{"pin": "0000:21:00.0"}]),
        (
            VmDetail(
                passthrough=tuple(
                    PassthroughDevice(key=n, label="big", allowed=((1, 2), (1, 3))) for n in (1, 2)
                )
            ),
            [{"device": {"label": "big"}, "count": 2}],
        ),
        (
            VmDetail(passthrough=(PassthroughDevice(key=1, allowed=((0x10DE, 0x20F1),)),)),
            [{"device": {"device_id": "10de:20f1"}}],
        ),
        (
            VmDetail(passthrough=(PassthroughDevice(key=1, allowed=((1, 2), (1, 3))),)),
            [{"device": {"model": "A100"}}],
        ),
        (VmDetail(), None),
    ],
)
def test_gpus_are_said_as_a_plan_file_asks_for_them(detail: VmDetail, said: object) -> None:
    assert gpus_of(detail, {(1, 2): ("A100", "A100 PCIe"), (1, 3): ("A100",)}).value == said


@pytest.mark.parametrize(
    "detail",
    [
        VmDetail(vgpus=(VgpuDevice(key=1, profile="what"),)),
        VmDetail(passthrough=(PassthroughDevice(key=1, allowed=((8, 8), (8, 9))),)),
        VmDetail(vgpus=(VgpuDevice(key=1, profile=A100, group_key=1),), device_groups={1: "odd"}),
    ],
)
def test_gpus_without_words_are_left_out_whole_and_told(detail: VmDetail) -> None:
    both = detail.model_copy(update={"vgpus": (*detail.vgpus, VgpuDevice(key=2, profile=A100))})
    said = gpus_of(both, {})
    assert said.value is None
    assert said.left_out


def test_a_nic_is_said_with_a_mac_that_somebody_chose() -> None:
    networks = {"network-1": "vm-network"}

    def said(*nics: VirtualNic, shared: tuple[str, ...] = ()) -> object:
        return nics_of(VmDetail(nics=nics), networks, shared).value

    made = VirtualNic(key=1, kind="vmxnet3", network="network-1", mac="00:50:56:9a:01:02")
    chosen = made.model_copy(update={"mac": "00:50:56:01:01:02"})
    assert said(made) == "vm-network"
    assert said(made, made) == [{"network": "vm-network", "count": 2}]
    assert said(chosen) == [{"network": "vm-network", "mac": "00:50:56:01:01:02"}]
    assert said(chosen, shared=(chosen.mac,)) == "vm-network"
    sriov = VirtualNic(key=1, kind="sriov", network="network-1", function="0000:24:00.0")
    assert said(sriov) == [{"network": "vm-network", "type": "sriov", "pin": "0000:24:00.0"}]
    assert said(VirtualNic(key=1, kind="e1000", network="network-1"), made) is None
    assert said(made.model_copy(update={"network": "gone"})) is None
    assert said() == []


def test_disks_are_told_from_the_template_s() -> None:
    kinds = (DiskController(key=1000, kind="scsi"), DiskController(key=31000, kind="nvme"))
    disks = tuple(
        VirtualDisk(key=key, capacity_mib=size << 10, controller_key=on)
        for key, size, on in ((2000, 200, 1000), (2001, 50, 1000), (3000, 1024, 31000))
    )
    detail = VmDetail(disks=disks, controllers=kinds)
    template = VmDetail(disks=(disks[0].model_copy(update={"capacity_mib": 64 << 10}), disks[1]))
    new = {"size": "1TiB", "controller": "nvme"}
    assert disks_of(detail, None).value == [{"grow": "200GiB"}, {"size": "50GiB"}, new]
    assert disks_of(detail, template).value == [{"grow": "200GiB"}, new]
    assert disks_of(VmDetail(disks=template.disks), template).value is None


def test_options_are_told_by_name_and_those_of_guests_not_even_so() -> None:
    detail = VmDetail(
        extra_config={"numa.vcpu.preferHT": "TRUE", "vgpu_cfg.vm": "a", "pciPassthru.use64bitMMIO": "TRUE"},
        option_names=("guestinfo.secret", "guestinfo.other", "svga.present", "pciPassthru0.present"),
    )
    found = list(options_without_key(Vm(moid="vm-1", name="a", detail=detail)))
    assert found == ["numa.vcpu.preferHT", "svga.present", "guestinfo.*"]


# ---------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(), ["stu-1", "train-{1..2}"]),
        (Choice(hosts=("esx-01",)), ["train-{1..2}"]),
        (Choice(clusters=("gpu",), vms=("*-1",)), ["stu-1", "train-1"]),
        (Choice(folders=("students",)), ["stu-1"]),
        (Choice(folders=("students/ml26",)), ["stu-1"]),
        (Choice(vms=("MAIL",)), ["mail"]),
    ],
)
def test_these_are_meant(choice: Choice, names: list[str]) -> None:
    assert names_in(file_of(choice)) == names


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(vms=("trian-1",)), ("no VMs match trian-1", "did you mean 'train-1'?")),
        (Choice(folders=("student",)), ("no folders match student", "did you mean 'students'?")),
        (Choice(clusters=("gpus",)), ("no clusters match gpus", "did you mean 'gpu'?")),
        (Choice(hosts=("esx-1",)), ("no hosts match esx-1", "did you mean 'esx-01'?")),
        (Choice(hosts=("esx-01",), vms=("mail",)), ("no VM matches all globs", "omit one of")),
    ],
)
def test_a_glob_that_matches_nothing_is_refused(choice: Choice, words: tuple[str, str]) -> None:
    with pytest.raises(NotFound) as refused:
        file_of(choice)
    assert refused.value.message == words[0]
    assert words[1] in refused.value.remedy


def test_a_template_that_is_not_there_is_refused() -> None:
    assert file_of(template="ubuntu")["defaults"]["template"] == "ubuntu"
    with pytest.raises(NotFound, match="template 'ubunto' not found"):
        file_of(template="ubunto")


def test_one_of_several_datacenters_must_be_named() -> None:
    more = (*estate().datacenters, ManagedObject(moid="dc-2", name="dc2", inventory_path="/dc2"))
    observed = estate().model_copy(update={"datacenters": more})
    with pytest.raises(Ambiguous, match="2 datacenters"):
        file_of(observed=observed)
    assert file_of(observed=observed, datacenter="dc1")["vcenter"] == {
        "server": "vc.example",
        "datacenter": "dc1",
    }


# ------------------------------------------------------------------ the file


def test_what_vms_have_in_common_is_a_line_and_what_lines_have_is_a_default() -> None:
    data = file_of()
    assert {"cluster": "gpu", "datastore": "vsan", "gpus": "grid_a100-20c"}.items() <= data[
        "defaults"
    ].items()
    assert data["vms"][1] == {"name": "train-{1..2}", "folder": "training"}


def test_it_is_named_after_the_one_plan_whose_the_vms_are() -> None:
    assert file_of()["name"] == "exported"
    assert file_of(name="mine")["name"] == "mine"
    vms = {name: {**row, "mark": name.startswith("train")} for name, row in ESTATE["vms"].items()}
    own = file_of(observed=estate(vms=vms))
    assert own["name"] == "demo"
    assert "id" in own


def test_other_plans_are_named_whose_vms_the_file_would_take() -> None:
    vms = {name: {**row, "mark": name.startswith("train")} for name, row in ESTATE["vms"].items()}
    asked = Asked(Choice(), "vc.example")
    assert export(estate(vms=vms), load_catalog(), asked).others == ()
    vms["stu-1"]["mark"] = "other/stu-1"
    assert export(estate(vms=vms), load_catalog(), asked).others == ("demo", "other")


def test_vms_that_somebody_s_rule_keeps_apart_are_spread_and_no_rule_is_added() -> None:
    rule = {"name": "of-the-team", "vms": ["train-1", "train-2"], "must": False}
    observed = estate(clusters={"gpu": {"rules": [rule]}})
    found = export(observed, load_catalog(), Asked(Choice(vms=("train-*",)), "vc.example"))
    (line,) = parse_text(found.text, "export").data["vms"]
    assert line["place"] == {"spread": "hosts", "must": False}
    assert "of-the-team" not in found.text
