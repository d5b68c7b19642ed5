"""All words of verify as stored texts: each case, each plant, and each tool that is missing or fails.

REWRITE_TRANSCRIPTS=1 writes them anew. Of a scene with a fault only the results that it changes are stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.fakes.answering_guests import NOT_FOUND, Answer, FakeGuest
from tests.plans.planned import desired_of, inventory_of
from tests.sections import left_over, section
from tests.unit.parsers.printed import printed
from tests.unit.verification.cases import CASES
from tests.unit.verification.plants import ENABLED, PLANTS
from tests.unit.verification.test_lossless import IN_IMAGE, OPEN, WITHOUT_PEERMEM
from tests.unit.verification.two_workers import (
    GPU,
    LINK,
    PCIE,
    Scene,
    failing,
    make_scene,
    report_of,
    spec_of,
    trains_by,
)
from tests.value_text import text_of
from vgpu_cfg.model.guest_looks import TemplateRow
from vgpu_cfg.model.guests.modules import GuestModule, NetworkModule
from vgpu_cfg.model.guests.training_modules import MonitoringModule, ScrapeTarget
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import PowerState, Vm
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.verification import CheckResult, CheckState, Thresholds, Verification
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification import Choice, make_guest_views, make_host_views
from vgpu_cfg.verification.checks.guest_checks import REPORT_FILE
from vgpu_cfg.verification.checks.template_checks import TemplateNeeds, look_inside, seen_from_outside
from vgpu_cfg.verification.learned import baseline_of

FILE = Path(__file__).with_name("transcripts.txt")
LONGEST_LINE = 400
RUBBISH = "rubbish: 1\n\n  more, of another tool\n"


def told(result: CheckResult) -> str:
    rows = {
        "seen": result.observed,
        "expected": result.expected,
        "code": result.code,
        "meaning": result.meaning,
        "remedy": result.remedy,
        "why": result.why,
        "evidence": "; ".join(map(text_of, result.evidence)),
        "measured": ", ".join(f"{name} {value:g}" for name, value in result.measured.items() if value),
    }
    head = f"{result.state} {result.check} of {result.subject.name}: {result.title}"
    asked = "" if result.is_asked else ", not asked for"
    return "\n".join([head + asked, *(f"  {key}: {value}" for key, value in rows.items() if value)])


def told_of(report: Verification, healthy: Verification | None = None) -> str:
    """Return the results, except those of the healthy workers; a line for all that were left out alike."""
    known = set() if healthy is None else {told(one) for one in healthy.results}
    results = [one for one in report.results if told(one) not in known]
    left_out: dict[str, list[str]] = {}
    for one in results:
        if one.state is CheckState.NOT_ASKED:
            left_out.setdefault(one.why, []).append(f"{one.check} of {one.subject.name}")
    lines = [told(one) for one in results if one.state is not CheckState.NOT_ASKED]
    return "\n".join([*lines, *(f"not asked: {'; '.join(names)}: {why}" for why, names in left_out.items())])


@cache
def healthy_scene() -> tuple[Scene, Verification]:
    scene = make_scene()
    return scene, scene.run()


def healthy() -> Verification:
    return healthy_scene()[1]


def asked_of(scene: Scene, known: Collection[str] = ()) -> str:
    """Return the commands that guests and hosts were asked to run, and the files that they got."""
    machines = {**scene.guests.guests, **scene.host_shells.guests}
    lines = [f"{name} runs {' '.join(words)}" for name, one in machines.items() for words in one.asked]
    lines += [f"{name} gets {path}" for name, one in machines.items() for path in one.files]
    told = (" ".join(line.split())[:LONGEST_LINE] for line in lines)
    return "\n".join(line for line in dict.fromkeys(told) if line not in known)


@cache
def asked_of_healthy() -> frozenset[str]:
    return frozenset(asked_of(healthy_scene()[0]).splitlines())


@cache
def programs() -> tuple[str, ...]:
    """Return the programs that a healthy guest is asked to run."""
    guests = healthy_scene()[0].guests.guests.values()
    return tuple(sorted({words[0] for guest in guests for words in guest.asked}))


def answered(program: str, answer: ShellResult) -> Callable[[Scene], None]:
    """Return a change by which a program answers so in all guests, whatever it is asked."""

    def change(scene: Scene) -> None:
        for guest in scene.guests.guests.values():
            answers = {words: one for words, one in guest.answers.items() if words[0] != program}
            guest.answers = {**answers, (program,): answer}

    return change


def on_the_host(
    *, mode: str = "True(1)", licence: str = "Licensed", answer: ShellResult | None = None
) -> Callable[[Scene], None]:
    """Return a change by which the shell of the host is open; with an `answer` all its programs give that."""
    query = printed("query-2xa100-esxi-mig-pending.txt").replace("00000000:36:00.0", "00000000:3B:00.0")
    answers: dict[tuple[str, ...], Answer] = {
        ("nvidia-smi", "-q"): query,
        ("/opt/mellanox/bin/mlxconfig", "-d"): printed("mlxconfig-query-e-cx6dx.txt").replace(
            "True(1)", mode
        ),
        ("nvidia-smi", "vgpu", "-q"): printed("vgpu-q-t4.txt").replace(": Licensed", f": {licence}"),
    }

    def change(scene: Scene) -> None:
        view = scene.hosts[0]
        nic = view.host.pci_devices[1].model_copy(update={"passthrough_active": False})
        host = view.host.model_copy(update={"pci_devices": (view.host.pci_devices[0], nic)})
        scene.hosts[0] = replace(view, host=host, has_shell=True)
        scene.host_shells.guests = {
            "esx-01": FakeGuest("esx-01", answers if answer is None else {(): answer})
        }

    return change


def planned_as(change: Callable[[GuestModule], GuestModule | None]) -> Callable[[Scene], None]:
    """Return a change by which both guests are planned with other modules, and report those."""

    def change_scene(scene: Scene) -> None:
        for name, view in scene.views.items():
            modules = tuple(found for module in view.spec.modules if (found := change(module)) is not None)
            spec = view.spec.model_copy(update={"modules": modules})
            scene.change(name, spec=spec)
            scene.answer("cat", REPORT_FILE, by=report_of(spec), of=name)

    return change_scene


def without(*kinds: str) -> Callable[[Scene], None]:
    return planned_as(lambda module: None if module.kind in kinds else module)


def by_driver(module: GuestModule) -> GuestModule:
    """Return a module whose NICs are known by their driver, where a plan knows no MAC address."""
    if not isinstance(module, NetworkModule):
        return module
    nics = tuple(nic.model_copy(update={"mac": "", "driver": "mlx5_core"}) for nic in module.nics[1:])
    return module.model_copy(update={"nics": (module.nics[0], *nics)})


def unreported(part: str, name: str, value: object) -> Callable[[Scene], None]:
    """Return a change by which the host does not report one fact: of its GPUs, itself, or its settings."""

    def change(scene: Scene) -> None:
        view = scene.hosts[0]
        if part == "facts":
            scene.hosts[0] = replace(view, facts=view.facts.model_copy(update={name: value}))
            return
        gpus = tuple(gpu.model_copy(update={name: value} if part == "gpu" else {}) for gpu in view.host.gpus)
        own = {name: value} if part == "host" else {}
        scene.hosts[0] = replace(view, host=view.host.model_copy(update={"gpus": gpus, **own}))

    return change


def reported() -> dict[str, Callable[[Scene], None]]:
    """Return such a change for each fact that the healthy host reports."""
    view = make_scene().hosts[0]
    parts = {"gpu": view.host.gpus[0], "host": view.host, "facts": view.facts}
    return {
        f"{part}.{name} is not reported": unreported(part, name, field.get_default(call_default_factory=True))
        for part, reports in parts.items()
        for name, field in type(reports).model_fields.items()
        if name in reports.model_fields_set and not field.is_required()
    }


def answers(*words: str, by: Answer) -> Callable[[Scene], None]:
    """Return a change by which both guests answer a command so."""

    def change(scene: Scene) -> None:
        for name in scene.views:
            scene.answer(*words, by=by, of=name)

    return change


def both(*changes: Callable[[Scene], object]) -> Callable[[Scene], None]:
    """Return several changes as one."""

    def change(scene: Scene) -> None:
        for one in changes:
            one(scene)

    return change


def of_all_licences(scene: Scene) -> None:
    """Let the host's licenses be asked for all its VMs, as `doctor` does."""
    scene.hosts[0] = replace(scene.hosts[0], licence_of_all=True)


