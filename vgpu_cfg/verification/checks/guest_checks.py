"""Checks of a guest itself: that it answers, its staging, its driver, its GPUs and licenses.

Belief: vgpu-name-in-a-guest, vgpu-framebuffer-in-a-guest, licence-renewal-in-time,
licences-left-on-the-server.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.model.wording import counted
from vgpu_cfg.parsers.guest_system import parse_modules
from vgpu_cfg.parsers.nvidia.gpu_health import SOUND, parse_health, troubles_of
from vgpu_cfg.parsers.nvidia.guest_gpus import GuestGpu, parse_guest_query
from vgpu_cfg.parsers.nvidia.smi import parse_lanes
from vgpu_cfg.parsers.nvidia.topology import TOPOLOGY, parse_topology
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Verdict,
    failed,
    is_absent,
    passed,
    said,
    skipped,
    unproven,
)
from vgpu_cfg.verification.checks.machine_checks import signs_of
from vgpu_cfg.verification.views import GuestView

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Made anew by each boot of a machine; a container sees that of its machine (proc(5))."""

_BRAND = re.compile(r"^(?:grid|nvidia)[ _]+")
_NO_SIGN = re.compile(r"[^a-z0-9-]")
_SIZE_SLACK = 0.1
"""Older drivers exclude the memory they reserve for themselves from a framebuffer's size."""

REPORT_FILE = "/var/lib/vgpu-cfg/report.json"


def ask_reached(view: GuestView) -> Asking:
    """See whether commands can be run in the guest."""
    if not view.is_there:
        return failed(
            VerifyCode.GUEST_UNREACHED,
            "the VM does not exist",
            "a running VM",
            remedy="create it: vgpu-cfg apply",
        )
    if view.host_state:
        return failed(
            VerifyCode.GUEST_UNREACHED,
            f"its host {view.host} {view.host_state}",
            "a responding host",
            meaning="the VM's state is unknown",
            remedy=f"reconnect {view.host}; in the meantime, `vgpu-cfg plan` shows where the VM could start",
        )
    if not view.powered_on and not view.shall_run:
        return Verdict(CheckState.NOT_ASKED, why="the VM is powered off, as planned")
    if not view.powered_on:
        return failed(VerifyCode.GUEST_UNREACHED, "the VM is off", "a running VM", remedy="power it on")
    answer = yield Command(("uname", "-r"))
    if answer.status != 0:
        return failed(VerifyCode.GUEST_UNREACHED, said(answer), "a guest that can run commands")
    boot = yield Command(("cat", BOOT_ID))
    learned = view.learned.model_copy(update={"boot_id": boot.stdout.strip() if boot.status == 0 else ""})
    return passed(f"kernel {answer.stdout.strip()}", learned=learned)


_UNFINISHED = {
    "hand": (
        "a manual step is required",
        "perform the step that the module describes, then run `vgpu-cfg apply`",
    ),
    "reboot": ("a restart is required", "run `vgpu-cfg apply --allow-power-cycle`, which restarts the guest"),
    "running": (
        "still running",
        "wait for it to finish (/var/log/vgpu-cfg.log in the guest), then verify again",
    ),
}
"""Words and remedy of each state of a staging that has neither failed nor ended."""


def ask_staged(view: GuestView) -> Asking:
    """Check the guest's report of its last staging."""
    if not view.spec.modules:
        return skipped("nothing is staged in the guest")
    answer = yield Command(("cat", REPORT_FILE))
    if answer.status != 0:
        return failed(VerifyCode.GUEST_UNSTAGED, "the guest has never been staged", "a staging report")
    try:
        report = GuestReport.model_validate_json(answer.stdout)
    except ValueError as error:
        raise UnreadableOutput(REPORT_FILE, "no report", line=answer.stdout[:200]) from error
    return _assess_report(report, view.spec)


