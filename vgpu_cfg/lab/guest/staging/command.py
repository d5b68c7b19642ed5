"""The stage command of a bundle, as the lab's guests run it: module by module, each in its time.

It reads the manifest that was written, wants every script to be there, and writes the report as it goes: into
`report.json`, and where VMware's tools are into guestinfo. Nothing of a script is run: what becomes of a
module is judged from its parameters and the guest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.lab.guest.staging import modules_drivers, modules_system, modules_training
from vgpu_cfg.lab.guest.staging.work import FOLDER, MODULES, ModuleFailedError, Work, WorkResult
from vgpu_cfg.lab.guest.system import files, guestinfo
from vgpu_cfg.lab.guest.system.cloud_config import forget_copies
from vgpu_cfg.lab.guest.system.creation import guest_of, make_host_key, told_host_key
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Guest, Staging, Step
from vgpu_cfg.lab.state.inventory import VirtualMachine

_ = (modules_drivers, modules_system, modules_training)  # which fill the table of modules

STAGE = "/usr/local/sbin/vgpu-cfg-stage"
MANIFEST, REPORT, PENDING = f"{FOLDER}/manifest.json", f"{FOLDER}/report.json", f"{FOLDER}/pending"
UNIT = "vgpu-cfg-stage.service"
UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")
LOG = "/var/log/vgpu-cfg.log"
REPORT_NAME, DRIVER_NAME = "vgpu_cfg.report", "vgpu_cfg.driver"
WHY_AT_MOST, REPORT_AT_MOST = 200, 60_000
DONE, REBOOT, HAND, FAILED, USAGE = 0, 10, 20, 1, 2
STAGING, LOCK = "staging", "lock"
"""The awaited event: the end of the caller's own run, or of another that holds the lock."""
RESUME = "--resume"
FIRST = "first"
"""The run that cloud-init starts."""
_NOT_SAID = re.compile(r"[^A-Za-z0-9 .,:;/_+()'=@%?&#<>!*-]")
_DIGEST = re.compile(r"[0-9a-f]{10}")
_VERSION = 1
_EXECUTABLE = 0o100


