"""`verify` on the lab: two workers that were applied, and what it says when one thing at a time is broken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.cli.command_line import ROOT, CommandLine, Ran
from tests.extent import each
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import Alarm, AlarmState, LabState, VirtualMachine
from vgpu_cfg.model.verification import WatchMemory
from vgpu_cfg.vsphere.writing.alarms import disabled_alarm

PLAN = "plans/to-verify.yaml"
ESTATE = "estates/ready-to-train.yaml"
SECRETS = {"LICENCE_TOKEN": "token", "NGC_KEY": "key"}


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apply the plan once; each test gets a copy of what it left behind."""
    folder = tmp_path_factory.mktemp("applied")
    with pytest.MonkeyPatch.context() as patch:
        line = CommandLine(folder, patch)
        line.done("apply", PLAN, "--yes", **SECRETS)
    return folder / "state"


@pytest.fixture
def trained(vgpu_cfg: CommandLine, applied: Path) -> CommandLine:
    shutil.copytree(applied, vgpu_cfg.state_folder)
    vgpu_cfg.keep_id(PLAN)
    return vgpu_cfg


def vm_of(state: LabState, name: str) -> VirtualMachine:
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def broken(run: CommandLine, change: Callable[[LabState], object]) -> None:
    """Change what the lab keeps, behind everybody's back."""
    lab = run.lab(ESTATE)
    with lab.transaction():
        change(lab.state)
        for vm in lab.state.all(VirtualMachine):
            lab.state.touch(vm)


def verified(run: CommandLine, *words: str) -> tuple[Ran, dict[tuple[str, str], dict[str, Any]]]:
    """Run verify and return its results by (check, subject)."""
    ran = run("verify", PLAN, "--output", "json", *words, **SECRETS)
    assert ran.code in (0, 8, 9), ran.told
    results = json.loads(ran.out)["results"]
    return ran, {(one["check"], one["subject"]["name"]): one for one in results}


def test_all_of_it_holds_after_apply(trained: CommandLine) -> None:
    ran, found = verified(trained)
    assert ran.code == 0
    assert {one["state"] for one in found.values()} == {"passed", "skipped"}
    assert found["bandwidth-gpu", "hvd-01 -> hvd-02"]["measured"]["share"] > 0.9
    assert found["allreduce", "hvd-01, hvd-02"]["observed"].endswith("NET/IB/GDRDMA")
    assert not any(
        path.endswith("verify-allreduce.py")
        for name in ("hvd-01", "hvd-02")
        for path in guest_of(vm_of(trained.lab(ESTATE).state, name)).files
    )


def test_nothing_is_changed_by_it(trained: CommandLine) -> None:
    tasks = trained.look(ESTATE).tasks
    trained.done("verify", PLAN, **SECRETS)
    assert trained.look(ESTATE).tasks == tasks
    assert not any(
        waiting.startswith("server")
        for vm in trained.lab(ESTATE).state.all(VirtualMachine)
        if not vm.is_template
        for waiting in guest_of(vm).listening.values()
    )


def test_ats_that_is_off_halves_what_gpu_memory_reaches_and_is_named(trained: CommandLine) -> None:
    def off(state: LabState) -> None:
        vm = vm_of(state, "hvd-01")
        vm.extra_config["pciPassthru.RelaxACSforP2P"] = "FALSE"

    broken(trained, off)
    ran, found = verified(trained)
    assert ran.code == 8
    assert found["ats", "hvd-01"]["code"] == "VG669"
    assert found["ats", "hvd-02"]["state"] == "passed"
    pair = "hvd-01 -> hvd-02"
    assert found["bandwidth", pair]["state"] == "passed"
    slow = found["bandwidth-gpu", pair]
    assert (slow["state"], slow["code"]) == ("failed", "VG677")
    assert slow["measured"]["share"] < 0.6
    assert "ATS is off on hvd-01" in slow["meaning"]
    assert found["allreduce", "hvd-01, hvd-02"]["code"] == "VG679"
    told = trained("verify", PLAN, **SECRETS)
    assert told.code == 8
    assert "do fix VG669 on hvd-01 first" in told.told
    assert "vgpu-cfg explain VG669 VG677 VG679" in told.told
    assert "NEXT vgpu-cfg verify plans/to-verify.yaml --only=ats,bandwidth-gpu,allreduce" in told.told