def set_up(state: str) -> Callable[[Scene], None]:
    """Return a change by which the setup of both guests is not over."""

    def change(scene: Scene) -> None:
        for name, view in scene.views.items():
            report = report_of(view.spec).replace('"state":"done"', f'"state":"{state}"', 1)
            scene.answer("cat", REPORT_FILE, by=report, of=name)

    return change


def run_by(runtime: str) -> Callable[[Scene], None]:
    """Return a change by which both guests run containers by another runtime."""

    def changed(module: GuestModule) -> GuestModule:
        return module.model_copy(
            update={"runtime": runtime} if "runtime" in type(module).model_fields else {}
        )

    return planned_as(changed)


def filled(size_gib: int, free_gib: int) -> str:
    """Return df's words for a root of this size."""
    size, free = size_gib << 20, free_gib << 20
    head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    return f"{head}/dev/sda1 {size} {size - free} {free} 50% /\n"


def differing_images(scene: Scene) -> None:
    for name in scene.views:
        scene.answer("sha256sum", by=f"{name}  image.sif\n", of=name)


def collected_by_prometheus(*up: str) -> Callable[[Scene], None]:
    """Return a change by which both guests run Prometheus, which tells so of two targets."""
    rows = [f'{{"metric": {{"instance": "w-{n}"}}, "value": [0, "{value}"]}}' for n, value in enumerate(up)]
    targets = tuple(ScrapeTarget(vm=f"w-{n}", address=f"10.0.0.{n}", port=9100) for n in range(2))
    server = MonitoringModule(role="server", targets=targets)
    address = "http://127.0.0.1:9090/api/v1/query?query=up"
    answer = f'{{"status": "success", "data": {{"result": [{", ".join(rows)}]}}}}'
    return both(
        planned_as(lambda module: server if module.kind == "monitoring" else module),
        answers("curl", "-fsS", "--max-time", "20", address, by=answer) if up else lambda _: None,
    )


