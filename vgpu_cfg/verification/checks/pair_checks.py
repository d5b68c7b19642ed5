"""Checks between two VMs: ssh in the mesh, large packets, RDMA bandwidth from host and GPU memory.

Belief: half-bandwidth-means-no-ats, measurement-order-on-real-nics, few-pauses-slow-nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.parsers.rdma.perftest import Bandwidth, lacks_cuda, parse_bandwidth
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    TIMED_OUT,
    Asking,
    Command,
    Pause,
    Step,
    Verdict,
    failed,
    is_absent,
    missing,
    passed,
    said,
    skipped,
    unproven,
)
from vgpu_cfg.verification.checks.guest_checks import BOOT_ID
from vgpu_cfg.verification.checks.link_checks import (
    STORM,
    counted,
    damaged_words,
    lost_words,
    paused_words,
    read_counters,
    stalled_words,
    storm_words,
)
from vgpu_cfg.verification.learned import RdmaNic
from vgpu_cfg.verification.views import PairView

MESH_CONFIG = "/etc/vgpu-cfg/mesh/ssh_config"
FIRST_PORT = 18515
"""Perftest's own port; each pair that is measured at the same time takes the next one."""

ICMP_HEADERS = {4: 28, 6: 48}
"""Of a ping, by the version of IP: 20 or 40 for IP, and 8 for ICMP."""

_NO_SERVER = (
    "Couldn't connect",
    "Unable to perform rdma_client function",
    "Unable to init the socket connection",
    "Unexpected CM event",
    "Failed to create RDMA CM connection",
)
"""A client's message if its server does not listen yet: over a socket, and with `-R`, which all use here.

Source: linux-rdma/perftest, src/perftest_communication.c and src/write_bw.c, old and new.
"""

_PING = ("ping", "-c", "3", "-W", "2")

_CONNECT_ATTEMPTS = 5
_START_SECONDS = 30
_OVER = 1.02
"""A result above the line rate by this much did not go over the line."""

_HALF = 0.65
"""Up to this share of what host memory reaches the figure is called half of it."""


