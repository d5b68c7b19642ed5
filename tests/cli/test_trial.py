"""Trials: nothing goes beyond what was shown, and nothing remains, wherever one ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.command_line import ROOT, CommandLine, Ran
from tests.cli.conftest import Serve
from tests.cli.host_watch import Watch, is_reading, settings_of, watch_labs
from tests.cli.roles import ACCOUNT, as_account
from tests.cli.test_https import pinned
from tests.extent import each
from tests.lies.acts import UNFOUND
from vgpu_cfg.documents import read_document
from vgpu_cfg.lab.estates.lies import LIES, SHORT_PAGE
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.state.inventory import Alarm, Cluster, Host, LabState, VirtualMachine
from vgpu_cfg.lab.state.roles import Permission, Role
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.planning.doctor.trials import CUSTOMIZED, EXPERIMENTS, GPU_MOVE
from vgpu_cfg.vsphere.writing.throw_away import VCenterThrowAway

ESTATE = "two-a100"
SERVER = f"--server=lab:{ESTATE}"
TRIAL = ("trial", SERVER, "--yes")
VMS = (*TRIAL, "--steps", "vm", "--in", "training", "--network", "vm-network")
FLEET = ("trial", "--server=lab:mixed-fleet", "--yes", "--steps=vm", "--in=training", "--datastore=vsan")
GPUS = (*TRIAL, "--steps=gpu", "--in=training", "--profile=grid_a100-8c")
GLOBAL = (*TRIAL, "--steps", "global")
READING = (*TRIAL, "--steps", "reading")
MADE = {"objects": TRIAL, "global": GLOBAL, "vm": VMS, "gpu": GPUS, "reading": READING}
HOLD = {"objects": 11, "global": 1, "vm": 23, "gpu": 11, "reading": 3}
WITH_TEMPLATE = 22
TRIED = frozenset(belief for one in EXPERIMENTS for belief in one.beliefs)
IN_SHORT = {
    "alarm-names-are-unique",
    "user-events",
    "clone-honours-config-spec",
    "graphics-info-shows-the-gpu",
}
"""Lies of which a short test has the trial find; the long one has them all."""
MOVES = "estates/work-on-hosts.yaml"
CLEAN = ("trial", "--clean", "--all", "--yes", SERVER)


CUSTOMIZING = """
about: a specification, and a template whose guest it customizes
vcenter: {customization_specs: [{name: farm}]}
clusters: [{name: gpu, hosts: [{name: esx-1}]}]
networks: [{name: vm-network}, {name: prod}]
folders: [training]
templates: [{name: good, guest: {cloud_init: false}}]
"""


class Killed(BaseException):
    """The end of a process at a request: nothing that it would have done since is done."""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def as_json(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in document["beliefs"]}


def kept(vgpu_cfg: CommandLine) -> dict[str, Any]:
    """Return all of the estate that a trial must leave as it was: not events and tasks."""
    return settings_of(vgpu_cfg.lab(ESTATE).state)


def alarms(state: LabState) -> list[str]:
    return [alarm.name for alarm in state.all(Alarm)]


def killed_at(watch: Watch, number: int, *, is_answered: bool) -> Callable[[], bool]:
    """Let the process be killed at a request, before or after vCenter sees it; return whether it was."""
    seen = 0

    def count(_name: str) -> None:
        nonlocal seen
        seen += 1
        if seen > number or (seen == number and not is_answered):
            raise Killed

    def after(_name: str) -> None:
        if seen >= number:
            raise Killed

    watch.before_call, watch.after_call = count, after
    return lambda: seen >= number


def let_live(watch: Watch) -> None:
    watch.before_call = watch.after_call = lambda _name: None


@pytest.mark.parametrize("step", MADE)
def test_what_a_step_tries_holds_on_the_lab_and_nothing_is_left(vgpu_cfg: CommandLine, step: str) -> None:
    before = kept(vgpu_cfg)
    document = as_json(vgpu_cfg.done(*MADE[step], "--output", "json"))
    found = list(verdicts(document).values())
    assert (found.count("holds"), found.count("does not hold")) == (HOLD[step], 0)
    assert document["left"] == []
    assert kept(vgpu_cfg) == before


def test_tags_are_tried_where_a_category_exists(vgpu_cfg: CommandLine) -> None:
    found = verdicts(as_json(vgpu_cfg.done(*FLEET, "--output", "json")))
    tried = ("tag-batches-report-each", "tag-batch-messages", "clone-has-no-tags")
    assert {found[one] for one in tried} == {"holds"}


def test_vms_are_cloned_from_a_template_too(vgpu_cfg: CommandLine) -> None:
    words = ("--template", "ubuntu-22.04-efi", "--output", "json")
    document = as_json(vgpu_cfg.done(*VMS, *words))
    assert list(verdicts(document).values()).count("holds") == WITH_TEMPLATE
    assert "CreateVM_Task" not in document["calls"]
    assert document["datastore_mib"] >= 2 * 64 * 1024


def test_a_guest_is_customized_by_a_specification(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("estate.yaml", CUSTOMIZING)
    words = ["--server=lab:estate.yaml", "--template=good", "--spec=farm", "--network=prod", "--output=json"]
    found = verdicts(as_json(vgpu_cfg.done(*VMS, *words)))
    assert {found[one] for one in CUSTOMIZED.beliefs} == {"holds"}
    assert "requires --template" in vgpu_cfg(*VMS, "--spec=farm").told


def test_a_running_vm_is_moved_by_vmotion_if_a_host_is_named(vgpu_cfg: CommandLine, watch: Watch) -> None:
    server = f"--server=lab:{MOVES}"
    found = verdicts(as_json(vgpu_cfg.done(*GPUS, server, "--move-to=esx-02.lab", "--output=json")))
    moved = ("relocate-moves-like-migrate", "relocate-moves-running-vgpu-vms", "numa-affinity-format")
    assert {found[one] for one in moved} == {"holds"}
    assert watch.writes["RelocateVM_Task"] == 1
    refused = vgpu_cfg(*GPUS, server, "--move-to=esx-2.lab")
    assert refused.code == 5
    assert "esx-02.lab" in refused.told


SHELLS = """
version: 1
name: training
vcenter: lab:mig-a100
hosts: [{names: ["*"], access: {ssh: on}}]
vms: [{name: a, template: ubuntu, gpus: grid_a100-40c}]
"""


def test_the_shells_of_hosts_are_read_and_nothing_is_made(vgpu_cfg: CommandLine, watch: Watch) -> None:
    path = vgpu_cfg.write("plan.yaml", SHELLS)
    words = ("trial", "--server=lab:mig-a100", "--yes", "--steps=shell", "--output=json")
    assert "requires a plan file" in vgpu_cfg(*words).told
    off = as_json(vgpu_cfg.done(*words, f"--plan={path}"))["beliefs"]
    assert "SSH service is not running" in next(one["seen"] for one in off if one["id"] == NODES)
    lab = vgpu_cfg.lab("mig-a100")
    with lab.transaction():
        for host in lab.state.all(Host):
            host.services["TSM-SSH"].running = True
            lab.state.touch(host)
    document = as_json(vgpu_cfg.done(*words, f"--plan={path}"))
    found = verdicts(document)
    assert [found[one] for one in (NODES, "nvidia-smi-topo-on-esxi")] == ["holds", "holds"]
    assert all(name.startswith("$ nvidia-smi") for name in watch.writes)
    assert document["calls"] == {}


NODES = "numa-info-counts-like-nvidia-smi"


def test_a_vm_with_a_vgpu_belongs_to_no_plan(vgpu_cfg: CommandLine, watch: Watch) -> None:
    killed_at(watch, requests(vgpu_cfg, watch, GPUS).index("PowerOffVM_Task") + 1, is_answered=False)
    with pytest.raises(Killed):
        vgpu_cfg(*GPUS)
    let_live(watch)
    made = [vm for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if "trial" in vm.name]
    assert len(made) == 2
    assert all(vm.extra_config["vgpu_cfg.trial"] == vm.name for vm in made)
    assert not any({"vgpu_cfg.plan", "vgpu_cfg.vm"} & vm.extra_config.keys() for vm in made)


def test_a_place_that_cannot_work_is_refused_with_the_planners_words(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    refused = vgpu_cfg("trial", "--server=lab:mixed-fleet", "--steps=vm", "--in=training", "--yes")
    assert refused.code == 4
    assert "VG416 neither the plan nor the template specifies a datastore" in refused.told
    assert not watch.writes


def test_verdicts_are_saved_with_how_they_were_tried(vgpu_cfg: CommandLine) -> None:
    (vgpu_cfg.folder / "site").mkdir()
    vgpu_cfg.done("doctor", SERVER, "--save", "site")
    vgpu_cfg.done(*VMS, "--steps=objects,vm", "--save", "site")
    (file,) = (vgpu_cfg.folder / "site").iterdir()
    beliefs = read_document(file).data["beliefs"]
    by = {name: row.get("by", "reading") for name, row in beliefs.items() if row["verdict"] == "holds"}
    assert (by["alarm-names-are-unique"], by["clone-honours-config-spec"]) == ("object", "vm")
    assert (by["disk-uuid-exists"], by["nics-are-class-02"]) == ("vm", "reading")


def test_both_faces_say_the_same(vgpu_cfg: CommandLine) -> None:
    document = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))
    told = vgpu_cfg.done(*TRIAL).told
    assert "holds: 11" in told
    assert all(one["statement"] in told for one in document["beliefs"] if one["verdict"] == "holds")
    assert all(f"{method} " in told for method in document["calls"])
    assert f"about {document['remains']['events']} events" in told


@pytest.mark.enable_socket
def test_two_requests_at_once_are_tried_over_a_wire(vgpu_cfg: CommandLine, serve: Serve) -> None:
    words = ("trial", "--yes", *pinned(serve(ESTATE)), "--output", "json")
    document = as_json(vgpu_cfg.done(*words, VGPU_CFG_PASSWORD="lab"))
    assert verdicts(document)["alarm-names-are-unique-at-once"] == "holds"


@pytest.mark.parametrize(
    ("step", "open_"), [("objects", {"RemoveAlarm"}), ("global", set()), ("vm", set()), ("gpu", set())]
)
def test_no_call_was_not_shown(vgpu_cfg: CommandLine, watch: Watch, step: str, open_: set[str]) -> None:
    shown = as_json(vgpu_cfg.done(*MADE[step], "--output", "json"))["calls"]
    made = {name: count for name, count in watch.writes.items() if "/rest/" not in name}
    assert made.keys() == {name for name in shown if not name.startswith("attach")}
    assert all(count <= shown[name] for name, count in made.items())
    differing = {name for name, count in made.items() if count != shown[name]}
    assert differing == open_, "a name is not given twice here"


def test_a_dry_run_and_a_question_without_a_terminal_change_nothing(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    assert "CreateAlarm 2" in vgpu_cfg.done("trial", SERVER, "--dry-run").told
    asked = vgpu_cfg("trial", SERVER)
    assert asked.code == 2
    assert "add --yes" in asked.told
    assert not watch.writes


def test_without_the_right_to_delete_it_makes_nothing(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.script(ESTATE, lacking=["Alarm.Delete", "Global.LogEvent"])
    refused = vgpu_cfg(*TRIAL)
    assert refused.code == 5
    assert (
        "nothing was created: the account lacks Alarm.Delete, required to remove its objects"
    ) in refused.told
    assert not watch.writes


@pytest.mark.parametrize("step", MADE)
def test_the_role_that_privileges_lists_is_enough(vgpu_cfg: CommandLine, step: str) -> None:
    roles = as_json(vgpu_cfg.done("privileges", "--trial", step, "--output=json"))["roles"]
    lab = vgpu_cfg.lab(ESTATE)
    held = {one["id"] for role in roles for one in role["privileges"]}
    with lab.transaction():
        lab.state.roles[1] = Role("trial", ("System.Anonymous", "System.Read", "System.View", *sorted(held)))
        lab.state.permissions.append(Permission(lab.state.root, ACCOUNT, 1))
        lab.state.touch()
    document = as_json(vgpu_cfg.done(*as_account([*MADE[step], "--output", "json"])))
    assert list(verdicts(document).values()).count("holds") == HOLD[step]


def test_the_right_to_delete_a_vm_is_asked_for_first(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.script(ESTATE, lacking=["VirtualMachine.Inventory.Delete", "Resource.AssignVMToPool"])
    refused = vgpu_cfg(*VMS)
    assert refused.code == 5
    assert "the account lacks VirtualMachine.Inventory.Delete, required to remove its objects" in refused.told
    assert not watch.writes


def test_a_rejected_call_ends_its_experiment_alone(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "ReconfigureAlarm", "kind": "call", "fault": "InvalidState"})
    document = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))
    assert verdicts(document)["alarm-time-moves"] == "not tried"
    assert verdicts(document)["user-events"] == "holds"
    assert not alarms(vgpu_cfg.lab(ESTATE).state)


def _log_events(lab: Lab) -> None:
    with lab.transaction():
        for _ in range(SHORT_PAGE + 1):
            record(lab, lab.state.objects[lab.state.root], "GeneralUserEvent", message="of others")


def _reconfigure_cluster(lab: Lab) -> None:
    words: Any = vim.event.ChangesInfoEventArgument(modified="dasVmConfig", added="", deleted="")
    with lab.transaction():
        record(lab, lab.state.all(Cluster)[0], "ClusterReconfiguredEvent", configChanges=words)


def _give_a_policy(lab: Lab) -> None:
    with lab.transaction():
        vm = next(vm for vm in lab.state.all(VirtualMachine) if vm.name == "other-1")
        vm.disk_policies[2000] = lab.state.storage_policies[0].id
        lab.state.touch(vm)


IMAGED, FLAT, LIARS = (
    f"{ROOT}/{one}.yaml"
    for one in ("vgpu_cfg/lab/estates/image-4xa100", "vgpu_cfg/lab/estates/two-a100", "tests/lies/estate")
)
READ: dict[str, tuple[str, Callable[[Lab], object]]] = {
    "event-pages-of-1000": (LIARS, _log_events),
    "cluster-event-names-the-override": (LIARS, _reconfigure_cluster),
    "gpu-counter-device-base": (FLAT, str),
    "max-query-metrics": (FLAT, str),
    "policy-key-of-a-disk": (LIARS, _give_a_policy),
    "policy-answer-omits-objects": (LIARS, str),
    "rest-below-rest": (LIARS, str),
    "driver-component-names": (IMAGED, str),
    "base-image-ends-in-build": (IMAGED, str),
}
"""Lies that the step `reading` finds, each with an estate and what happens there before."""
UNCERTAIN = {"event-pages-of-1000", "max-query-metrics"}
"""Of these the honest lab has too few events or GPUs to say that they hold."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "lie",
    each(
        ((one,) for one in LIES if one in TRIED - UNFOUND - READ.keys()),
        "a trial for each lie of the lab",
        IN_SHORT.__contains__,
        one_of=14,
    ),
)
def test_a_lie_is_found_and_nothing_is_left(vgpu_cfg: CommandLine, lie: str) -> None:
    text, words = _liar(lie)
    vgpu_cfg.write("liar.yaml", f"{text}lies: [{lie}]\n")
    before = settings_of(vgpu_cfg.lab("liar.yaml").state)
    document = as_json(vgpu_cfg.done(*VMS, "--server=lab:liar.yaml", *words, "--output=json"))
    assert verdicts(document)[lie] == "does not hold"
    assert document["left"] == []
    assert settings_of(vgpu_cfg.lab("liar.yaml").state) == before