def _assess_report(report: GuestReport, wanted: GuestSpec) -> Verdict:
    old = [one.name for one in report.modules if _is_old(one, wanted)]
    if report.state == "done" and not old:
        warned = [_module_text(one) for one in report.modules if one.state == "warned"]
        return passed(
            "; ".join([counted(len(report.modules), "module"), *(f"warns: {text}" for text in warned)])
        )
    if report.state == "done":
        return failed(
            VerifyCode.GUEST_UNSTAGED,
            f"staged from an earlier plan: {', '.join(old)}",
            "the modules of the current plan",
            meaning="the plan has changed since the guest was staged",
            remedy="vgpu-cfg apply",
        )
    stuck = next((one for one in report.modules if one.state in ("failed", "hand", "reboot")), None)
    at = f" at {_module_text(stuck)}" if stuck is not None else ""
    words, remedy = _UNFINISHED.get(report.state, ("staging failed", ""))
    meaning = "some modules have not been staged yet" if remedy else ""
    return failed(
        VerifyCode.GUEST_UNSTAGED, f"{words}{at}", "all modules done", meaning=meaning, remedy=remedy
    )


def _is_old(module: ModuleState, wanted: GuestSpec) -> bool:
    """Whether a module was staged with other parameters; a module removed from the plan stays unchanged."""
    own = wanted.module(module.name)
    return own is not None and bool(module.digest) and module.digest != own.digest


def _module_text(module: ModuleState) -> str:
    return f"{module.name} ({module.why})" if module.why else module.name


def ask_driver(view: GuestView) -> Asking:
    """See whether the driver is loaded and of a branch that the host's takes."""
    if not view.gpus:
        return skipped("the VM has no GPU")
    answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=60)
    if is_absent(answer):
        return failed(VerifyCode.DRIVER_ABSENT, "nvidia-smi is not installed", "the NVIDIA driver")
    try:
        seen = parse_guest_query(answer.stdout or answer.stderr)
    except UnreadableOutput as error:
        with contextlib.suppress(UnreadableOutput):
            seen_health = parse_health(answer.stdout or answer.stderr)
            if bad := troubles_of(seen_health):
                return replace(failed(VerifyCode.GPU_UNSOUND, bad, SOUND), evidence=signs_of(seen_health))
        return (yield from _why_no_driver(error.line or error.message, view))
    branches = view.driver.branches if view.driver is not None else ()
    refused = view.driver.refused if view.driver is not None else ()
    if seen.branch in refused or (branches and not seen.branch):
        return failed(
            VerifyCode.DRIVER_BRANCH, seen.driver_version or "no version", f"branch {' or '.join(branches)}"
        )
    expected = f"branch {' or '.join(branches)}" if branches else ""
    learned = view.learned.model_copy(update={"gpus": seen})
    if branches and seen.branch not in branches:
        why = (
            f"the host driver supports {expected}; whether it supports {seen.driver_version} is not "
            "documented"
        )
        return replace(unproven(why), learned=learned)
    return passed(seen.driver_version or "loaded", expected, learned=learned)


_MISMATCH = "version mismatch"
"""nvidia-smi's word where its libraries are newer or older than the module that is loaded."""


_UNSUPPORTED = "is not supported by the"
"""NVRM's word, between `installed in this system` and `NVIDIA … driver release` (osapi.c of 595.45.04)."""


def _why_no_driver(observed: str, view: GuestView) -> Asking:
    """Say why the driver does not answer: another's module, none for this kernel, another version."""
    if _MISMATCH in observed:
        return failed(
            VerifyCode.DRIVER_ABSENT,
            observed,
            "the NVIDIA driver",
            meaning="the driver's libraries were updated, but the previous kernel module is still loaded",
            remedy="restart the guest to load the matching module",
        )
    answer = yield Command(("lsmod",))
    with contextlib.suppress(UnreadableOutput):
        if "nouveau" in parse_modules(answer.stdout):
            return failed(
                VerifyCode.DRIVER_ABSENT,
                observed,
                "the NVIDIA driver",
                meaning="the GPU is in use by the nouveau driver, so the NVIDIA driver cannot use it",
                remedy="run `sudo vgpu-cfg-stage nouveau` in the guest to disable it, then restart the guest",
            )
    answer = yield Command(("dmesg",))
    if _UNSUPPORTED in answer.stdout:
        return failed(
            VerifyCode.DRIVER_ABSENT,
            observed,
            "the NVIDIA driver",
            meaning="the kernel log shows that the installed driver package does not support these GPUs",
            remedy="install the driver package for guests of your vGPU release, with `-grid` in its name"
            if view.vgpus
            else "install a release of NVIDIA's data center driver that supports them",
        )
    kernel = yield Command(("uname", "-r"))
    answer = yield Command(("modinfo", "-F", "version", "nvidia"))
    if answer.status != 0 and not is_absent(answer):
        return failed(
            VerifyCode.DRIVER_ABSENT,
            observed,
            "the NVIDIA driver",
            meaning=f"there is no NVIDIA module for the running kernel, {kernel.stdout.strip()}",
            remedy="install the headers for that kernel and build the driver for it (`dkms autoinstall`), "
            "or boot the previous kernel",
        )
    return failed(VerifyCode.DRIVER_ABSENT, observed, "the NVIDIA driver")