def test_a_driver_of_another_branch_stops_what_rests_on_it(trained: CommandLine) -> None:
    def older(state: LabState) -> None:
        guest_of(vm_of(state, "hvd-02")).driver = "470.239.06"

    broken(trained, older)
    ran, found = verified(trained)
    assert ran.code == 8
    assert found["driver", "hvd-02"]["code"] in ("VG659", "VG660")
    for check in ("gpus", "licence", "container-gpus"):
        result = found[check, "hvd-02"]
        assert (result["state"], result["why"]) == ("not_asked", "driver failed")
    assert found["rdma", "hvd-02"]["state"] == "passed"
    assert found["allreduce", "hvd-01, hvd-02"]["state"] == "not_asked"
    assert "driver failed on hvd-02" in found["allreduce", "hvd-01, hvd-02"]["why"]


def test_a_licence_that_is_gone_is_told_of_each_vm(trained: CommandLine) -> None:
    def without(state: LabState) -> None:
        for name in ("hvd-01", "hvd-02"):
            guest_of(vm_of(state, name)).licence = ""

    broken(trained, without)
    ran, found = verified(trained, "--only", "licence")
    assert ran.code == 8
    assert {found["licence", name]["code"] for name in ("hvd-01", "hvd-02")} == {"VG662"}
    assert {check for check, _ in found} == {"licence", "host-licence"}


def test_a_guest_that_lets_nobody_in_is_asked_nothing(trained: CommandLine) -> None:
    def off(state: LabState) -> None:
        guest_of(vm_of(state, "hvd-02")).accounts.clear()

    broken(trained, off)
    ran, found = verified(trained, "--quick")
    assert ran.code == 8
    assert found["reached", "hvd-02"]["code"] == "VG657"
    others = {one["state"] for (_, name), one in found.items() if name == "hvd-02"}
    assert others <= {"failed", "not_asked"}
    assert found["ssh", "hvd-01 -> hvd-02"]["why"] == "reached failed on hvd-02"
    assert found["licence", "hvd-01"]["state"] == "passed"


def test_the_hosts_link_of_the_chain_is_told_at_the_host(trained: CommandLine) -> None:
    def off(state: LabState) -> None:
        host = next(host for host in state.all(Host) if host.name == "esx-02.lab")
        host.kernel["atsSupport"].runtime = "FALSE"
        state.touch(host)

    broken(trained, off)
    ran, found = verified(trained, "--quick")
    assert ran.code == 8
    assert found["host-ats", "esx-02.lab"]["code"] == "VG654"
    assert found["ats", "hvd-02"]["code"] == "VG669"