def test_a_step_that_only_reads_asks_for_no_approval_and_names_no_objects(vgpu_cfg: CommandLine) -> None:
    reading, making = (vgpu_cfg("trial", SERVER, "--steps", step) for step in ("reading", "objects"))
    assert (reading.code, making.code) == (0, 2)
    assert [word in reading.out for word in ("TIME", "NAMES", "REMOVES")] == [True, False, False]


@pytest.mark.parametrize("lie", READ)
def test_a_lie_is_found_by_reading_and_nothing_is_written(vgpu_cfg: CommandLine, lie: str) -> None:
    estate, happens = READ[lie]
    text = Path(estate).read_text(encoding="utf-8")
    honest = "not tried" if lie in UNCERTAIN else "holds"
    for name, lies, verdict in (("liar.yaml", lie, "does not hold"), ("honest.yaml", "", honest)):
        vgpu_cfg.write(name, f"{text}lies: [{lies}]\n")
        happens(vgpu_cfg.lab(name))
        before = settings_of(vgpu_cfg.lab(name).state)
        ran = vgpu_cfg.done(*READING, f"--server=lab:{name}", "--output=json")
        assert verdicts(as_json(ran))[lie] == verdict
        assert settings_of(vgpu_cfg.lab(name).state) == before


def test_a_filter_that_finds_nothing_returns_no_other_events(vgpu_cfg: CommandLine) -> None:
    text, words = _liar(lie := "event-filter-by-type-id")
    vgpu_cfg.write("liar.yaml", f"{text}lies: [{lie}]\n")
    document = as_json(vgpu_cfg.done(*VMS, "--server=lab:liar.yaml", *words, "--output=json"))
    (row,) = (one for one in document["beliefs"] if one["id"] == lie)
    assert (row["verdict"], row["seen"]) == ("does not hold", "found by neither spelling")