def by_name(name: str) -> Callable[[GuestModule], GuestModule]:
    """Return a change of a module whose NICs are known by name or address."""

    def changed(module: GuestModule) -> GuestModule:
        if not isinstance(module, NetworkModule):
            return module
        nics = (nic.model_copy(update={"mac": "", "name": name}) for nic in module.nics[1:])
        return module.model_copy(update={"nics": (module.nics[0], *nics)})

    return changed


def held_to(factor: float, **more: float) -> Callable[[Scene], None]:
    """Return a change by which figures are held against earlier ones, so many times the present ones."""

    def change(scene: Scene) -> None:
        before = baseline_of(healthy())
        first = before.figures[0]
        figures = [one.model_copy(update={"value": one.value * factor}) for one in before.figures]
        figures += [first.model_copy(update={"name": name, "value": value}) for name, value in more.items()]
        scene.baseline = before.model_copy(update={"figures": tuple(figures)})

    return change


def without_rates(scene: Scene) -> None:
    """Let neither port nor catalog list a NIC's maximum speed."""
    for name in scene.views:
        scene.change(name, rates_gbps={})


APPTAINER = both(run_by("apptainer"), answers("apptainer", "--version", by="apptainer version 1.3.4\n"))
KINDS = tuple(module.kind for module in spec_of(1).modules)
FAULTS: dict[str, Callable[[Scene], object]] = {
    **{f"case {case.code.value}": case.change for case in CASES},
    **{f"plant {n} of {plant.check}": plant.change for n, plant in enumerate(PLANTS, 1)},
    **{f"{name} is missing": answered(name, NOT_FOUND) for name in programs()},
    **{f"{name} fails": answered(name, failing("no\n")) for name in programs()},
    "the host's shell is open": on_the_host(),
    "the NIC's firmware has ATS off": on_the_host(mode="False(0)"),
    "the host's programs are missing": on_the_host(answer=NOT_FOUND),
    "the host's programs fail": on_the_host(answer=failing("no\n")),
    "the host's programs print rubbish": on_the_host(answer=ShellResult(status=0, stdout=RUBBISH)),
    "the host's licenses of all VMs": both(on_the_host(), of_all_licences),
    "the host shows a VM without a license": both(on_the_host(licence="Unlicensed"), of_all_licences),
    **{f"the guest's setup is {state}": set_up(state) for state in ("running", "reboot", "hand", "failed")},
    "the worker is masked": answers(*ENABLED, by="masked\n"),
    "a NIC of unknown speed has fewer lanes": both(
        answers(*LINK, by=PCIE.replace(":16\n", ":4\n", 1)),
        answers("ethtool", "ens192", by="Settings for ens192:\n\tSpeed: 100000Mb/s\n\tLink detected: yes\n"),
        without_rates,
    ),
    "the image's NCCL does not support dma-buf": both(
        answers("lsmod", by=WITHOUT_PEERMEM),
        answers("cat", "/proc/driver/nvidia/version", by=OPEN.format("580.95.05")),
        answers("uname", "-r", by="6.8.0-49-generic\n"),
        answers(*IN_IMAGE, by="NCCL version 2.10.3\n"),
    ),
    "the containers run by containerd": run_by("containerd"),
    "the containers run by Apptainer": run_by("apptainer"),
    "Apptainer is there": APPTAINER,
    "Apptainer's image files are alike": both(
        APPTAINER, answers("sha256sum", by=f"{'5a' * 32}  image.sif\n")
    ),
    "Apptainer's image files differ": both(
        APPTAINER,
        differing_images,
    ),
    "the root has little room": answers("df", "-Pk", by=filled(20, 1)),
    "a large root has little room": answers("df", "-Pk", by=filled(1000, 15)),
    "Prometheus sees all": collected_by_prometheus("1", "1"),
    "Prometheus sees one of two": collected_by_prometheus("1", "0"),
    "Prometheus knows one of two": collected_by_prometheus("1"),
    "Prometheus is silent": collected_by_prometheus(),
    "NICs known by their name": planned_as(by_name("ens192")),
    "NICs known by their address": planned_as(by_name("")),
    "a guest has no GPU": lambda scene: scene.change(gpus=0, vgpus=0, wanted=()),
    "a guest is off, as planned": lambda scene: scene.change(powered_on=False, shall_run=False),
    "earlier figures were alike": held_to(1.02),
    "earlier figures were better": held_to(1.5),
    "an earlier figure is missing": held_to(1, gone=7),
    "other VMs use a GPU": lambda scene: scene.hosts.append(
        replace(scene.hosts.pop(), tenants={GPU: ("desk-7",)})
    ),
    **reported(),
    "the kernel's settings cannot be read": unreported("facts", "unread", {FactGroup.KERNEL: "no answer"}),
    "the host's shell cannot be reached": lambda scene: scene.hosts.append(
        replace(scene.hosts.pop(), has_shell=True)
    ),
    "a guest cannot be reached": lambda scene: scene.guests.guests.pop("hvd-02"),  # type: ignore[attr-defined]  # a dict
    **{f"a plan without {kind}": without(kind) for kind in KINDS},
    "a plan without any module": without(*KINDS),
    "a plan without RDMA": planned_as(
        lambda module: module if module.kind not in ("ofed", "roce", "nic-firmware", "network") else None
    ),
    "NICs known by their driver": planned_as(by_driver),
    "a guest is off": lambda scene: scene.change(powered_on=False),
    "a VM is not there": lambda scene: scene.change(is_there=False, powered_on=False),
    "a host does not respond": lambda scene: scene.change(host_state="does not respond"),
    **{
        f"{name} prints rubbish": answered(name, ShellResult(status=0, stdout=RUBBISH)) for name in programs()
    },
}