def ask_gpus(view: GuestView) -> Asking:
    """See whether the guest sees as many GPUs as it was given."""
    yield from ()
    seen = view.learned.gpus
    if seen is None:
        return skipped("the VM has no GPU")
    found = len(seen.gpus)
    names = ", ".join(sorted({gpu.name or "unnamed GPU" for gpu in seen.gpus}))
    if found < view.gpus:
        return failed(VerifyCode.GPUS_MISSING, f"{found}: {names}", str(view.gpus))
    other = _other_gpus(view, seen.gpus)
    if other:
        wanted = ", ".join(dict.fromkeys(" or ".join(names) or "any" for names in view.wanted))
        return failed(VerifyCode.OTHER_GPU, "; ".join(other), f"{view.gpus}: {wanted}")
    if any(gpu.name is None for gpu in seen.gpus) and any(view.wanted):
        return unproven("a GPU does not report its name, so it cannot be compared with the plan")
    return passed(f"{found}: {names}", str(view.gpus), measured={"gpus": found})


MOST_HELD = 0.2
"""A vGPU's driver keeps some of its memory for itself, up to a tenth of small ones; more is in use."""


def ask_held(view: GuestView) -> Asking:
    """See whether the memory of the GPUs is free for training."""
    yield from ()
    gpus = view.learned.gpus.gpus if view.learned.gpus is not None else ()
    taken = [gpu for gpu in gpus if gpu.memory_mib and (gpu.used_mib or 0) > MOST_HELD * gpu.memory_mib]
    if taken:
        # Belief: idle-vgpu-uses-little.
        return failed(VerifyCode.GPU_TAKEN, "; ".join(map(_held_text, taken)), "unused GPU memory")
    if not any(gpu.used_mib is not None for gpu in gpus):
        return skipped("the VM has no GPU that reports its memory usage", is_asked=bool(gpus))
    most = max(gpu.used_mib or 0 for gpu in gpus)
    return passed(f"{most} MiB used")


def _held_text(gpu: GuestGpu) -> str:
    by = f" by {', '.join(gpu.processes)}" if gpu.processes else ", but no process is listed"
    return f"{gpu.used_mib} of {gpu.memory_mib} MiB on {gpu.pci_id} are in use{by}"


def _other_gpus(view: GuestView, seen: Sequence[GuestGpu]) -> list[str]:
    """Say which GPUs are none that the plan asks for, or have another framebuffer than their profile."""
    left = list(view.wanted)
    other: list[str] = []
    for gpu in seen if view.wanted else ():
        fits = next((names for names in left if _is_one_of(gpu, names)), None)
        if fits is None:
            other.append(f"{gpu.pci_id} is {gpu.name}")
            continue
        left.remove(fits)
        size = next((view.framebuffers_mib[name] for name in fits if name in view.framebuffers_mib), None)
        if size and gpu.memory_mib is not None and abs(gpu.memory_mib - size) > _SIZE_SLACK * size:
            other.append(f"{gpu.pci_id} has {gpu.memory_mib} MiB, not {size}")
    for gpu in seen:
        if gpu.is_mig and gpu.mode != "VGPU":
            other.append(f"{gpu.pci_id} is partitioned with MIG")
        if gpu.compute_mode == "Prohibited":
            other.append(f"{gpu.pci_id} does not allow compute work (compute mode Prohibited)")
    held = [name for name in view.profiles if not any(name in names for names in view.wanted)]
    return other + [f"vCenter has assigned {name}" for name in held if view.wanted]


def _is_one_of(gpu: GuestGpu, names: tuple[str, ...]) -> bool:
    """Whether a GPU is of one of these profiles or boards; any will do where none is named."""
    if not names or gpu.name is None:
        return True
    plain = _plain(gpu.name)
    return any(plain == _plain(name) if gpu.mode == "VGPU" else _plain(name) in plain for name in names)