def _liar(lie: str) -> tuple[str, list[str]]:
    """Return an estate on which a trial can find a lie, and the options for it."""
    if lie in CUSTOMIZED.beliefs:
        return CUSTOMIZING, ["--template=good", "--spec=farm", "--network=prod"]
    if lie == "vgpus-follow-assignment-policy":
        text = (ROOT / "tests/lies/estate.yaml").read_text(encoding="utf-8")
        return text, ["--steps=gpu", "--profile=grid_a100-10c", "--datastore=vsan"]
    if lie in {*GPU_MOVE.beliefs, "drs-keeps-numa-affinity"}:
        text = (ROOT / "tests/cli" / MOVES).read_text(encoding="utf-8")
        return text, ["--steps=gpu", "--profile=grid_a100-8c", "--move-to=esx-02.lab"]
    words = ["--steps=objects,global,vm,gpu,reading", "--datastore=vsan", "--profile=grid_a100d-8c"]
    if lie == "clone-keeps-hardware-version":
        words.append("--template=ubuntu-22.04-efi")
    return (ROOT / "vgpu_cfg/lab/estates/mixed-fleet.yaml").read_text(encoding="utf-8"), words


def test_ctrl_c_removes_everything_and_shows_what_was_tried(vgpu_cfg: CommandLine, watch: Watch) -> None:
    before = kept(vgpu_cfg)

    def interrupt(name: str) -> None:
        if name == "ReconfigureAlarm":
            raise KeyboardInterrupt

    watch.before_call = interrupt
    ran = vgpu_cfg(*TRIAL)
    assert ran.code == 130
    assert "holds: 5" in ran.told
    assert "this trial's objects have been removed" in ran.told
    assert kept(vgpu_cfg) == before


