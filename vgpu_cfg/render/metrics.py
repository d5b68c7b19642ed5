"""The metrics of an estate for Prometheus: name, labels, meaning and values, a row of the table each.

Names, units and labels follow Prometheus' own advice (prometheus.io/docs/practices/naming): base units, and
shares of 1 called ratio. All are gauges. Unmeasurable values have no sample, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.planning.pool.gpus import PooledGpu
from vgpu_cfg.planning.pool.summary import GpuPool, PoolRow

MIB = 1024 * 1024
Sample = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class PlanState:
    """How far an estate is from a plan file: differences, and findings by severity.

    `expires` maps VMs to the end of their last day, in UTC.
    """

    name: str
    differences: int
    findings: dict[Severity, int]
    is_in_sync: bool
    expires: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a plan. `result` is empty if none is recorded: it goes on, or it was interrupted."""

    plan: str
    command: str
    at: datetime
    result: str


@dataclass(frozen=True, slots=True)
class Site:
    """The source data of the metrics.

    `owners` are those of VMs by host and name; `licences` pairs of a host with the name of one that it has.
    `maintenance` maps GPU hosts to whether they are in that mode, `cordons` are hosts with a GPU or "".
    `spares` counts by cluster the VMs that prevent the required spare. `locks` are runs with their command,
    plan and last heartbeat.
    """

    pool: GpuPool
    read_at: datetime
    owners: dict[tuple[str, str], tuple[str, str]]
    licences: tuple[tuple[str, str], ...] = ()
    maintenance: Mapping[str, bool] = field(default_factory=dict)
    cordons: tuple[tuple[str, str], ...] = ()
    spares: Mapping[str, int] = field(default_factory=dict)
    locks: tuple[tuple[str, str, str, datetime], ...] = ()
    plans: tuple[PlanState, ...] = ()
    runs: tuple[LastRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Site], Iterable[Sample]]


def _by_row(value: Callable[[PoolRow], float]) -> Callable[[Site], Iterator[Sample]]:
    return lambda site: (((row.board, str(row.mode)), value(row)) for row in site.pool.rows)


def _by_profile(counts: Callable[[PoolRow], Iterable[tuple[str, int]]]) -> Callable[[Site], Iterator[Sample]]:
    return lambda site: (
        ((row.board, str(row.mode), profile), count)
        for row in site.pool.rows
        for profile, count in sorted(counts(row))
    )


def _by_gpu(value: Callable[[PooledGpu], float | None]) -> Callable[[Site], Iterator[Sample]]:
    return lambda site: (
        ((gpu.host, gpu.pci_id, gpu.board), found)
        for gpu in site.pool.gpus
        if (found := value(gpu)) is not None
    )


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)


def _mean(gpu: PooledGpu) -> float | None:
    return _share(gpu.use.past.average_percent) if gpu.use and gpu.use.past else None


def _mean_seconds(gpu: PooledGpu) -> float | None:
    return gpu.use.past.span_seconds if gpu.use and gpu.use.past else None


def _memory(gpu: PooledGpu) -> float | None:
    used = gpu.use.memory_used_mib if gpu.use else None
    return None if used is None else used * MIB


def _memory_total(gpu: PooledGpu) -> float | None:
    total = gpu.use.memory_total_mib if gpu.use else None
    return None if total is None else total * MIB


def _holders(site: Site) -> Iterator[Sample]:
    for gpu in site.pool.gpus:
        counts: dict[tuple[str, ...], int] = {}
        for run in gpu.runs:
            plan, owner = site.owners.get((gpu.host_moid, run.vm), ("", ""))
            labels = (gpu.host, gpu.pci_id, run.vm, run.profile, plan, owner)
            counts[labels] = counts.get(labels, 0) + 1
        yield from counts.items()


def _idle(site: Site) -> Iterator[Sample]:
    for one in site.pool.idle:
        yield (one.host, one.vm, one.plan, one.owner, "gpu" if one.past else "cpu"), 1


_POOL = ("board", "mode")
_GPU = ("host", "gpu", "board")