def test_healthy_workers_are_told_as_it_is_stored() -> None:
    text = told_of(healthy())
    assert text == section(FILE, "healthy", text)


def test_healthy_workers_are_asked_as_it_is_stored() -> None:
    text = asked_of(healthy_scene()[0])
    assert text == section(FILE, "healthy, asked", text)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_as_it_is_stored(name: str) -> None:
    scene = make_scene()
    FAULTS[name](scene)
    report = told_of(scene.run(), healthy())
    text = "\n".join(filter(None, [report, asked_of(scene, asked_of_healthy())]))
    assert text == section(FILE, name, text)


@pytest.mark.parametrize("framework", get_args(Framework))
def test_each_framework_is_told_as_it_is_stored(framework: Framework) -> None:
    scene = trains_by(framework)
    text = "\n".join([told_of(scene.run(), healthy()), asked_of(scene, asked_of_healthy())]).strip()
    assert text == section(FILE, f"trains by {framework}", text)


def test_a_choice_of_checks_is_told_as_it_is_stored() -> None:
    reports = [
        make_scene().run(Choice(is_quick=True)),
        make_scene().run(Choice(only=("driver", "bandwidth"))),
    ]
    text = "\n\n".join(told_of(report) for report in reports)
    assert text == section(FILE, "a choice of checks", text)


def test_a_report_is_told_as_it_is_stored() -> None:
    report = make_scene().run(Choice(is_quick=True, thresholds=Thresholds(loss=0.5)))
    text = text_of(report.model_copy(update={"seconds": 0, "results": ()}))
    assert text == section(FILE, "a report", text)


# ---------------------------------------------------------------- what is asked of which guests and hosts

PLANNED = (
    "guest-firmware-waits-for-the-host",
    "lost-host-and-one-gpu-for-two",
    "reservation-of-a-list",
    "rdma-two-gpus-one-nic",
    "pair-without-bridges-elsewhere",
    "bound-by-its-device",
)
NOT_TOLD = ("spec", "learned", "facts", "now", "thresholds")


