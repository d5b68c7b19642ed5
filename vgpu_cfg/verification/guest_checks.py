"""What is asked of a guest about itself: that it answers, its staging, its driver, its GPUs and licences."""

from __future__ import annotations

from datetime import datetime
from itertools import combinations

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.guest_gpus import GuestGpu, parse_guest_query
from vgpu_cfg.parsers.nvidia_topology import TOPOLOGY, parse_topology
from vgpu_cfg.verification.asking import Asking, Command, Verdict, failed, is_absent, passed, said, skipped
from vgpu_cfg.verification.views import GuestView

REPORT_FILE = "/var/lib/vgpu-cfg/report.json"


def ask_reached(view: GuestView) -> Asking:
    """See whether commands can be run in the guest."""
    if not view.is_there:
        return failed(
            VerifyCode.GUEST_UNREACHED,
            "the VM is not there",
            "a VM that runs",
            remedy="make it: vgpu-cfg apply",
        )
    if view.host_state:
        return failed(
            VerifyCode.GUEST_UNREACHED,
            f"its host {view.host} {view.host_state}",
            "a host that answers",
            meaning="whether the VM runs nobody knows",
            remedy=f"bring {view.host} back; `vgpu-cfg plan` says where the VM could start meanwhile",
        )
    if not view.powered_on:
        return failed(VerifyCode.GUEST_UNREACHED, "the VM is off", "a VM that runs", remedy="power it on")
    answer = yield Command(("uname", "-r"))
    if answer.status != 0:
        return failed(VerifyCode.GUEST_UNREACHED, said(answer), "a guest that runs commands")
    return passed(f"kernel {answer.stdout.strip()}")


def ask_staged(view: GuestView) -> Asking:
    """See what the guest reported of its last staging."""
    if not view.spec.modules:
        return skipped("nothing is staged in it")
    answer = yield Command(("cat", REPORT_FILE))
    if answer.status != 0:
        return failed(VerifyCode.GUEST_UNSTAGED, "it has never been staged", "a report of its staging")
    try:
        report = GuestReport.model_validate_json(answer.stdout)
    except ValueError as error:
        raise UnreadableOutput(REPORT_FILE, "no report", line=answer.stdout[:200]) from error
    return _assess_report(report, view.spec)


def _assess_report(report: GuestReport, wanted: GuestSpec) -> Verdict:
    old = [one.name for one in report.modules if _is_old(one, wanted)]
    if report.state == "done" and not old:
        warned = [_module_text(one) for one in report.modules if one.state == "warned"]
        return passed("; ".join([f"{len(report.modules)} modules", *(f"warns: {text}" for text in warned)]))
    if report.state == "done":
        return failed(
            VerifyCode.GUEST_UNSTAGED,
            f"of an earlier plan: {', '.join(old)}",
            "the modules of this plan",
            meaning="the plan asks for something else by now",
            remedy="vgpu-cfg apply",
        )
    stuck = next((one for one in report.modules if one.state in ("failed", "hand", "reboot")), None)
    at = f" at {_module_text(stuck)}" if stuck is not None else ""
    words = {
        "hand": "it waits for a manual step",
        "reboot": "it waits for a restart",
        "running": "it still runs",
    }
    return failed(
        VerifyCode.GUEST_UNSTAGED, f"{words.get(report.state, 'it failed')}{at}", "all modules done"
    )


def _is_old(module: ModuleState, wanted: GuestSpec) -> bool:
    """Whether a module was staged with other parameters; one that the plan has no more stays as it is."""
    own = wanted.module(module.name)
    return own is not None and bool(module.digest) and module.digest != own.digest


def _module_text(module: ModuleState) -> str:
    return f"{module.name} ({module.why})" if module.why else module.name