QUICK = ("clock", "image", "send")
PLANTS = (
    (("hvd-02", "clock", "400"), "clock", "hvd-02", "VG704"),
    (("hvd-01", "licence", "2"), "licence", "hvd-01", "VG717"),
    (("hvd-01", "gpu", "GRID A100-20C"), "gpus", "hvd-01", "VG702"),
    (("hvd-01", "framebuffer", "20480"), "gpus", "hvd-01", "VG702"),
    (("hvd-02", "pcie", "8.0 8"), "pcie", "hvd-02", "VG701"),
    (("hvd-01", "health", "Remapped Rows/Pending=Yes"), "gpu-health", "hvd-01", "VG710"),
    (("hvd-01", "health", "GPU Recovery Action=Reset"), "gpu-health", "hvd-01", "VG710"),
    (
        ("hvd-01", "log", "NVRM: Xid (PCI:0000:02:01): 79, GPU has fallen off the bus."),
        "kernel-log",
        "hvd-01",
        "VG711",
    ),
    (("hvd-02", "counts", "tx_pause_storm_error_events 2"), "congestion", "hvd-01 -> hvd-02", "VG689"),
    (("hvd-02", "memlock", "64"), "worker-limits", "hvd-02", "VG713"),
    (("hvd-02", "shm", "64"), "worker-limits", "hvd-02", "VG713"),
    (("hvd-02", "image", "older"), "same-image", "hvd-01, hvd-02", "VG706"),
    (("hvd-02", "other", "machine"), "ssh", "hvd-01 -> hvd-02", "VG714"),
    (("hvd-02", "send", "20"), "bandwidth", "hvd-02 -> hvd-01", "VG676"),
    (("hvd-01", "nccl", "silent"), "allreduce", "hvd-01, hvd-02", "VG703"),
    (("hvd-01", "nccl", "socket"), "allreduce", "hvd-01, hvd-02", "VG703"),
)


@pytest.mark.parametrize(
    ("plant", "check", "subject", "code"),
    each(
        PLANTS, "what is asked, of guests that are wrong in one more way", lambda plant, *_: plant[1] in QUICK
    ),
)
def test_what_is_wrong_in_a_guest_fails(
    trained: CommandLine, plant: tuple[str, str, str], check: str, subject: str, code: str
) -> None:
    vm, word, value = plant

    def wrong(state: LabState) -> None:
        guest_of(vm_of(state, vm)).faults[word] = value

    broken(trained, wrong)
    ran, found = verified(trained, "--only", check)
    assert ran.code == 8
    assert found[check, subject]["code"] == code


def test_files_of_a_guest_that_keep_training_from_rdma_and_from_others_are_told(trained: CommandLine) -> None:
    def rewritten(state: LabState) -> None:
        files = guest_of(vm_of(state, "hvd-02")).files
        hosts = files["/etc/hosts"]
        files["/etc/nccl.conf"] = replace(hosts, content="# the switch was down\nNCCL_IB_DISABLE=1\n")
        files["/etc/hosts"] = replace(hosts, content=f"127.0.1.1 hvd-02\n{hosts.content}")

    broken(trained, rewritten)
    ran, found = verified(trained, "--only", "nccl,names")
    assert ran.code == 8
    told = found["nccl", "hvd-02"]
    assert (told["code"], told["observed"]) == ("VG687", "NCCL_IB_DISABLE is 1 in /etc/nccl.conf")
    told = found["names", "hvd-01, hvd-02"]
    assert told["code"] == "VG714"
    assert told["observed"].startswith("on hvd-02, the name hvd-02 resolves to 127.0.1.1, not")
    assert found["nccl", "hvd-01"]["state"] == "passed"


def test_ports_that_trained_down_on_both_sides_are_told(trained: CommandLine) -> None:
    def slow(state: LabState) -> None:
        for host in state.all(Host):
            for nic in host.nics:
                nic.speed_mbps = 25_000
            state.touch(host)

    broken(trained, slow)
    ran, found = verified(trained, "--only", "port,bandwidth")
    assert ran.code == 8
    for name in ("hvd-01", "hvd-02"):
        port = found["port", name]
        assert (port["code"], port["observed"], port["expected"]) == (
            "VG700",
            "ens33np0 runs at 25 Gb/s",
            "100 Gb/s",
        )
    stated = trained("verify", PLAN, "--only", "port,bandwidth", "--threshold", "line_gbps=25", **SECRETS)
    assert stated.code == 0