def killed_and_cleaned(
    vgpu_cfg: CommandLine, watch: Watch, words: Sequence[str], number: int, *, is_answered: bool
) -> bool:
    """Kill a trial at a request, and clean; return whether it got so far."""
    was_killed = killed_at(watch, number, is_answered=is_answered)
    with suppress(Killed):
        vgpu_cfg(*words)
    is_killed = was_killed()
    let_live(watch)
    vgpu_cfg.done(*CLEAN)
    return is_killed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_answered", [False, True])
def test_killed_at_any_request_nothing_is_left_that_clean_does_not_remove(
    vgpu_cfg: CommandLine, watch: Watch, *, is_answered: bool
) -> None:
    before, number = kept(vgpu_cfg), 1
    words = (*TRIAL, "--steps", "objects,global")
    while killed_and_cleaned(vgpu_cfg, watch, words, number, is_answered=is_answered):
        assert kept(vgpu_cfg) == before, number
        number += 1
    assert number > 20


SOME_WRITES = {"CreateVM_Task", "CloneVM_Task", "PowerOnVM_Task", "PowerOffVM_Task"}
"""Requests of the step with VMs at which a short test kills; the long one kills at every seventh, too."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize(
    ("step", "some"),
    [
        ("vm", SOME_WRITES),
        ("gpu", SOME_WRITES),
        pytest.param("vm", set(), marks=pytest.mark.exhaustive("it kills at all that writes, and between")),
    ],
)
def test_killed_at_any_request_no_vm_is_left_that_clean_does_not_remove(
    vgpu_cfg: CommandLine, watch: Watch, step: str, some: set[str], *, is_answered: bool
) -> None:
    words = MADE[step]
    before, names = kept(vgpu_cfg), requests(vgpu_cfg, watch, words)
    for number, name in enumerate(names, 1):
        if name in some or not (some or (is_reading(name) and number % 7)):
            assert killed_and_cleaned(vgpu_cfg, watch, words, number, is_answered=is_answered)
            assert kept(vgpu_cfg) == before, (number, name)


def test_ctrl_c_while_a_vm_is_made_removes_it(vgpu_cfg: CommandLine, watch: Watch) -> None:
    before = kept(vgpu_cfg)

    def interrupt(name: str) -> None:
        if name == "CloneVM_Task":
            watch.after_call = lambda _name: None
            raise KeyboardInterrupt

    watch.after_call = interrupt
    ran = vgpu_cfg(*VMS)
    assert ran.code == 130, ran.told
    assert kept(vgpu_cfg) == before


def test_a_clone_of_the_same_account_that_goes_on_keeps_no_object(
    vgpu_cfg: CommandLine, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VCenterThrowAway, "is_busy", lambda *_: True)
    before = kept(vgpu_cfg)
    assert as_json(vgpu_cfg.done(*VMS, "--output", "json"))["left"] == []
    assert kept(vgpu_cfg) == before


def test_a_vm_that_lost_its_mark_is_removed_only_with_all(vgpu_cfg: CommandLine, watch: Watch) -> None:
    number = requests(vgpu_cfg, watch, VMS).index("CloneVM_Task") + 1
    killed_at(watch, number, is_answered=False)
    with pytest.raises(Killed):
        vgpu_cfg(*VMS)
    let_live(watch)
    clock = VirtualClock()
    lab = vgpu_cfg.lab(ESTATE, clock)
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name.startswith("vgpu-cfg-trial-"))
        vm.extra_config.clear()
        vm.instance_uuid = "5d4c3b2a-0000-0000-0000-000000000000"
        clock.advance(timedelta(days=1).total_seconds())
        lab.state.touch(vm)
    kept_one = vgpu_cfg.done("trial", "--clean", "--yes", SERVER).told
    assert "kept: only its name identifies it as a trial object" in kept_one
    removed = as_json(vgpu_cfg.done(*CLEAN, "--output", "json"))
    assert [one["is_removed"] for one in removed["objects"]] == [True]


def test_clean_keeps_what_has_not_expired(vgpu_cfg: CommandLine, watch: Watch) -> None:
    number = requests(vgpu_cfg, watch, TRIAL).index("ReconfigureAlarm") + 1
    killed_at(watch, number, is_answered=False)
    with pytest.raises(Killed):
        vgpu_cfg(*TRIAL)
    let_live(watch)
    (name,) = alarms(vgpu_cfg.lab(ESTATE).state)
    told = vgpu_cfg.done("trial", "--clean", SERVER).told
    assert name in told
    assert "kept: not expired" in told
    clock = VirtualClock()
    lab = vgpu_cfg.lab(ESTATE, clock)
    with lab.transaction():
        clock.advance(timedelta(minutes=26).total_seconds())
        lab.state.touch()
    document = as_json(vgpu_cfg.done("trial", "--clean", "--yes", SERVER, "--output", "json"))
    assert [(one["name"], one["is_removed"]) for one in document["objects"]] == [(name, True)]
    assert "No trial objects remain." in vgpu_cfg.done("trial", "--clean", SERVER).told


def requests(vgpu_cfg: CommandLine, watch: Watch, words: Sequence[str]) -> list[str]:
    """Return the names of a trial's requests, in their order."""
    names: list[str] = []
    watch.before_call = names.append
    vgpu_cfg.done(*words)
    let_live(watch)
    return names


def test_a_wrong_step_is_refused(vgpu_cfg: CommandLine) -> None:
    assert "temporary VMs require --in FOLDER" in vgpu_cfg("trial", "--steps=vm", SERVER).told
    assert "requires a profile" in vgpu_cfg("trial", "--steps=gpu", "--in=training", SERVER).told
    assert "'disk' is not one of objects" in vgpu_cfg("trial", "--steps", "objects,disk", SERVER).told
    assert "requires --clean" in vgpu_cfg("trial", "--all", SERVER).told