def _plain(name: str) -> str:
    """Return a name as guests and vSphere both have it: GRID A100-40C is grid_a100-40c's."""
    return _NO_SIGN.sub("", _BRAND.sub("", name.casefold()))


def ask_licence(view: GuestView) -> Asking:
    """See whether every vGPU has a licence that has not ended: one per vGPU, not per VM."""
    gpus = view.learned.gpus.gpus if view.learned.gpus is not None else ()
    needing = tuple(gpu for gpu in gpus if gpu.licence is not None or gpu.mode == "VGPU")
    if not needing:
        return skipped("the VM has no vGPU, and its GPUs do not report a license")
    unlicensed = [gpu for gpu in needing if not gpu.is_licensed]
    expected = f"Licensed on all {len(needing)} GPUs" if len(needing) > 1 else "Licensed"
    if unlicensed:
        words = "; ".join(f"{gpu.pci_id} {gpu.licence or 'does not report a license'}" for gpu in unlicensed)
        answer = yield Command(("systemctl", "is-active", "nvidia-gridd"))
        if answer.stdout.strip() in ("inactive", "failed"):
            words = f"{words}; nvidia-gridd is {answer.stdout.strip()}"
            meaning = "nvidia-gridd, which obtains and renews the license, is not running"
            remedy = (
                "run `systemctl enable --now nvidia-gridd` in the guest; for details, see `journalctl -u "
                "nvidia-gridd`"
            )
            return failed(VerifyCode.UNLICENSED, words, expected, meaning=meaning, remedy=remedy)
        return failed(VerifyCode.UNLICENSED, words, expected)
    ended = [gpu for gpu in needing if gpu.expiry is not None and gpu.expiry <= view.now]
    if ended:
        words = "; ".join(f"{gpu.pci_id} Licensed until {_day(gpu)}" for gpu in ended)
        return failed(VerifyCode.LICENCE_ENDS, words, "an unexpired license")
    ends = [gpu.expiry for gpu in needing if gpu.expiry is not None]
    if not ends:
        return passed("Licensed, expiry unknown", expected)
    hours = (min(ends) - view.now).total_seconds() / 3600
    measured = {"days_left": round(hours / 24, 1)}
    least = view.thresholds.licence_hours
    if hours < least:
        words = f"Licensed until {_moment(min(ends))}, in {hours:.1f} h"
        return failed(VerifyCode.LICENCE_SOON, words, f"at least {least:g} h", measured=measured)
    return passed(f"Licensed until {_moment(min(ends))}", expected, measured=measured)


def _day(gpu: GuestGpu) -> str:
    return _moment(gpu.expiry) if gpu.expiry is not None else "an unknown date"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def ask_nvlink(view: GuestView) -> Asking:
    """See whether vGPUs that were asked for as peers are joined by NVLink, each to every other."""
    if view.peers < 2:
        return skipped("no NVLink GPUs were requested for this VM")
    answer = yield Command(("nvidia-smi", "topo", "-m"))
    seen = parse_topology(answer.stdout or answer.stderr)
    found = counted(len(seen.gpus), "GPU")
    if len(seen.gpus) < view.peers:
        raise UnreadableOutput(TOPOLOGY, f"{found}, but {view.peers} were planned with NVLink")
    joined = len(seen.peers(view.peers))
    links = {seen.rows[one][other] for one, other in combinations(seen.gpus, 2)}
    expected = f"NV# between {view.peers} GPUs"
    if joined < view.peers:
        return failed(VerifyCode.NO_NVLINK, f"{', '.join(sorted(links))} between {found}", expected)
    kinds = sorted(link for link in links if link.startswith("NV"))
    answer = yield Command(("nvidia-smi", "nvlink", "--status"))
    lanes = parse_lanes(answer.stdout) if answer.status == 0 else ()
    active = {one.gpu: one.active for one in lanes}
    if any(one.inactive for one in lanes if one.active) or len(set(active.values())) > 1:
        words = ", ".join(f"GPU{one.gpu} {one.active} of {one.active + one.inactive}" for one in lanes)
        return failed(VerifyCode.NVLINK_LANES, words, "all links active on all GPUs")
    told = f", {max(active.values())} links each" if any(active.values()) else ""
    return passed(f"{', '.join(kinds)} between {joined} GPUs{told}", expected)