def with_a_tenant(observed: Inventory) -> Inventory:
    """Let another VM share the time of each GPU that a VM holds."""
    tenant = Vm(moid="vm-desk", name="desk-7", power_state=PowerState.ON)
    hosts = tuple(
        host.model_copy(
            update={
                "gpus": tuple(
                    gpu.model_copy(update={"vm_moids": (*gpu.vm_moids, tenant.moid)} if gpu.vm_moids else {})
                    for gpu in host.gpus
                )
            }
        )
        for host in observed.hosts
    )
    return observed.model_copy(update={"hosts": hosts, "vms": (*observed.vms, tenant)})


def shown(view: Any) -> str:
    values = {one.name: getattr(view, one.name) for one in fields(view) if one.name not in NOT_TOLD}
    values |= {"host": getattr(values["host"], "name", values["host"])}
    return "\n".join(f"  {name}: {value!r}" for name, value in values.items())


@pytest.mark.parametrize("name", PLANNED)
def test_guests_and_hosts_are_asked_for_as_it_is_stored(name: str) -> None:
    desired, observed = desired_of(name), with_a_tenant(inventory_of(name))
    guests = make_guest_views(desired, observed, {}, now=observed.read_at)
    shells = frozenset(host.moid for host in observed.hosts[:1])
    hosts = make_host_views(desired, observed, open_shells=shells, licence_of_all=True)
    text = "\n".join(["guests", *map(shown, guests), "hosts", *map(shown, hosts)])
    assert text == section(FILE, f"views of {name}", text)


# ---------------------------------------------------------------- templates

WHOLE = FakeGuest(
    "look",
    {
        ("test", "-e"): "",
        ("vmtoolsd", "-v"): "VMware Tools daemon, version 12.3.5\n",
        ("cat", "/run/cloud-init/cloud-id"): "vmware\n",
        ("id", "-u"): "0\n",
        ("uname", "-r"): "5.15.0-112-generic\n",
        ("modinfo",): "570.124.06\n",
        (
            "df",
            "-Pk",
            "/",
        ): "Filesystem 1024-blocks Used Available\n/dev/sda1 66000000 9000000 52428800 15% /\n",
    },
)
BARE = FakeGuest("look", {("id", "-u"): "1000\n", ("uname", "-r"): "5.15.0\n"})
NEEDS = {
    "all": TemplateNeeds(efi=True, driver="template", builds=True, disk_gib=60, refused=("535",)),
    "a package": TemplateNeeds(driver="package", refused=("570",)),
    "another package": TemplateNeeds(driver="package", disk_gib=20),
    "little": TemplateNeeds(cloud_init=False, ssh=False),
}


def rows(found: Sequence[TemplateRow]) -> str:
    return "\n".join(f"  {one.state} {one.name}: {one.found!r} {one.why}".rstrip() for one in found)


@pytest.mark.parametrize("name", NEEDS)
def test_a_template_is_told_as_it_is_stored(name: str) -> None:
    needs = NEEDS[name]
    looks = {
        "whole": look_inside(WHOLE.run, needs),
        "bare": look_inside(BARE.run, needs),
        "from outside": seen_from_outside(needs, firmware="EFI", has_tools=True, reported=True),
        "nothing told": seen_from_outside(needs, firmware="", has_tools=False, reported=False),
    }
    text = "\n".join(f"{look}\n{rows(found)}" for look, found in looks.items())
    assert text == section(FILE, f"a template, {name}", text)


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("/usr/bin/cloud-init 20.4.1-0ubuntu1~18.04.1\n", "requires 21.3 or later"),
        ("/usr/bin/cloud-init 21.3-1-g6803368d-0ubuntu3\n", ""),
        ("", ""),
    ],
)
def test_a_cloud_init_without_the_datasource_is_told(version: str, why: str) -> None:
    guest = FakeGuest(
        "look", {("cat", "/run/cloud-init/cloud-id"): "nocloud\n", ("cloud-init", "--version"): version}
    )
    found = {row.name: row for row in look_inside(guest.run, TemplateNeeds())}
    assert found["cloud-init (VMware datasource)"].why.endswith(why)
    assert bool(found["cloud-init (VMware datasource)"].why) == bool(why)


def test_one_is_not_counted_as_many() -> None:
    assert re.findall(r"(?<![\d.:/-])(?<!of )1 (?:[A-Z]+ )?[A-Za-z]+s\b", FILE.read_text()) == []


def test_no_section_is_left_over() -> None:
    others = {"healthy", "healthy, asked", "a choice of checks", "a report"}
    others |= {f"trains by {framework}" for framework in get_args(Framework)}
    others |= {f"views of {name}" for name in PLANNED} | {f"a template, {name}" for name in NEEDS}
    assert left_over(FILE, {*FAULTS, *others}) == []
