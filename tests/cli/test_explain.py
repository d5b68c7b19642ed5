"""`explain`: what a code, a text or a VM's failure means; it writes nothing, whomever the VM belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from tests.plans.estate import make_inventory
from tests.unit.lab.rig import gpu_spec
from tests.unit.lab.wire.client import connect, one
from vgpu_cfg.cli.commands.explain import datacenter_path_of, find_vm
from vgpu_cfg.errors import Ambiguous, NotFound
from vgpu_cfg.knowledge import check_pages
from vgpu_cfg.lab.vcenter import Lab

PAGES = "PCIPassthru: total number of pages needed (4206594) exceeds limit (917504), failing"
GENERAL = "Module 'DevicePowerOn' power on failed."
ESTATE = "one-a100"
SERVER = ["--server", f"lab:{ESTATE}"]
PAIR = "two-a100"
PAIR_SERVER = ["--server", f"lab:{PAIR}"]


# ---------------------------------------------------------------- codes


def test_a_code_shows_its_page(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("explain", "vg301")
    assert done.out.startswith("VG301  the host cannot reserve the required memory")
    assert "error, recalled" in done.out.splitlines()[0]
    for heading in ("How to fix it", "What it means", "How to be sure", "Why"):
        assert heading in done.out.splitlines()
    assert "govc host.info -host esx-01.example.com" in done.out
    assert "```" not in done.out
    assert all(len(line) <= 120 for line in done.out.splitlines())


def test_several_codes_show_several_pages(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("explain", "VG301", "VG104")
    assert "VG301  " in done.out
    assert "\n\nVG104  " in done.out


def test_a_code_as_json_is_divided_as_its_page_is(vgpu_cfg: CommandLine) -> None:
    document = json.loads(vgpu_cfg.done("explain", "VG301", "--output", "json").out)
    assert (document["kind"], document["format"]) == ("explain", 1)
    (check,) = document["checks"]
    assert (check["code"], check["severity"], check["basis"]) == ("VG301", "error", "recalled")
    assert check["title"] == "the host cannot reserve the required memory"
    assert [section["heading"] for section in check["sections"]][:2] == ["How to fix it", "What it means"]
    assert all(section["text"] for section in check["sections"])


def test_a_text_of_nothing_is_a_typing_error(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("explain", " ")
    assert ran.code == 2
    assert "no text to explain" in ran.told


def test_an_unknown_code_offers_one_that_is_near(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("explain", "VG30l")
    assert ran.code == 5
    assert "unknown check code VG30L" in ran.err
    assert "did you mean 'VG" in ran.err


def test_a_code_without_a_page_says_so(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(check_pages, "page_folder", lambda: tmp_path)
    ran = vgpu_cfg("explain", "VG301")
    assert ran.code == 5
    assert "VG301 (the host cannot reserve the required memory) is not documented" in ran.told


# ---------------------------------------------------------------- texts


def test_a_text_from_vcenter_is_explained(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("explain", f"Power On virtual machine: {PAGES}")
    assert done.out.startswith("mmio-too-small")
    for label in ("cause", "verify", "remedy", "basis", "source"):
        assert f"\n  {label} " in done.out
    assert "documented by a vendor" in done.out
    assert "\n  line " not in done.out


def test_words_without_quotes_are_one_text(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg.done("explain", "training", "hangs", "at", "hvd.init()").out.startswith("hvd-init-hangs")


def test_a_log_on_standard_input_is_explained_with_the_lines_that_tell(vgpu_cfg: CommandLine) -> None:
    prefix = "2026-11-20T22:31:07.100Z In(05) vmx - "
    lines = ["Hostname=esx-01", PAGES, GENERAL, "Failed to initialize NVML: Unknown Error"]
    ran = vgpu_cfg("explain", "-", stdin="".join(f"{prefix}{line}\n" for line in lines))
    assert ran.code == 0
    first, second = ran.out.split("\n\n")
    assert first.startswith("mmio-too-small")
    assert f"2: {PAGES}" in " ".join(first.split())
    assert second.startswith("nvml-lost")
    assert "inferred from a documented rule" in " ".join(second.split())
    assert "device-power-on" not in ran.out


def test_a_failure_is_explained_by_its_key(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg.done("explain", "roce-drops").out.startswith("roce-drops")


def test_a_text_that_nobody_knows_is_an_answer_too(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("explain", "The flux capacitor is empty.")
    assert done.out.startswith("UNKNOWN")
    for word in (
        "vmware.log",
        "vmiop_log",
        "vmkernel.log",
        "nvidia-bug-report.sh",
        "hostd.log",
        "nvidia-gridd",
    ):
        assert word in done.out


def test_a_name_is_told_what_answers_about_it(vgpu_cfg: CommandLine) -> None:
    text = "version: 1\nname: demo\nvcenter: lab:two-a100\nvms: [{name: 'hvd-{1..2}', gpus: grid_a100-10c}]\n"
    plan = vgpu_cfg.write("plan.yaml", text)
    ran = vgpu_cfg("explain", "hvd-2")
    assert ran.code == 5
    assert "hvd-2 is a VM in plan.yaml, not a check code or an error message" in ran.told
    assert vgpu_cfg("explain", "x" * 300).code == 0  # no name, but a text
    assert "vgpu-cfg explain --vm hvd-2 --server lab:two-a100" in ran.told
    assert "vgpu-cfg verify plan.yaml --vm hvd-2" in ran.told
    ran = vgpu_cfg("explain", plan)
    assert (ran.code, "vgpu-cfg plan plan.yaml" in ran.told) == (5, True)
    done = vgpu_cfg.done("explain", "elsewhere-1")
    assert done.out.startswith("UNKNOWN")
    assert "vgpu-cfg explain --vm elsewhere-1" in done.out


def test_a_text_in_other_words_is_explained_as_likely(vgpu_cfg: CommandLine) -> None:
    text = "systemId and deviceId do not match the current system"
    told = " ".join(vgpu_cfg.done("explain", *text.split()).out.split())
    assert told.startswith("wrong-system-id the device's systemId or deviceId does not match the host's ")
    assert "similar wording; the usual message is: The systemId does not match" in told
    document = json.loads(vgpu_cfg.done("explain", text, "--output", "json").out)
    (found,) = document["explanations"]
    assert (found["key"], found["is_likely"]) == ("wrong-system-id", True)
    assert found["source"].startswith("github.com/vmware/vhpc-toolkit")


def test_a_message_that_a_window_wrapped_is_one_text(vgpu_cfg: CommandLine) -> None:
    wrapped = (
        'docker: Error response from daemon: could not\n select device driver "" with capabilities: [[gpu]].'
    )
    assert vgpu_cfg("explain", "-", stdin=wrapped).out.startswith("docker-no-gpu-driver")


def test_texts_as_json(vgpu_cfg: CommandLine) -> None:
    document = json.loads(vgpu_cfg.done("explain", PAGES, "--output", "json").out)
    assert (document["kind"], document["is_known"], document["look_at"]) == ("explain", True, [])
    (found,) = document["explanations"]
    assert (found["key"], found["confidence"], found["line"]) == ("mmio-too-small", "seen", "")
    assert found["symptom"]
    assert found["check"]
    unknown = json.loads(vgpu_cfg.done("explain", "odd", "--output", "json").out)
    assert (unknown["is_known"], unknown["explanations"]) == (False, [])
    assert len(unknown["look_at"]) >= 3


@pytest.mark.parametrize("words", [[], ["VG301", "--vm", "hvd-01"]], ids=["nothing", "both"])
def test_it_takes_a_text_or_a_vm(words: list[str], vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("explain", *words)
    assert ran.code == 2
    assert "or --vm NAME" in ran.told


# ---------------------------------------------------------------- VMs


def result_of(lab: Lab, task: Any) -> Any:
    lab.run_until_idle()
    return task.info


def break_mmio(run: CommandLine) -> None:
    """Let somebody switch the 64-bit MMIO window of double-01 off, and try to start it."""
    run.done("apply", "--yes", "examples/two-vgpus.yaml")
    lab = run.lab(PAIR)
    vm = one(connect(lab), vim.VirtualMachine, "double-01")
    assert result_of(lab, vm.PowerOffVM_Task()).error is None
    small = vim.option.OptionValue(key="pciPassthru.use64bitMMIO", value="FALSE")
    assert result_of(lab, vm.ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[small]))).error is None
    assert result_of(lab, vm.PowerOnVM_Task()).error.reason == GENERAL


def test_a_vm_that_did_not_start_is_explained_by_its_log_and_its_state(vgpu_cfg: CommandLine) -> None:
    break_mmio(vgpu_cfg)
    before = vgpu_cfg.look(PAIR)
    done = vgpu_cfg.done("explain", "--vm", "double-01", *PAIR_SERVER)
    assert vgpu_cfg.look(PAIR) == before
    assert done.out.startswith("FAILED  power on double-01")
    assert "UTC by Administrator@VSPHERE.LOCAL" in done.out.splitlines()[0]
    told = " ".join(done.out.split())
    assert f"vCenter {GENERAL}" in told
    assert "log vmware.log:" in told
    assert "PCIPassthru: total number of pages needed" in told
    assert "cause pciPassthru.use64bitMMIO is FALSE, but must be TRUE; last reconfigured" in told
    assert "ruled out: host available, hardware version 19, EFI, all memory reserved" in told
    assert "basis mmio-too-small, documented by a vendor" in told
    assert "state double-01 is off on esx-a100-01.lab, owned by plan two-vgpus" in told
    assert "run vgpu-cfg plan PLAN" in told


def test_a_vm_as_json(vgpu_cfg: CommandLine) -> None:
    break_mmio(vgpu_cfg)
    document = json.loads(vgpu_cfg.done("explain", "--vm", "double-01", *PAIR_SERVER, "--output", "json").out)
    assert (document["kind"], document["format"]) == ("explain", 1)
    assert document["vm"]["name"] == "double-01"
    assert document["vm"]["plan"] == "two-vgpus"
    assert document["failed"]["error"] == GENERAL
    assert document["failed"]["task"].startswith("task-")
    assert document["explanation"]["key"] == "mmio-too-small"
    assert [found["about"] for found in document["causes"]] == ["mmio"]
    assert document["lines"][0]["text"].startswith("PCIPassthru:")
    assert document["reconfigured"]["user"] == "Administrator@VSPHERE.LOCAL"


def test_a_vm_of_somebody_else_that_found_its_gpu_taken(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/first-40c.yaml")
    lab = vgpu_cfg.lab(ESTATE)
    instance = connect(lab)
    cloned = result_of(
        lab,
        one(instance, vim.VirtualMachine, "ubuntu-22.04-efi").CloneVM_Task(
            folder=one(instance, vim.Folder, "training"),
            name="theirs",
            spec=vim.vm.CloneSpec(
                location=vim.vm.RelocateSpec(
                    pool=one(instance, vim.ClusterComputeResource, "gpu").resourcePool
                ),
                config=gpu_spec("grid_a100-40c", memory_mib=16384),
                powerOn=False,
                template=False,
            ),
        ),
    )
    assert cloned.error is None
    assert result_of(lab, cloned.result.PowerOnVM_Task()).error is not None
    told = " ".join(vgpu_cfg.done("explain", "--vm", "training/theirs", *SERVER).out.split())
    assert "log vmware.log:12 [msg.vgpu.noDevice] No graphics device is available" in told
    assert "basis no-device-for-profile, documented by a vendor" in told
    assert "01.lab can currently run grid_a100-40c: 0000:21:00.0 is full, with whole-01 (VG103)" in told
    assert "not owned by a plan" in told
    assert "run vgpu-cfg inventory -v --host esx-one-01.lab --server lab:one-a100 shows" in told


def test_a_vm_that_never_failed_is_judged_as_it_stands(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/first-40c.yaml")
    done = vgpu_cfg.done("explain", "--vm", "whole-01", *SERVER)
    assert done.out.startswith("NO FAILED TASK  whole-01")
    assert (
        "no known failure found, and nothing in the VM's configuration prevents it from starting"
    ) in " ".join(done.out.split())


def test_a_vm_that_is_not_there_is_an_error_with_a_name_that_is_near(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/first-40c.yaml")
    ran = vgpu_cfg("explain", "--vm", "whole-1", *SERVER)
    assert ran.code == 5
    assert "no VM 'whole-1' found" in ran.err
    assert "did you mean 'whole-01'?" in ran.err


def test_tasks_that_may_not_be_read_are_a_note_and_no_error(vgpu_cfg: CommandLine) -> None:
    break_mmio(vgpu_cfg)
    vgpu_cfg.script(PAIR, {"method": "CreateCollectorForTasks", "kind": "call", "fault": "NoPermission"})
    done = vgpu_cfg.done("explain", "--vm", "double-01", *PAIR_SERVER)
    assert "the VM's tasks could not be read" in " ".join(done.out.split())


def test_a_vm_that_was_never_started_has_no_log_which_is_a_note_too(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("explain", "--vm", "ubuntu-22.04-efi", *SERVER)
    told = " ".join(done.out.split())
    assert "vmware.log could not be read: the datastore has no vmware.log for this VM" in told
    assert "vCenter has no failed task for this VM" in told


def test_vms_of_one_name_are_told_apart_by_their_paths() -> None:
    observed = make_inventory(
        {
            "hosts": {"esx-01": {"gpus": []}},
            "folders": ["north", "south"],
            "vms": {
                "a": {"name": "twin", "folder": "north"},
                "b": {"name": "twin", "folder": "south"},
                "c": {"name": "single"},
            },
        }
    )
    assert find_vm(observed, "single").moid == "vm-c"
    assert find_vm(observed, "north/twin").moid == "vm-a"
    assert find_vm(observed, "/dc1/vm/south/twin").moid == "vm-b"
    assert find_vm(observed, "single", "dc1").moid == "vm-c"
    with pytest.raises(Ambiguous, match="2 VMs") as caught:
        find_vm(observed, "twin")
    assert "/dc1/vm/north/twin, /dc1/vm/south/twin" in caught.value.remedy
    for name, datacenter in (("orth/twin", None), ("single", "dc2")):
        with pytest.raises(NotFound):
            find_vm(observed, name, datacenter)


def test_the_datacenter_of_a_vm_is_the_nearest_above_it() -> None:
    observed = make_inventory(
        {"hosts": {"esx-01": {"gpus": []}}, "datacenters": ["dc", "dc1"], "vms": {"a": {}}}
    )
    assert datacenter_path_of(observed, observed.vms[-1]) == "/dc1"
    lost = observed.vms[-1].model_copy(update={"inventory_path": ""})
    assert datacenter_path_of(observed, lost) == ""