class BadManifestError(Exception):
    """The manifest is none; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One module of the manifest."""

    name: str
    digest: str
    script: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that was read."""

    spec: str
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry:
        """Return a module that is in it."""
        return next(one for one in self.entries if one.name == name)


def begin_command(lab: Simulation, vm: VirtualMachine, arguments: Sequence[str]) -> int | None:
    """Start the stage command; return its status where it ends at once, None where it runs on."""
    guest = guest_of(vm)
    command = guest.files.get(STAGE)
    if command is None or not command.mode & _EXECUTABLE:
        return 127
    run, wanted = "", []
    words = iter(arguments)
    for word in words:
        if word == RESUME:
            resume(lab, vm)
            return DONE
        if word == "--run":
            run = next(words, "")
        elif word.startswith("-"):
            return USAGE
        else:
            wanted.append(word)
    try:
        manifest = read_manifest(guest)
        known = [one.name for one in manifest.entries]
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise BadManifestError(f"the manifest has no module {unknown[0]}")
    except BadManifestError as error:
        log(lab, guest, str(error))
        return FAILED
    chosen = [one for one in manifest.entries if not wanted or one.name in wanted]
    guest.staging = Staging(
        run,
        tuple(one.name for one in chosen),
        manifest.spec,
        [Step(one.name, one.digest) for one in chosen],
    )
    if not told_host_key(guest):
        make_host_key(guest, vm.uuid, lab.clock.now())
    _keep_pending(lab, guest, guest.staging)
    _tell(lab, vm, "running")
    return advance(lab, vm)


def read_manifest(guest: Guest) -> Manifest:
    """Read the manifest, and see that the lab knows all that is in it. Raises BadManifestError."""
    found = guest.files.get(MANIFEST)
    if found is None:
        raise BadManifestError(f"{MANIFEST} not found")
    try:
        data = json.loads(found.content)
        if data["v"] != _VERSION:
            raise BadManifestError(f"{MANIFEST} is of version {data['v']}")
        parts = [
            Entry(str(one["name"]), str(one["digest"]), str(one["script"]), dict(one["parameters"]))
            for one in data["modules"]
        ]
        spec = str(data["spec"])
        _ = data["plan"], data["vm"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadManifestError(f"{MANIFEST} cannot be read: {type(error).__name__} {error}") from error
    for one in parts:
        if one.name not in MODULES:
            raise BadManifestError(f"unknown module {one.name}")
        if not _DIGEST.fullmatch(one.digest):
            raise BadManifestError(f"the digest of {one.name} is {one.digest!r}")
    return Manifest(spec, tuple(parts))


def advance(lab: Simulation, vm: VirtualMachine) -> int | None:
    """Go on until a module takes time, or all is done; return the exit status then."""
    guest, now = guest_of(vm), lab.clock.now()
    staging = guest.staging
    if staging is None or staging.is_over:
        return None
    manifest = read_manifest(guest)
    while staging.step < len(staging.steps):
        step = staging.steps[staging.step]
        module = MODULES[step.name]
        try:
            work = _work(lab, vm, manifest.entry(step.name))
            if staging.due == 0.0:
                if module.check(work):
                    work.drop_secrets()
                    why = module.warning(work)
                    word = "warned" if why else "done" if step.state == "reboot" else "present"
                    _next(staging, step, word, why)
                    continue
                if step.state == "reboot":
                    raise ModuleFailedError("it requests another restart")
                staging.due = now + lab.clock.scaled(module.seconds(work) * lab.task_seconds)
                lab.state.waking[vm.moid] = staging.due
                _tell(lab, vm, "running")
                return None
            if staging.due > now:
                lab.state.waking[vm.moid] = staging.due
                return None
            outcome = _applied(work, step)
        except ModuleFailedError as error:
            outcome = WorkResult("failed", str(error))
        _next(staging, step, outcome.word, outcome.why)
        log(lab, guest, f"{step.name}: {outcome.word} {outcome.why}".rstrip())
        if outcome.word == "failed":
            return _end(lab, vm, staging, FAILED, "failed")
        if outcome.word == "reboot":
            staging.step -= 1
            return _end(lab, vm, staging, REBOOT, "reboot")
    by_hand = any(step.state == "hand" for step in staging.steps)
    return _end(lab, vm, staging, HAND if by_hand else DONE, "hand" if by_hand else "done")


def _work(lab: Simulation, vm: VirtualMachine, entry: Entry) -> Work:
    script = guest_of(vm).files.get(entry.script)
    if script is None or not script.content.strip():
        raise ModuleFailedError(f"its script {entry.script} is not in the guest: stage this module again")
    return Work(lab, vm, entry.name, entry.parameters, script.content)


def _applied(work: Work, step: Step) -> WorkResult:
    """Apply a module, and check it again, as the stage command does."""
    module = MODULES[step.name]
    outcome = module.apply(work)
    if outcome.word == "done" and not module.check(work):
        raise ModuleFailedError(f"{step.name} is still not in the requested state")
    if outcome.word == "done":
        work.drop_secrets()
        why = module.warning(work)
        return WorkResult("warned", why) if why else outcome
    return outcome


def _next(staging: Staging, step: Step, word: str, why: str) -> None:
    step.state, step.why = word, report_text(why)
    staging.step += 1
    staging.due = 0.0


def report_text(why: str) -> str:
    """Return a reason in the characters that a report may have."""
    return _NOT_SAID.sub("", why)[:WHY_AT_MOST]


def _keep_pending(lab: Simulation, guest: Guest, staging: Staging) -> None:
    words = [*(["--run", staging.run] if staging.run else []), *staging.wanted]
    guest.touch_file(PENDING, " ".join(words) + "\n", mode=0o600, now=lab.clock.now())


def _end(lab: Simulation, vm: VirtualMachine, staging: Staging, status: int, word: str) -> int:
    staging.status = status
    if staging.run == FIRST:
        forget_copies(guest_of(vm), lab.clock.now())
    if status != REBOOT:
        guest_of(vm).files.pop(PENDING, None)
    _tell(lab, vm, word)
    if status != REBOOT:
        _tell_driver(lab, vm)
    return status


def resume(lab: Simulation, vm: VirtualMachine) -> None:
    """Go on with a pending module after a restart, else report the driver; both need the unit."""
    guest = guest_of(vm)
    pending = guest.files.get(PENDING)
    if not any(f"{folder}/{UNIT}" in guest.files for folder in UNIT_FOLDERS):
        return
    if pending is None:
        _tell_driver(lab, vm)
        return
    if guest.staging is None:
        begin_command(lab, vm, pending.content.split())
        return
    guest.staging.status, guest.staging.due = None, 0.0
    _tell(lab, vm, "running")
    advance(lab, vm)


def _tell(lab: Simulation, vm: VirtualMachine, state: str) -> None:
    """Write the report."""
    guest = guest_of(vm)
    staging = guest.staging
    if staging is None:
        return
    report = {
        "spec": staging.spec,
        "run": staging.run,
        "state": state,
        "host_key": told_host_key(guest),
        "modules": [
            {"name": one.name, "state": one.state, "digest": one.digest, "why": one.why}
            for one in staging.steps
        ],
    }
    text = json.dumps(report, separators=(",", ":"))
    guest.touch_file(REPORT, f"{text}\n", now=lab.clock.now())
    if vm.tools_installed and len(text.encode()) < REPORT_AT_MOST:
        guestinfo.write(vm, REPORT_NAME, text)
    lab.state.touch(vm)


def _tell_driver(lab: Simulation, vm: VirtualMachine) -> None:
    """Write the version of the guest's NVIDIA driver, whether it loads or not."""
    if vm.tools_installed and guest_of(vm).driver:
        guestinfo.write(vm, DRIVER_NAME, guest_of(vm).driver)
        lab.state.touch(vm)


def log(lab: Simulation, guest: Guest, line: str) -> None:
    """Add a line to the stage command's log."""
    before = guest.files[LOG].content if LOG in guest.files else ""
    content = f"{before}{line}\n".encode("utf-8", "surrogateescape")
    files.write(guest, LOG, content, mode=0o600, now=lab.clock.now(), parents=True)
