"""Guest setup: wait for cloud-init, or deliver a bundle through a shell, and evaluate the guest's report.

Nothing of it blocks: a guest works for itself, and is asked at intervals how far it is, through vCenter where
its tools write the report there, else through the shell. In every case the user data of the clone is removed
from its configuration once the guest has read it, the staging is marked, and the host key that the guest
reports is kept with the mark.

Belief: guest-values-last-while-running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.kinds.guest import ended_text
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import how_to_approve
from vgpu_cfg.errors import (
    GuestError,
    Interrupted,
    LoginFailed,
    NotConfirmed,
    StalePlan,
    Unreachable,
    VgpuCfgError,
)
from vgpu_cfg.execution.guests.session import GUEST_KEYS, GuestSession, InGuest, text_of
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import HeldBack, NeedsManualStep, Step, StepResult, Waiting
from vgpu_cfg.execution.vms.reconfigure import reconfigure
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.guests.guest import (
    AWAITED,
    BEGUN,
    GUEST_MARK_KEY,
    HOST_KEY_KEY,
    REDACTED,
    REPORT_KEY,
    UNKNOWN,
    USERDATA_KEY,
    GuestFile,
    GuestReport,
    GuestSpec,
    ModuleState,
    parse_mark,
    parse_report,
)
from vgpu_cfg.parsers.guest_system import QUESTION, parse_guest_work
from vgpu_cfg.ports import GuestShell

REPORT_FILE = "/var/lib/vgpu-cfg/report.json"
LOG_FILE = "/var/log/vgpu-cfg.log"
FIRST_RUN = "first"
"""The word of the attempt that cloud-init makes at the first boot."""
LONGEST_WHY = 200

_FINISHED = ("present", "done", "warned")
_REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "network": "compare the NICs in the plan file with `ip -br link` in the guest",
        "time": "check whether the guest can reach the servers in `guest.time` on UDP port 123",
        "driver": "set `guest.driver` to a package from a branch that the host driver supports",
        "licence": "get a new token from the license portal, and check the guest's clock",
        "ofed": "set `guest.ofed` to a package for this distribution and kernel, or to `inbox`",
        "containers": (
            "check whether the guest can reach its package sources and has enough free disk space"
        ),
        "toolkit": "check whether the guest can reach the toolkit's package source",
        "registry": "check the password in `training.registry` and the connection to the registry",
        "image": ("check the image name, the connection to its registry, and the guest's free disk space"),
        "shared-folder": "check whether the head exports the folder and the guest can reach it",
    }
)


_SHOWN = 4
_REDACTION = {USERDATA_KEY: REDACTED, f"{USERDATA_KEY}.encoding": " "}
"""User data with which cloud-init itself replaces the redacted data."""
_SILENT = "the guest has not sent a report yet"
_NO_NEWS = (Interrupted, Unreachable, LoginFailed)
"""Errors that prove nothing about the guest: it goes on, and the next run continues with it."""


def stage_guest(change: StageGuest, guests: GuestSession) -> Step:
    """Bring a guest its modules, see that it has them, and mark its VM with them."""
    staging = _Staging(change, guests)
    yield from staging.begin()
    try:
        report = yield from (staging.first_boot() if change.with_clone else staging.by_shell())
        check_done(report, change.spec, change.modules)
    except _NO_NEWS:
        raise
    except VgpuCfgError:
        # What came true is marked all the same, and no secret stays behind.
        try:
            yield from staging.settle()
        except VgpuCfgError as other:
            staging.note(f"could not save the setup state in the VM's settings: {other.message}")
        raise
    finally:
        guests.forget(change.spec.vm)
    yield from staging.settle()
    staging.confirm()
    return StepResult(vm_moid=staging.vm.moid, message=summary_of(report, change.modules))


class _Staging(InGuest):
    """One guest on its way: its VM as last read, its last report, and when its time is up."""

    def __init__(self, change: StageGuest, guests: GuestSession) -> None:
        super().__init__(change, guests, change.spec.wait_seconds)
        self._change = change
        self._report: GuestReport | None = None
        self._mark = ""
        self._host_keys: Mapping[str, str] = {}

    def begin(self) -> Waiting[None]:
        """See that the VM is this plan's and runs. Raises StalePlan."""
        yield from self.find()
        if self._change.with_clone:
            self._run.half_staged[self._spec.vm] = _SILENT

    # ------------------------------------------------------------- the first boot

    def first_boot(self) -> Waiting[GuestReport]:
        """Wait for what cloud-init stages; where nothing comes of it, bring it through a shell.

        Raises NotConfirmed or GuestError where it is not over in time.
        """
        silent_until = self._run.now() + self._options.guest_silence_seconds
        self._host_keys = self._guests.host_keys(self._change)
        while True:
            report = yield from self._from_vcenter(FIRST_RUN)
            if report is None and self._run.now() >= silent_until:
                report = self._from_shell(FIRST_RUN)
                if self._report is None and self._is_left_alone():
                    self.note("cloud-init is not responding; using a shell instead")
                    return (yield from self.by_shell())
            if report is not None and is_over(report):
                return report
            self._check_time()
            yield from self._pause(self._options.guest_poll_seconds)

    def _is_left_alone(self) -> bool:
        """Whether a shell shows that cloud-init does nothing in the guest; without one nothing shows."""
        shell = self._try_shell()
        if shell is None:
            return False
        try:
            return "running" not in shell.run(("cloud-init", "status")).stdout
        except GuestError as error:
            self._lose_shell(error)
            return False

    # ------------------------------------------------------------- a guest that runs

    def by_shell(self) -> Waiting[GuestReport]:
        """Bring the bundle into a guest, start it there, and follow it to its end; the guest may restart.

        Raises GuestError where the guest cannot be reached or does not begin, NotConfirmed where it is late.
        """
        word = self._guests.tools.new_run()
        host_keys = self._known_host_keys()
        bundle = self._guests.tools.stager.bundle(self._spec, self._change.modules, word, host_keys)
        yield from self._await_quiet()
        yield from self._spare_work()
        for file in bundle.files:
            yield from self._in_shell(partial(_write, file))
            self._run.half_staged.setdefault(self._spec.vm, _SILENT)
            yield from self._pause(0)
        self._report = None
        yield from self._in_shell(lambda shell: shell.start(bundle.command))
        return (yield from self._follow(word))

    def _spare_work(self) -> Waiting[None]:
        """Ask the guest what runs in it, if applying the modules would end that and nothing approves it.

        Raises HeldBack. A guest that does not answer counts as busy.
        """
        ended = self._change.ended_in(self.vm)
        approved = {*self._options.allow, *self._run.plan.desired.allow}
        if not ended or Approval.TRAINING in approved:
            return
        answer = yield from self._in_shell(lambda shell: shell.run(("sh", "-c", QUESTION)))
        work = parse_guest_work(answer.stdout)
        if work == ():
            return
        what = ", ".join(work[:_SHOWN]) if work else "details unknown"
        raise HeldBack(
            f"programs are running in the guest ({what}), and this step would cause: {ended_text(ended)}",
            subject=self._spec.vm,
            remedy=f"wait until it finishes and run apply again, or {how_to_approve(Approval.TRAINING)}",
        )

    def _known_host_keys(self) -> Mapping[str, str]:
        """Read the host keys of the peers, and return the unknown peers."""
        self._host_keys = self._guests.host_keys(self._change)
        unknown = [name for name, key in self._host_keys.items() if key == UNKNOWN]
        if unknown:
            self.note(
                f"the host keys for {', '.join(unknown)} are not known yet, so they will not be trusted "
                "until the next run"
            )
        return self._host_keys

    def _await_quiet(self) -> Waiting[None]:
        """Let an earlier staging come to its end, as one whose run was stopped; one that has died is not."""
        until = self._run.now() + self._options.guest_quiet_seconds
        is_stated = False
        while self._run.now() < until:
            content = yield from self._in_shell(lambda shell: shell.read_file(REPORT_FILE))
            report = parse_report(text_of(content))
            if report is None or is_over(report):
                return
            if not is_stated:
                self.note("setup from an earlier run is still in progress in the guest; waiting for it")
            is_stated = True
            yield from self._pause(self._options.guest_poll_seconds)

    def _follow(self, word: str) -> Waiting[GuestReport]:
        begun_by = self._run.now() + self._options.guest_start_seconds
        seconds = self._options.poll_seconds
        while True:
            yield from self._pause(seconds)
            seconds = self._options.guest_poll_seconds
            report = (yield from self._from_vcenter(word)) or self._from_shell(word)
            if report is not None and is_over(report):
                return report
            if self._report is None and self._no_shell is None and self._run.now() >= begun_by:
                raise GuestError(
                    f"{self._spec.vm}: guest setup did not start",
                    subject=self._spec.vm,
                    remedy=f"see {LOG_FILE} in the guest, or `journalctl -b`; then {PLAN_AGAIN}",
                )
            self._check_time()

    # ------------------------------------------------------------- what comes of it

    def settle(self) -> Waiting[None]:
        """Mark the VM with what its guest has, and redact what cloud-init did not: at most one task."""
        self.vm = yield from self._run.present(self._change.vm, GUEST_KEYS)
        before = self._settings()
        wanted: dict[str, str] = {}
        if self._report is not None:
            names = finished_in(self._report, self._spec, self._change.modules)
            stager = self._guests.tools.stager
            until_now = before.get(GUEST_MARK_KEY, "")
            self._mark = stager.mark(self._spec, names, until_now, self._host_keys) if names else ""
            is_whole = parse_mark(self._mark).keys() >= {one.kind for one in self._spec.modules}
            if self._mark and BEGUN in until_now.split() and not is_whole:
                self._mark = f"{BEGUN} {self._mark}"
            wanted |= self._told_host_key(before)
        if self._mark and self._mark != before.get(GUEST_MARK_KEY):
            wanted[GUEST_MARK_KEY] = self._mark
        # What a guest writes may last no longer than it runs: after a clone the task that marks the VM says
        # the same to its configuration, where the secrets were put.
        seen = before.get(USERDATA_KEY, "")
        if seen not in ("", REDACTED) or (wanted and seen and self._change.with_clone):
            wanted |= _REDACTION
        if wanted:
            # Nobody else writes these keys: whatever moves the VM's version meanwhile, they may be written.
            yield from reconfigure(self.vm, VmSpec(extra_config=wanted), f"mark {self.vm.name}", self._run)
            self.vm = yield from self._run.read_back(self.vm.moid, self.vm.name, GUEST_KEYS)

    def _told_host_key(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return the pair that keeps the host key reported by the guest, if it was waited for.

        A guest that was set up before this tool kept any, or is exposed, has a derived one. That one is kept
        if it follows from keys that are replaced: it cannot be derived later.
        """
        told = self._report.host_key if self._report is not None else ""
        kept = before.get(HOST_KEY_KEY, "")
        is_first = not self._spec.is_exposed and not kept and not before.get(GUEST_MARK_KEY, "")
        if told and (kept == AWAITED or is_first):
            return {HOST_KEY_KEY: told}
        former = self._guests.former_host_key(self._spec, self.vm, self._spec.vm)
        return {HOST_KEY_KEY: former} if former else {}

    def confirm(self) -> None:
        """See that the VM shows its mark, and no secret. Raises NotConfirmed."""
        shown = self._settings()
        is_marked = shown.get(GUEST_MARK_KEY, "") == self._mark
        if not is_marked or shown.get(USERDATA_KEY, "") not in ("", REDACTED):
            lacking = "the redacted user data" if is_marked else "the guest setup mark"
            raise NotConfirmed(
                f"{self.vm.name} does not have {lacking}",
                subject=self.vm.name,
                remedy=f"check in vCenter who else is changing {self.vm.name}; then {PLAN_AGAIN}",
            )
        self._run.half_staged.pop(self._spec.vm, None)

    # ------------------------------------------------------------- asking

    def _from_vcenter(self, word: str) -> Waiting[GuestReport | None]:
        """Read the VM again, and the report that its guest's tools wrote there."""
        found = yield from self._run.read_vm(self.vm.moid, GUEST_KEYS)
        if found is None:
            raise StalePlan(
                f"the VM {self.vm.name} no longer exists", subject=self.vm.name, remedy=PLAN_AGAIN
            )
        self.vm = found
        return self._take(self._settings().get(REPORT_KEY, ""), word)

    def _from_shell(self, word: str) -> GuestReport | None:
        """Read the report in the guest, which may lack tools to report it; None if it does not answer."""
        shell = self._try_shell()
        if shell is None:
            return None
        try:
            return self._take(text_of(shell.read_file(REPORT_FILE)), word)
        except GuestError as error:
            self._lose_shell(error)
            return None

    def _take(self, text: str, word: str) -> GuestReport | None:
        """Keep a report of this attempt, and return its progress."""
        report = parse_report(text)
        if report is None or (report.spec, report.run) != (self._spec.digest, word):
            return None
        self._report = report
        at = progress_of(report, self._spec)
        if self._run.half_staged.get(self._spec.vm) != at:
            self._run.half_staged[self._spec.vm] = at
            self.note(at)
        return report

    def _try_shell(self) -> GuestShell | None:
        """Return the guest's shell, None where it does not answer; then it is left alone for a while."""
        if self._run.now() < self._try_shell_after:
            return None
        try:
            shell = self._guests.shell(self._spec, self.vm)
        except GuestError as error:
            self._lose_shell(error)
            return None
        self._no_shell = None
        return shell

    def _check_time(self) -> None:
        if self._run.now() < self._deadline:
            return
        minutes = f"{self._spec.wait_seconds / 60:.0f} min"
        if self._report is not None:
            at = progress_of(self._report, self._spec)
            raise NotConfirmed(
                f"{self._spec.vm}: after {minutes}, guest setup is still at {at}",
                subject=self._spec.vm,
                remedy=f"see {LOG_FILE} in the guest; when it is complete, {PLAN_AGAIN}",
            )
        seen = self.vm.detail.guest if self.vm.detail is not None else None
        has_tools = seen is not None and seen.tools_running
        why = "cloud-init is not responding" if has_tools else "VMware Tools is not running in the guest"
        shell = f", and no shell is available: {self._no_shell.message}" if self._no_shell is not None else ""
        raise GuestError(
            f"{self._spec.vm}: no report from the guest within {minutes}: {why}{shell}",
            subject=self._spec.vm,
            remedy="use a template with cloud-init, open-vm-tools and `datasource_list: [VMware, None]`, "
            "or set `guest.login` to a user in the template (docs/how-to/reach-guests.md)",
        )


def _write(file: GuestFile, shell: GuestShell) -> None:
    shell.write_file(file.path, file.content.encode(), file.mode)


def is_over(report: GuestReport) -> bool:
    """Whether the guest does nothing more by itself."""
    return report.state in ("done", "hand", "failed")


def progress_of(report: GuestReport, spec: GuestSpec) -> str:
    """Say how far a guest is: "driver (7 of 18)"."""
    reported = {one.name for one in report.modules}
    names: list[str] = [one.kind for one in spec.modules if one.kind in reported]
    finished = {one.name for one in report.modules if one.state in _FINISHED}
    at = next((one.name for one in report.modules if one.name in names and one.name not in finished), "")
    if not at:
        return f"{len(finished & set(names))} of {len(names)} modules"
    verb = "restart required: " if report.state == "reboot" else ""
    return f"{verb}{at} ({names.index(at) + 1} of {len(names)})"


def finished_in(report: GuestReport, spec: GuestSpec, modules: Iterable[str]) -> tuple[str, ...]:
    """Name those of the modules that the guest has as the plan wants them."""
    reported = {one.name: one for one in report.modules}
    return tuple(name for name in modules if _is_finished(reported.get(name), spec, name))


def check_done(report: GuestReport, spec: GuestSpec, modules: Iterable[str]) -> None:
    """See that a guest has all of the modules.

    Raises NotConfirmed where one failed or is missing, NeedsManualStep where the rest is manual.
    """
    wanted = tuple(modules)
    stopped = report.first_in("failed" if report.state == "failed" else "hand")
    name, why = (stopped.name, stopped.why) if stopped is not None else ("the guest", "")
    if report.state == "hand":
        raise NeedsManualStep(
            f"{spec.vm}: {name} requires a manual step: {why or 'no details are available'}",
            subject=spec.vm,
            remedy=f"{why or f'see {LOG_FILE} in the guest'}; then run the same command again",
        )
    if report.state == "failed":
        raise NotConfirmed(
            f"{spec.vm}: {name} could not be set up in the guest: {why or 'no reason given'}",
            subject=spec.vm,
            remedy=_remedy(name, why) + f"; for details, see {LOG_FILE} in the guest; then {PLAN_AGAIN}",
        )
    finished = finished_in(report, spec, wanted)
    missing = [name for name in wanted if name not in finished]
    if missing:
        raise NotConfirmed(
            f"{spec.vm}: the guest reports that setup is complete, but modules are missing: "
            f"{', '.join(missing)}",
            subject=spec.vm,
            remedy=f"see {LOG_FILE} in the guest; then {PLAN_AGAIN}",
        )


def summary_of(report: GuestReport, modules: Iterable[str]) -> str:
    """Summarize the result of a completed staging, and the warnings of its modules."""
    reported = {one.name: one.state for one in report.modules}
    names = tuple(modules)
    there = sum(reported.get(name) == "present" for name in names)
    words = [f"{len(names) - there} set up, {there} already present"]
    words += [f"{one.name}: warning: {one.why}" for one in report.modules if one.state == "warned"]
    return "; ".join(words)


def _is_finished(reported: ModuleState | None, spec: GuestSpec, name: str) -> bool:
    module = spec.module(name)
    if reported is None or module is None:
        return False
    return reported.state in _FINISHED and reported.digest == module.digest


def _remedy(name: str, why: str) -> str:
    if name == "licence" and "driver" in why:
        return "make sure the template has NVIDIA's guest driver, or set `guest.driver`"
    return _REMEDIES.get(name, f"find out why {name} is not working in the guest")
