"""Checks of the exporters of metrics, and of the Prometheus that reads them."""

from __future__ import annotations

from collections.abc import Generator

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.wording import counted
from vgpu_cfg.parsers.metrics import gpus_in_metrics, names_in_metrics, parse_up
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Step,
    Verdict,
    failed,
    is_absent,
    passed,
    said,
    skipped,
)
from vgpu_cfg.verification.views import GuestView

DCGM_PORT, NODE_PORT, PROMETHEUS_PORT = 9400, 9100, 9090
_SECONDS = 20


def ask_exporters(view: GuestView) -> Asking:
    """Check that the exporters answer for every GPU, and that Prometheus reaches them."""
    monitoring = view.monitoring
    if monitoring is None:
        return skipped("the plan does not set up monitoring in the guest")
    if monitoring.role == "server":
        return (yield from _ask_server(len(monitoring.targets)))
    node = yield from _get(f"http://127.0.0.1:{NODE_PORT}/metrics")
    if node.status != 0:
        return _silent("the node exporter", NODE_PORT, node)
    names = names_in_metrics(node.stdout)
    if not any(name.startswith("node_") for name in names):
        return failed(
            VerifyCode.EXPORTER_SILENT, "the node exporter returns no data about the guest", "metrics"
        )
    if not view.gpus:
        return passed("the node exporter responds")
    answer = node
    if monitoring.exporter == "dcgm":
        answer = yield from _get(f"http://127.0.0.1:{DCGM_PORT}/metrics")
        if answer.status != 0:
            return _silent("the DCGM exporter", DCGM_PORT, answer)
    told = gpus_in_metrics(answer.stdout)
    if len(told) < view.gpus:
        return failed(
            VerifyCode.EXPORTER_SILENT,
            f"metrics for {counted(len(told), 'GPU')}",
            f"for {view.gpus}, from {monitoring.exporter}",
        )
    return passed(f"metrics for {counted(len(told), 'GPU')} from {monitoring.exporter}, and for the guest")


def _ask_server(targets: int) -> Asking:
    answer = yield from _get(f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/query?query=up")
    if answer.status != 0:
        return _silent("Prometheus", PROMETHEUS_PORT, answer)
    up = parse_up(answer.stdout)
    down = sorted(name for name, is_up in up.items() if not is_up)
    if down or len(up) < targets:
        words = f"{', '.join(down)} down" if down else counted(len(up), "target")
        return failed(VerifyCode.EXPORTER_SILENT, words, f"{max(targets, len(up))} targets that are up")
    return passed(f"Prometheus can reach {counted(len(up), 'target')}")


def _get(address: str) -> Generator[Step, ShellResult, ShellResult]:
    answer = yield Command(
        ("curl", "-fsS", "--max-time", str(_SECONDS), address), timeout_seconds=_SECONDS + 10
    )
    if is_absent(answer):
        words = ("wget", "-q", "-O", "-", "-T", str(_SECONDS), address)
        answer = yield Command(words, timeout_seconds=_SECONDS + 10)
    return answer


def _silent(who: str, port: int, answer: ShellResult) -> Verdict:
    return failed(VerifyCode.EXPORTER_SILENT, f"{who} on port {port}: {said(answer)}", "metrics")