def ask_ssh(view: PairView) -> Asking:
    """See whether the source logs in to the target as training does: strictly, by key, without a question."""
    mesh = view.source.mesh
    peers = mesh.peers if mesh is not None else ()
    peer = next((one for one in peers if one.vm == view.target.name), None)
    if peer is None or not peer.names:
        return skipped("not part of the SSH mesh")
    options = ("-F", MESH_CONFIG, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
    answer = yield Command(("ssh", *options, peer.names[0], "cat", BOOT_ID), timeout_seconds=40)
    if is_absent(answer):
        return missing("ssh", "openssh-client")
    if answer.status != 0:
        return failed(VerifyCode.NO_SSH, said(answer), f"a login on port {mesh.port if mesh else 22}")
    wanted, seen = view.target.learned.boot_id, answer.stdout.strip()
    if not wanted:
        return unproven("login works, but the target does not report a boot ID to verify its identity")
    if seen.splitlines()[-1:] != [wanted]:
        return failed(
            VerifyCode.OTHER_MACHINE,
            f"{peer.names[0]} resolves to another machine",
            f"{view.target.name} itself",
        )
    return passed("login works")


def ask_path_mtu(view: PairView) -> Asking:
    """See whether packets as large as the NICs' MTU get through without being cut."""
    reported: list[str] = []
    for own, other in view.rails:
        if own.mtu is None or not other.address:
            continue
        size = min(own.mtu, other.mtu or own.mtu)
        packet = str(size - _headers(other.address))
        words = (*_PING, "-I", own.interface, "-M", "do", "-s", packet, other.address)
        answer = yield Command(words, timeout_seconds=30)
        if is_absent(answer):
            return missing("ping", "iputils-ping (Debian, Ubuntu) or iputils (Red Hat)")
        if answer.status != 0:
            code, expected = VerifyCode.PATH_MTU, f"packets of {size} bytes"
            small = yield Command((*_PING, "-I", own.interface, other.address), timeout_seconds=30)
            if small.status != 0:
                code, expected = VerifyCode.NO_WAY, "a reply to ping"
            return failed(code, _ping_text(answer, other.address), expected)
        reported.append(f"{size} bytes")
    if not reported:
        if view.source.rdma_nics and view.target.rdma_nics:
            return unproven("their RDMA NICs have no addresses for the test")
        return skipped("the two machines do not share an RDMA network")
    return passed(", ".join(dict.fromkeys(reported)))


def _headers(address: str) -> int:
    return ICMP_HEADERS[6 if ":" in address else 4]


def _ping_text(answer: ShellResult, address: str) -> str:
    for line in (*answer.stderr.splitlines(), *answer.stdout.splitlines()):
        if "essage too long" in line or "Frag needed" in line or "packet loss" in line:
            return f"{address}: {line.strip()}"
    return f"{address}: {said(answer)}"


# ---------------------------------------------------------------- bandwidth


def ask_bandwidth(view: PairView) -> Asking:
    """Measure RDMA writes from host memory to host memory, against the line rate."""
    return (yield from _measure(view, gpu=False))


def ask_gpu_bandwidth(view: PairView) -> Asking:
    """Measure RDMA writes from GPU memory to GPU memory, against the line rate."""
    if not (view.source.gpudirect and view.target.gpudirect):
        return skipped("`rdma: gpudirect` is not set on both machines")
    return (yield from _measure(view, gpu=True))


def _measure(view: PairView, *, gpu: bool) -> Asking:
    rails = [(own, other) for own, other in view.rails if own.gid is not None and other.gid is not None]
    if not rails:
        if view.source.rdma_nics and view.target.rdma_nics:
            return unproven("their RDMA NICs have no RoCE v2 addresses for the test")
        return skipped("the two machines do not share an RDMA network")
    share = view.thresholds.gpu_memory if gpu else view.thresholds.host_memory
    found: list[tuple[float, float | None, str]] = []
    before = yield from read_counters(view, rails)
    for own, other in rails:
        answer = yield from _write_bw(view, own, other, gpu=gpu)
        if is_absent(answer):
            return missing("ib_write_bw", "perftest")
        if gpu and lacks_cuda(answer.stdout + answer.stderr):
            return _without_cuda()
        measured = _result_of(answer)
        if gpu and not measured.used_gpu:
            return _without_cuda()
        rates = [nic.line_rate_gbps for nic in (own, other) if nic.line_rate_gbps]
        found.append((measured.average_gbps, min(rates, default=None), own.device))
    counts = counted(before, (yield from read_counters(view, rails)))
    return _assess(view, found, share, counts, gpu=gpu)


def _without_cuda() -> Verdict:
    return unproven("perftest in these guests was built without CUDA (the distribution default)")


def _result_of(answer: ShellResult) -> Bandwidth:
    if answer.status == TIMED_OUT:
        raise UnreadableOutput("ib_write_bw", "did not finish in time", line=said(answer))
    return parse_bandwidth(answer.stdout + answer.stderr)


def _write_bw(
    view: PairView, own: RdmaNic, other: RdmaNic, *, gpu: bool
) -> Generator[Step, ShellResult, ShellResult]:
    """Start a server on the target, measure from the source, and stop the server whatever happens."""
    port = FIRST_PORT + view.number
    unit = f"vgpu-cfg-verify-{port}"
    limit = view.thresholds.seconds + _START_SECONDS
    on_source, on_target = view.source.name, view.target.name
    roce = view.source.roce
    marks = ("-T", str(roce.traffic_class)) if roce is not None else ()
    cuda = ["--use_cuda=0"] if gpu else []
    end = ("-F", "--report_gbits", "-D", str(view.thresholds.seconds), "-p", str(port), *cuda)
    server = (
        "ib_write_bw",
        "-d",
        other.device,
        "-i",
        str(other.port),
        "-x",
        str(other.gid),
        "-R",
        *marks,
        *end,
    )
    client = ("ib_write_bw", "-d", own.device, "-i", str(own.port), "-x", str(own.gid), "-R", *marks, *end)
    life = ("systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--property=RuntimeMaxSec={limit + 30}")
    try:
        answer = yield Command((*life, *server), on=on_target)
        if answer.status != 0:
            return answer
        for _ in range(_CONNECT_ATTEMPTS):
            yield Pause(1)
            bounded = ("timeout", "--kill-after=5", str(limit), *client, other.address)
            answer = yield Command(bounded, on=on_source, timeout_seconds=limit + 20)
            if not any(words in answer.stdout + answer.stderr for words in _NO_SERVER):
                break
    finally:
        yield Command(("systemctl", "stop", unit), on=on_target, is_cleanup=True)
    return answer


def _assess(
    view: PairView,
    found: list[tuple[float, float | None, str]],
    share: float,
    counts: Mapping[str, float],
    *,
    gpu: bool,
) -> Verdict:
    slowest = min(found, key=lambda one: one[0] / (one[1] or one[0] or 1))
    rate, line, device = slowest
    words = f"{rate:.1f} Gb/s" + (f" on {device}" if len(found) > 1 else "")
    measured = {"gbps": rate} | ({"line_rate_gbps": line, "share": round(rate / line, 3)} if line else {})
    measured |= counts
    if line is None:
        return unproven(
            f"{words}, but the line rate is unknown; set `verify: {{line_gbps: N}}`", measured=measured
        )
    expected = f"at least {share * line:.1f} of {line:g} Gb/s"
    if rate > _OVER * line:
        return unproven(
            f"{words} exceeds the line rate of {line:g} Gb/s, so traffic took a different path",
            measured=measured,
        )
    if rate >= share * line:
        return passed(words, expected, measured=measured)
    if not gpu:
        meaning, remedy = _network_reason(view, counts)
        return failed(
            VerifyCode.SLOW_HOST_MEMORY, words, expected, meaning=meaning, remedy=remedy, measured=measured
        )
    meaning, remedy = _gpu_reason(view, rate)
    return failed(
        VerifyCode.SLOW_GPU_MEMORY, words, expected, meaning=meaning, remedy=remedy, measured=measured
    )


def _network_reason(view: PairView, counts: Mapping[str, float]) -> tuple[str, str]:
    """Explain slow host memory by the NIC counters during the test; blank without evidence."""
    if damaged := damaged_words(view, counts):
        return (
            f"a link corrupts packets: {damaged}",
            (
                "clean or replace the cable and transceiver at the end that reports the errors, then check "
                "its switch port"
            ),
        )
    if lost := lost_words(view, counts):
        return f"packets were lost on the path: {lost}", ""
    if storm := storm_words(view, counts):
        return f"{STORM[0]}: {storm}", STORM[1]
    if stalled := stalled_words(view, counts):
        return (
            f"a NIC waited for PCIe: {stalled}",
            (
                "check the NIC's PCIe link, and that the GPU, NIC and memory are on the same NUMA node; "
                "then check the IOMMU and ATS"
            ),
        )
    if paused := paused_words(view, counts):
        return (
            f"the switch paused traffic: {paused}",
            "check which switch port is congested or sends pauses continuously, and check its PFC watchdog",
        )
    return "", ""


def _gpu_reason(view: PairView, rate: float) -> tuple[str, str]:
    """Explain why GPU memory is slower than host memory, by other observations; blank without evidence."""
    before = view.earlier.get(("bandwidth", view.name))
    host = before.measured.get("gbps", 0.0) if before is not None else 0.0
    if not host or rate > _HALF * host:
        return "", ""
    off = [vm for vm in (view.source.name, view.target.name) if _has_failed(view, "ats", vm)]
    half = f"{rate / host:.0%} of the host memory bandwidth: data passes through the root port"
    if off:
        return (
            f"{half}, because ATS is off on {' and '.join(off)}",
            f"fix {VerifyCode.ATS_OFF} on {' and '.join(off)} first",
        )
    return (
        f"{half}, even though ATS is enabled in the NICs",
        "power-cycle the hosts once (a restart may not be sufficient); GPU and NIC must share a root complex",
    )


def _has_failed(view: PairView, check: str, subject: str) -> bool:
    found = view.earlier.get((check, subject))
    return found is not None and found.state is CheckState.FAILED