def ask_driver(view: GuestView) -> Asking:
    """See whether the driver is loaded and of a branch that the host's takes."""
    if not view.gpus:
        return skipped("it has no GPU")
    answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=60)
    if is_absent(answer):
        return failed(VerifyCode.DRIVER_ABSENT, "there is no nvidia-smi", "NVIDIA's driver")
    try:
        seen = parse_guest_query(answer.stdout or answer.stderr)
    except UnreadableOutput as error:
        return failed(VerifyCode.DRIVER_ABSENT, error.line or error.message, "NVIDIA's driver")
    branches = view.driver.branches if view.driver is not None else ()
    refused = view.driver.refused if view.driver is not None else ()
    if seen.branch in refused or (branches and not seen.branch):
        return failed(
            VerifyCode.DRIVER_BRANCH, seen.driver_version or "no version", f"branch {' or '.join(branches)}"
        )
    expected = f"branch {' or '.join(branches)}" if branches else ""
    learned = view.learned.model_copy(update={"gpus": seen})
    return passed(seen.driver_version or "loaded", expected, learned=learned)


def ask_gpus(view: GuestView) -> Asking:
    """See whether the guest sees as many GPUs as it was given."""
    yield from ()
    seen = view.learned.gpus
    if seen is None:
        return skipped("it has no GPU")
    found = len(seen.gpus)
    names = ", ".join(sorted({gpu.name or "a GPU without a name" for gpu in seen.gpus}))
    if found < view.gpus:
        return failed(VerifyCode.GPUS_MISSING, f"{found}: {names}", str(view.gpus))
    return passed(f"{found}: {names}", str(view.gpus), measured={"gpus": found})


def ask_licence(view: GuestView) -> Asking:
    """See whether every vGPU has a licence that has not ended: one per vGPU, not per VM."""
    yield from ()
    gpus = view.learned.gpus.gpus if view.learned.gpus is not None else ()
    needing = tuple(gpu for gpu in gpus if gpu.licence is not None or gpu.mode == "VGPU")
    if not needing:
        return skipped("it has no vGPU, and its GPUs tell of no licence")
    unlicensed = [gpu for gpu in needing if not gpu.is_licensed]
    expected = f"Licensed, each of {len(needing)}" if len(needing) > 1 else "Licensed"
    if unlicensed:
        words = "; ".join(f"{gpu.pci_id} {gpu.licence or 'says nothing of a licence'}" for gpu in unlicensed)
        return failed(VerifyCode.UNLICENSED, words, expected)
    ended = [gpu for gpu in needing if gpu.expiry is not None and gpu.expiry <= view.now]
    if ended:
        words = "; ".join(f"{gpu.pci_id} Licensed until {_day(gpu)}" for gpu in ended)
        return failed(VerifyCode.LICENCE_ENDS, words, "a licence that has not ended")
    ends = [gpu.expiry for gpu in needing if gpu.expiry is not None]
    if not ends:
        return passed("Licensed, with no end told", expected)
    days = (min(ends) - view.now).total_seconds() / 86400
    return passed(f"Licensed to {_moment(min(ends))}", expected, measured={"days_left": round(days, 1)})


def _day(gpu: GuestGpu) -> str:
    return _moment(gpu.expiry) if gpu.expiry is not None else "an unknown day"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def ask_nvlink(view: GuestView) -> Asking:
    """See whether vGPUs that were asked for as peers are joined by NVLink, not by PCIe alone."""
    if view.peers < 2:
        return skipped("no GPUs of it were asked for with NVLink")
    answer = yield Command(("nvidia-smi", "topo", "-m"))
    seen = parse_topology(answer.stdout or answer.stderr)
    if len(seen.gpus) < view.peers:
        raise UnreadableOutput(TOPOLOGY, f"{len(seen.gpus)} GPUs where {view.peers} were asked for as peers")
    joined = max((len(domain) for domain in seen.nvlink_domains), default=0)
    links = {seen.rows[one][other] for one, other in combinations(seen.gpus, 2)}
    expected = f"NV# between {view.peers} GPUs"
    if joined < view.peers:
        return failed(
            VerifyCode.NO_NVLINK, f"{', '.join(sorted(links))} between {len(seen.gpus)} GPUs", expected
        )
    kinds = sorted(link for link in links if link.startswith("NV"))
    return passed(f"{', '.join(kinds)} between {joined} GPUs", expected)