def test_a_perftest_without_cuda_is_not_proven_until_the_allreduce_proves_it(trained: CommandLine) -> None:
    def plain(state: LabState) -> None:
        for name in ("hvd-01", "hvd-02"):
            guest_of(vm_of(state, name)).faults["perftest"] = "no-cuda"

    broken(trained, plain)
    ran, found = verified(trained, "--only", "bandwidth-gpu")
    assert ran.code == 9
    assert {one["state"] for one in found.values()} == {"unproven"}
    told = trained("verify", PLAN, "--only", "bandwidth-gpu", **SECRETS)
    assert "nothing failed, 2 not proven" in told.told
    assert "NOT PROVEN  2" in told.out
    ran, found = verified(trained)
    assert ran.code == 0
    assert "verified by allreduce" in found["bandwidth-gpu", "hvd-01 -> hvd-02"]["why"]


def test_figures_are_kept_and_held_against(trained: CommandLine) -> None:
    words = ("verify", PLAN, "--only", "bandwidth", "--history", "runs.jsonl")
    saved = trained.done(*words, "--save", "figures.json", **SECRETS)
    assert "runs.jsonl: one line added" in saved.err
    assert "figures.json: measurements saved" in saved.err
    trained.done(*words, "--baseline", "figures.json", **SECRETS)
    kept = json.loads((trained.folder / "figures.json").read_text(encoding="utf-8"))
    assert {figure["subject"] for figure in kept["figures"]} == {"hvd-01 -> hvd-02", "hvd-02 -> hvd-01"}

    def slower(state: LabState) -> None:
        guest_of(vm_of(state, "hvd-02")).faults["send"] = "91"

    broken(trained, slower)
    ran = trained(*words, "--baseline", "figures.json", "--save", "figures.json", **SECRETS)
    assert ran.code == 8
    assert "VG709" in ran.out
    assert "were not saved to figures.json" in ran.told
    assert trained(*words, "--baseline", "figures.json", "--threshold", "loss=10%", **SECRETS).code == 0
    lines = [json.loads(line) for line in (trained.folder / "runs.jsonl").read_text().splitlines()]
    assert [line["passes"] for line in lines] == [True, True, False, True]
    assert lines[2]["failed"] == [{"code": "VG709", "check": "bandwidth", "subject": "hvd-02 -> hvd-01"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "kind"),
        (
            '{"kind": "verify-baseline", "format": 1, "plan": "other", "begun": "2026-11-23T06:00:00Z"}',
            "from the plan",
        ),
        ("[", "figures.json"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(vgpu_cfg: CommandLine, text: str, said: str) -> None:
    vgpu_cfg.write("figures.json", text)
    ran = vgpu_cfg("verify", PLAN, "--baseline", "figures.json", **SECRETS)
    assert ran.code == 3
    assert said in ran.told


@pytest.mark.long("a head, a shared folder and metrics, from apply to what is wrong with them")
def test_a_head_its_folder_its_metrics_and_its_clock(vgpu_cfg: CommandLine) -> None:
    text = (ROOT / "examples" / "head-and-workers.yaml").read_text(encoding="utf-8")
    plan = vgpu_cfg.write("headed.yaml", text.replace("licence:", "time: [ntp.example.com], licence:", 1))
    secrets = {**SECRETS, "GRAFANA_PASSWORD": "x", "NLS_TOKEN": "token"}
    vgpu_cfg.done("apply", plan, "--yes", **secrets)

    def results() -> dict[tuple[str, str], dict[str, Any]]:
        ran = vgpu_cfg("verify", plan, "--output", "json", **secrets)
        assert ran.code in (0, 8, 9), ran.told
        return {(one["check"], one["subject"]["name"]): one for one in json.loads(ran.out)["results"]}

    everybody = "head-01, hvd-01, hvd-02"
    found = results()
    assert not [one for one in found.values() if one["state"] in ("failed", "not_asked")]
    assert found["shared-folder", everybody]["observed"] == "/srv/training: 3 machines can read and write"
    assert found["metrics", "head-01"]["observed"] == "Prometheus can reach 2 targets"
    assert found["clock", "hvd-01"]["observed"] == "matches vCenter's, synchronized with 10.0.0.1"
    assert found["allreduce", everybody]["measured"]["share"] > 0.8
    for word, value, check, subject, code in (
        ("mount", "gone", "shared-folder", everybody, "VG707"),
        ("metrics", "down", "metrics", "hvd-02", "VG708"),
    ):

        def wrong(state: LabState, word: str = word, value: str = value) -> None:
            guest_of(vm_of(state, "hvd-02")).faults = {word: value}

        lab = vgpu_cfg.lab("two-hosts-roce")
        with lab.transaction():
            wrong(lab.state)
            lab.state.touch(vm_of(lab.state, "hvd-02"))
        assert results()[check, subject]["code"] == code


def test_one_vm_alone_has_no_pairs(trained: CommandLine) -> None:
    ran, found = verified(trained, "--vm", "hvd-01")
    assert ran.code == 0
    assert {one["subject"]["kind"] for one in found.values()} == {"host", "vm", "training"}
    assert found["allreduce", "hvd-01"]["state"] == "skipped"


def in_page(run: CommandLine, name: str) -> dict[str, Any]:
    """Return the data of a page."""
    page = (run.folder / name).read_text(encoding="utf-8")
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in page
    found: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return found


def test_a_page_has_what_json_and_text_tell_of_the_same_run(trained: CommandLine) -> None:
    words = ("verify", PLAN, "--report", "out.html", "--history", "runs.jsonl")
    ran = trained(*words, "--save", "figures.json", "--output", "json", **SECRETS)
    page = in_page(trained, "out.html")
    assert page["verify"] == json.loads(ran.out)
    assert (page["view"]["verdict"], page["view"]["exit_code"]) == ("all checks passed", 0)
    sums = page["view"]["sums"]
    states = page["verify"]["counts"]
    assert (sums["passed"], sums["failed"], sums["unproven"]) == (states["passed"], 0, 0)
    assert sums["left_out"] + sums["not_asked"] == states["skipped"]
    assert page["view"]["figures"] == []  # nothing yet to hold them against

    def slower(state: LabState) -> None:
        guest_of(vm_of(state, "hvd-02")).faults["send"] = "80"

    broken(trained, slower)
    told = trained(*words, "--baseline", "figures.json", **SECRETS)
    view = in_page(trained, "out.html")["view"]
    assert (told.code, view["exit_code"]) == (8, 8)
    assert view["verdict"] in told.out
    host_memory, _ = view["matrices"]
    cells = {(one["source"], one["target"]): one for one in host_memory["cells"]}
    slow, right = cells["hvd-02", "hvd-01"], cells["hvd-01", "hvd-02"]
    assert slow["gbps"] == pytest.approx(80, abs=0.1)
    assert (slow["least_gbps"], slow["state"], slow["code"]) == (90, "failed", "VG676")
    assert (right["gbps"] > 90, right["state"]) == (True, "passed")
    assert [one["code"] for one in view["codes"]] == ["VG676"]
    figures = {(one["check"], one["subject"]): one for one in view["figures"]}
    lost = figures["bandwidth", "hvd-02 -> hvd-01"]
    assert lost["values"] == [lost["before"], slow["gbps"]]
    assert lost["change"] == pytest.approx(slow["gbps"] / lost["before"] - 1, abs=1e-3)
    assert figures["allreduce", "hvd-01, hvd-02"]["values"][1] is None
    assert [run["passes"] for run in view["runs"]] == [True, False]


@pytest.mark.parametrize("line", ["{", '{"kind": "verify-run", "format": 9}', "\x00"])
def test_a_line_that_is_none_of_a_history_is_refused_before_anything_is_asked(
    vgpu_cfg: CommandLine, line: str
) -> None:
    vgpu_cfg.write("runs.jsonl", f"\n{line}\n")
    ran = vgpu_cfg("verify", PLAN, "--history", "runs.jsonl", "--report", "out.html", **SECRETS)
    assert ran.code == 3
    assert "runs.jsonl:2" in ran.told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "licens"), "did you mean"),
        (("--threshold", "speed=1"), "is not NAME=SHARE"),
        (("--threshold", "busbw=1.4"), "use 0.8 or 80%"),
        (("--only", ","), "specify at least one check, such as licence,ats"),
        (("--report", "nowhere/out.html"), "cannot write"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(
    vgpu_cfg: CommandLine, words: tuple[str, ...], said: str
) -> None:
    ran = vgpu_cfg("verify", PLAN, *words, **SECRETS)
    assert ran.code == 2
    assert said in ran.told


def test_there_must_be_something_to_verify(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("verify", PLAN, **SECRETS)
    assert ran.code == 5
    assert "none of the plan's VMs exist yet" in ran.told
    assert f"create them first: vgpu-cfg apply {PLAN}" in ran.told
    assert vgpu_cfg("verify", PLAN, "--report", "out.html", **SECRETS).code == 5
    assert not (vgpu_cfg.folder / "out.html").exists()


def test_a_vm_of_no_guest_that_does_not_run_as_the_plan_says_fails(vgpu_cfg: CommandLine) -> None:
    head = "version: 1\nname: two\nvcenter: lab:two-a100\nvms:\n"
    line = "- {{name: {}, template: ubuntu-22.04-efi, gpus: grid_a100-20c, power: {}}}\n"
    vgpu_cfg.done("apply", vgpu_cfg.write("two.yaml", head + line.format("a", "on")), "--yes")
    assert "all checks passed" in vgpu_cfg.done("verify", "two.yaml").told
    text = head + line.format("a", "on") + line.format("b", "on") + line.format("c", "off")
    vgpu_cfg.write("two.yaml", text)
    ran = vgpu_cfg("verify", "two.yaml")
    assert ran.code == 8
    assert "VG657 b: guest responds: the VM does not exist" in ran.told
    vgpu_cfg.done("apply", "two.yaml", "--yes")
    vgpu_cfg.done("verify", "two.yaml")
    with (lab := vgpu_cfg.lab("two-a100")).transaction():
        vm = vm_of(lab.state, "b")
        vm.power_state = "poweredOff"
        lab.state.touch(vm)
    ran = vgpu_cfg("verify", "two.yaml")
    assert ran.code == 8
    assert "VG657 b: guest responds: the VM is off" in ran.told
    only = vgpu_cfg.done("verify", "two.yaml", "--vm", "a").told
    assert "esx-a100-01.lab" in only
    assert "VG657" not in only


def test_a_guest_that_the_plan_leaves_off_is_not_asked(trained: CommandLine) -> None:
    def off(state: LabState) -> None:
        vm_of(state, "hvd-02").power_state = "poweredOff"

    text = (trained.folder / PLAN).read_text(encoding="utf-8")
    trained.keep_id("off.yaml")
    plan = trained.write("off.yaml", text.replace("  memory: 64GiB", "  memory: 64GiB\n  power: off"))
    broken(trained, off)
    ran = trained("verify", plan, "--quick", "--vm", "hvd-02", "--output", "json", **SECRETS)
    assert ran.code == 9, ran.told
    found = json.loads(ran.out)
    states = {one["state"] for one in found["results"] if one["subject"]["name"] == "hvd-02"}
    assert (states, found["unasked"]) == ({"not_asked"}, ["hvd-02"])
    whole = trained("verify", plan, "--quick", "--host", "esx-01.lab", "--output", "json", **SECRETS)
    assert json.loads(whole.out)["unasked"] == []


@pytest.fixture
def two(vgpu_cfg: CommandLine) -> CommandLine:
    """Two VMs without `guest`, on a host that can be asked."""
    vgpu_cfg.done("apply", "examples/two-vgpus.yaml", "--yes")
    return vgpu_cfg


def test_a_run_without_any_check_is_no_success(two: CommandLine) -> None:
    command = ("verify", "examples/two-vgpus.yaml", "--only")
    nothing = two(*command, "congestion")
    assert (nothing.code, "no checks ran" in nothing.told) == (9, True)
    junit = two(*command, "congestion", "--output", "junit")
    assert (junit.code, 'tests="1" failures="0" errors="1"' in junit.out) == (9, True)
    some = two(*command, "host-driver", "--output", "json")
    assert (some.code, json.loads(some.out)["unasked"]) == (0, [])


def test_guests_that_were_not_asked_are_told_beside_what_passed(two: CommandLine) -> None:
    found = json.loads(two.done("verify", "examples/two-vgpus.yaml", "--output", "json").out)
    count = len(found["unasked"])
    guests = f"{count} guest{'s' if count > 1 else ''} not checked"
    assert f"all checks passed, {guests}" in two.done("verify", "examples/two-vgpus.yaml").told
    junit = two.done("verify", "examples/two-vgpus.yaml", "--output", "junit").out
    assert junit.count('skipped message="no checks ran in this guest"') == count > 0


def test_a_choice_that_means_nothing_names_what_there_is(trained: CommandLine) -> None:
    hosts = trained("verify", PLAN, "--host", "nope", **SECRETS)
    vms = trained("verify", PLAN, "--vm", "nope", **SECRETS)
    assert (hosts.code, vms.code) == (5, 5)
    assert "they run on" in hosts.told
    assert "its VMs are hvd-{01..02}" in vms.told


def test_thresholds_come_from_the_plan_file_and_the_command_line(trained: CommandLine) -> None:
    text = (trained.folder / PLAN).read_text(encoding="utf-8")
    trained.keep_id("strict.yaml")
    plan = trained.write("strict.yaml", f"{text}\nverify: {{host_memory: 0.99, seconds: 7}}\n")
    ran = trained("verify", plan, "--only", "bandwidth", "--output", "json", **SECRETS)
    assert ran.code == 8
    found = json.loads(ran.out)
    assert (found["thresholds"]["host_memory"], found["thresholds"]["seconds"]) == (0.99, 7)
    assert [one["code"] for one in found["results"]] == ["VG676", "VG676"]  # each way
    again = trained("verify", plan, "--only", "bandwidth", "--threshold", "host_memory=80%", **SECRETS)
    assert again.code == 0


# ---------------------------------------------------------------- --watch

WATCH = "verify: {watch: {cordon: [memory-failed, gpu-lost], per_cluster: 1}}\n"


def ill(*names: str, log: str = "") -> Callable[[LabState], None]:
    def change(state: LabState) -> None:
        for name in names:
            guest = guest_of(vm_of(state, name))
            guest.faults["health"] = "Remapped Rows/Remapping Failure Occurred=Yes"
            guest.faults["log"] = log

    return change


def watched(run: CommandLine, plan: str = PLAN, *words: str) -> dict[str, Any]:
    """Watch, and let half an hour and two readings pass until the next watch."""
    ran = run("verify", plan, "--watch", "--output", "json", *words, **SECRETS)
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (8 if found["needs_action"] else 0), ran.told
    (kept,) = (run.state_folder / "watches").glob("*.json")
    memory = WatchMemory.model_validate_json(kept.read_bytes())
    older = {"held_since": datetime(2026, 1, 1, tzinfo=UTC), "readings": 2}
    aged = memory.model_copy(update={"signs": tuple(one.model_copy(update=older) for one in memory.signs)})
    kept.write_text(aged.model_dump_json(), encoding="utf-8")
    return found


def test_a_watch_reports_and_changes_nothing_unless_the_plan_file_lets_it(trained: CommandLine) -> None:
    assert watched(trained)["signs"] == []
    broken(trained, ill("hvd-01", log="NVRM: Xid (PCI:0000:02:01): 31, pid=1, name=python"))
    before = trained.look(ESTATE)
    prom = trained.folder / "watch.prom"
    told = trained("verify", PLAN, "--watch", "--metrics", str(prom), **SECRETS)
    assert told.code == 8
    assert "UNREPAIRABLE GPU MEMORY memory-failed new" in told.told
    cordon = "cordon gpu:esx-01.lab/0000:21:00.0 --reason=memory-failed"
    assert f"do vgpu-cfg {cordon} --server=lab:{ESTATE}" in told.told
    labels = 'plan="horovod-a100",rule="memory-failed",urgency="now",host="esx-01.lab",vm="hvd-01"'
    assert f'vgpu_cfg_watch_sign{{{labels},gpu="0000:21:00.0"}} 1' in prom.read_text(encoding="utf-8")
    assert [one["is_new"] for one in watched(trained)["signs"]] == [False, False]
    watched(trained)
    assert trained.look(ESTATE) == before
    trained.done(*cordon.split(), f"--server=lab:{ESTATE}")
    # Before it is given back, the VM that has the GPU is asked, and no other.
    checked = trained("cordon", cordon.split()[1], "--check", "--plan", PLAN, **SECRETS)
    assert (checked.code, "memory row remapping failed" in checked.told) == (8, True), checked.told
    assert "hvd-02" not in checked.told


def test_a_watch_cordons_by_the_rules_of_the_plan_file_and_one_host_of_a_cluster(
    trained: CommandLine,
) -> None:
    plan = str(
        trained.write("plans/watched.yaml", (trained.folder / PLAN).read_text(encoding="utf-8") + WATCH)
    )
    trained.keep_id(plan)
    broken(trained, ill("hvd-01", "hvd-02"))
    assert [one["done"] for one in watched(trained, plan)["signs"]] == ["", ""]
    done = [one["done"] for one in watched(trained, plan)["signs"]]
    assert done == ["cordoned", "not cordoned: the limit is 1 per cluster"]
    again = [one["done"] for one in watched(trained, plan)["signs"]]
    assert again == ["cordoned already", "not cordoned: the limit is 1 per cluster"]
    shown = json.loads(trained.done("inventory", f"--server=lab:{ESTATE}", "--output=json").out)
    assert [(one["gpu"], one["reason"]) for one in shown["cordons"]] == [
        ("0000:21:00.0", "watch: memory-failed")
    ]


def test_a_watch_reports_a_hosts_alarms_and_other_checks_do_not_read_them(trained: CommandLine) -> None:
    def trigger(state: LabState) -> None:
        host = next(host for host in state.all(Host) if host.name == "esx-01.lab")
        spec, triggered = disabled_alarm("Fan", ""), {host.moid: AlarmState("red", 0.0)}
        alarm = Alarm(
            moid="alarm-1", name="Fan", parent=state.root, spec=spec, modified=0.0, triggered=triggered
        )
        state.alarms.append(state.add(alarm).moid)

    broken(trained, trigger)
    (sign,) = watched(trained)["signs"]
    assert (sign["rule"], sign["host"], sign["words"]) == (
        "alarm",
        "esx-01.lab",
        ["Fan, since 1970-01-01 00:00 UTC"],
    ), sign
    assert verified(trained)[0].code == 0


def test_a_second_watch_on_this_machine_waits_its_turn(trained: CommandLine) -> None:
    watched(trained)
    (kept,) = (trained.state_folder / "watches").glob("*.json")
    with FileLock(kept.with_suffix(".lock"), is_singleton=False):
        ran = trained("verify", PLAN, "--watch", **SECRETS)
    assert ran.code == 6
    assert "another `verify --watch` of this plan is running" in ran.told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--every", "60"], "requires --watch"),
        (["--metrics", "a.prom"], "requires --watch"),
        (["--watch", "--output", "junit"], "supports only text and json"),
    ],
)
def test_options_of_a_watch_that_go_together(vgpu_cfg: CommandLine, words: list[str], told: str) -> None:
    ran = vgpu_cfg("verify", PLAN, *words, **SECRETS)
    assert (ran.code, told in ran.told) == (2, True), ran.told