METRICS: tuple[Metric, ...] = (
    Metric(
        "vgpu_cfg_read_timestamp_seconds",
        "Time when vCenter was read, according to this machine's clock.",
        (),
        lambda site: [((), site.read_at.timestamp())],
    ),
    Metric("vgpu_cfg_pool_gpus", "GPUs by board and mode.", _POOL, _by_row(lambda row: row.gpus)),
    Metric(
        "vgpu_cfg_pool_idle_gpus", "Idle GPUs that are ready for use.", _POOL, _by_row(lambda row: row.idle)
    ),
    Metric(
        "vgpu_cfg_pool_not_ready_gpus",
        "GPUs that currently do not accept workloads.",
        _POOL,
        _by_row(lambda row: row.not_ready),
    ),
    Metric(
        "vgpu_cfg_pool_whole_gpus_held",
        "Entire GPUs that are assigned to a VM.",
        _POOL,
        _by_row(lambda row: row.whole_held),
    ),
    Metric(
        "vgpu_cfg_pool_vgpus_used",
        "Running vGPUs by profile.",
        (*_POOL, "profile"),
        _by_profile(lambda row: row.used.items()),
    ),
    Metric(
        "vgpu_cfg_pool_vgpus_free",
        "Number of additional vGPUs of a profile that fit if only this profile is used.",
        (*_POOL, "profile"),
        _by_profile(lambda row: row.room.items()),
    ),
    Metric(
        "vgpu_cfg_pool_stranded_bytes",
        "Free framebuffer that no profile can use.",
        _POOL,
        _by_row(lambda row: row.lost_mib * MIB),
    ),
    Metric(
        "vgpu_cfg_pool_locked_bytes",
        "Free framebuffer that can only be used by vGPUs of the size already running on the GPU.",
        _POOL,
        _by_row(lambda row: row.bound_mib * MIB),
    ),
    Metric(
        "vgpu_cfg_gpu_held",
        (
            "Devices of a running VM on a GPU. profile is empty for a whole GPU; plan and owner are empty "
            "if unknown."
        ),
        ("host", "gpu", "vm", "profile", "plan", "owner"),
        _holders,
    ),
    Metric(
        "vgpu_cfg_gpu_utilization_ratio",
        "GPU utilization in the latest 20-second sample.",
        _GPU,
        _by_gpu(lambda gpu: _share(gpu.use.utilization_percent) if gpu.use else None),
    ),
    Metric(
        "vgpu_cfg_gpu_utilization_mean_ratio",
        "Average GPU utilization over vgpu_cfg_gpu_utilization_mean_seconds.",
        _GPU,
        _by_gpu(_mean),
    ),
    Metric(
        "vgpu_cfg_gpu_utilization_mean_seconds",
        "Averaging period: the data that vCenter retains, at most seven days unless --days is longer.",
        _GPU,
        _by_gpu(_mean_seconds),
    ),
    Metric("vgpu_cfg_gpu_memory_used_bytes", "Framebuffer in use on a GPU.", _GPU, _by_gpu(_memory)),
    Metric("vgpu_cfg_gpu_memory_bytes", "Framebuffer of a GPU.", _GPU, _by_gpu(_memory_total)),
    Metric(
        "vgpu_cfg_gpu_temperature_celsius",
        "Temperature of a GPU.",
        _GPU,
        _by_gpu(lambda gpu: gpu.use.temperature_celsius if gpu.use else None),
    ),
    Metric(
        "vgpu_cfg_gpu_power_watts",
        "Power draw of a GPU.",
        _GPU,
        _by_gpu(lambda gpu: gpu.use.power_watts if gpu.use else None),
    ),
    Metric(
        "vgpu_cfg_gpus_not_measurable",
        "GPUs whose utilization vCenter does not report.",
        (),
        lambda site: [((), sum(gpu.use is None for gpu in site.pool.gpus))],
    ),
    Metric(
        "vgpu_cfg_vm_idle",
        "1 for each running VM with GPU devices that appears idle; judged_by is gpu or cpu.",
        ("host", "vm", "plan", "owner", "judged_by"),
        _idle,
    ),
    Metric(
        "vgpu_cfg_host_licence",
        "1 for each vCenter license of a GPU host; no series if vCenter does not report licenses.",
        ("host", "licence"),
        lambda site: [(pair, 1) for pair in site.licences],
    ),
    Metric(
        "vgpu_cfg_host_in_maintenance",
        "1 if a GPU host is in maintenance mode, otherwise 0.",
        ("host",),
        lambda site: (((host,), is_in) for host, is_in in site.maintenance.items()),
    ),
    Metric(
        "vgpu_cfg_cordoned",
        "1 for each cordon of a host (gpu is empty) or of a GPU.",
        ("host", "gpu"),
        lambda site: [(pair, 1) for pair in site.cordons],
    ),
    Metric(
        "vgpu_cfg_spare_missing_vms",
        (
            "VMs that could not run on another host, for each cluster with `spare` in the quota file; 0 if "
            "there is enough spare capacity."
        ),
        ("cluster",),
        lambda site: (((cluster,), count) for cluster, count in site.spares.items()),
    ),
    Metric(
        "vgpu_cfg_lock_heartbeat_timestamp_seconds",
        "Time of the last heartbeat of a run that holds locks.",
        ("run", "command", "plan"),
        lambda site: (((run, command, plan), at.timestamp()) for run, command, plan, at in site.locks),
    ),
    Metric(
        "vgpu_cfg_vm_expiry_timestamp_seconds",
        "End of the last day of a VM with an expiry date, in UTC.",
        ("plan", "vm"),
        lambda site: (
            ((plan.name, vm), at.timestamp()) for plan in site.plans for vm, at in plan.expires.items()
        ),
    ),
    Metric(
        "vgpu_cfg_plan_differences",
        "Differences from a plan file, as counted by `status`.",
        ("plan",),
        lambda site: (((plan.name,), plan.differences) for plan in site.plans),
    ),
    Metric(
        "vgpu_cfg_plan_in_sync",
        "1 if nothing differs from a plan file, otherwise 0.",
        ("plan",),
        lambda site: (((plan.name,), plan.is_in_sync) for plan in site.plans),
    ),
    Metric(
        "vgpu_cfg_plan_findings",
        "Findings of a plan by severity.",
        ("plan", "severity"),
        lambda site: (
            ((plan.name, str(severity)), count)
            for plan in site.plans
            for severity, count in plan.findings.items()
        ),
    ),
    Metric(
        "vgpu_cfg_last_run_timestamp_seconds",
        "End time of a plan's latest run, or its start time if the end is unknown (result is empty then). "
        "Runs known only from a lock are ignored.",
        ("plan", "command", "result"),
        lambda site: (((run.plan, run.command, run.result), run.at.timestamp()) for run in site.runs),
    ),
)
"""In the order of the output."""
UP = Metric(
    "vgpu_cfg_up",
    "1 if vCenter could be read; otherwise 0, and no other metrics are exported.",
    (),
    lambda _: (),
)


def samples(site: Site) -> Sequence[tuple[Metric, list[Sample]]]:
    """Return the values of every metric, those without one, too."""
    return [(metric, [(labels, float(value)) for labels, value in metric.read(site)]) for metric in METRICS]
