"""How the VMs read that have GPU devices and may not need them: those that are off, those that seem idle."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.pool.summary import GpuPool, IdleVm, reclaim_steps
from vgpu_cfg.render.layout.lines import Cell, Column, fold, hanging, table
from vgpu_cfg.render.layout.many import foremost, others
from vgpu_cfg.render.layout.profiles import ladder
from vgpu_cfg.render.text.pool.use import over, percent

_OFF_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("STATE"),
    Column("WOULD NEED", is_flexible=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_IDLE_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("OWNER", is_flexible=True),
    Column("FOLDER", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("HOLDS", is_flexible=True),
    Column("GPU", is_right=True),
    Column("CPU", is_right=True),
    Column("UP", is_right=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_DAY = 86_400


def render_off(pool: GpuPool, width: int, *, with_all: bool = False) -> list[Text]:
    """List the VMs that have GPU devices and do not run; nothing where there is none."""
    if not pool.off:
        return []
    told, left = foremost(pool.off, with_all=with_all)
    rows: list[list[Cell]] = [
        [
            holder.vm,
            holder.host,
            "suspended" if holder.state == "suspended" else "off",
            _devices(holder.devices),
            holder.plan,
        ]
        for holder in told
    ]
    lines = [Text(""), Text("HAVE GPU DEVICES AND DO NOT RUN", style="bold")]
    lines += table(_OFF_COLUMNS, rows, width)
    lines += others("VMs", ("" for _ in left), width)
    return [
        *lines,
        *_note("vCenter reserves no GPU for them: what they would need counts as free above.", width),
    ]


def render_idle(pool: GpuPool, width: int, *, with_all: bool = False) -> list[Text]:
    """List the VMs that run with GPU devices and seem idle, and what would take them back; else nothing."""
    lines: list[Text] = []
    if pool.idle:
        parts = sorted({"CPUS" if one.past is None else "GPUS" for one in pool.idle}, reverse=True)
        title = f"RUN WITH GPU DEVICES AND USE LESS THAN {pool.idle_below:g} % OF THEIR {' OR '.join(parts)}"
        lines += [Text(""), Text(title, style="bold")]
        told, left = foremost(pool.idle, with_all=with_all)
        lines += table(_IDLE_COLUMNS, [_idle_cells(one) for one in told], width)
        lines += others("VMs", ("" for _ in left), width)
        lines += _certainty(pool, width)
        lines += _reclaim(pool, width, with_all=with_all)
    if pool.cpu_untold:
        who = f"{counted(len(pool.cpu_untold), 'VM that runs', 'VMs that run')} with GPU devices"
        lines += _note(
            f"vCenter reports neither the use of GPUs nor of CPUs of {who}: {fold_names(pool.cpu_untold)}.",
            width,
        )
    return lines


def _idle_cells(one: IdleVm) -> list[Cell]:
    return [
        one.vm,
        one.owner,
        one.folder,
        one.host,
        _devices(one.devices),
        "" if one.past is None else percent(one.past.average_percent),
        "" if one.cpu_percent is None else percent(one.cpu_percent),
        _uptime(one.uptime_seconds),
        one.plan,
    ]


def _certainty(pool: GpuPool, width: int) -> list[Text]:
    """Say how much a row proves."""
    lines: list[Text] = []
    pasts = [one.past for one in pool.idle if one.past is not None]
    if pasts:
        reach = over(min(pasts, key=lambda past: past.span_seconds))
        lines += _note(f"GPU is the mean of the busiest of a VM's GPUs, over {reach} at least.", width)
    if len(pasts) < len(pool.idle):
        words = (
            "CPU alone is a hint, no proof: it is of the moment, and the use of the GPU is not measurable. "
            "`nvidia-smi vgpu -u` on the host shows it, for MIG on Ampere nothing does."
        )
        lines += _note(words, width)
    return lines


def _reclaim(pool: GpuPool, width: int, *, with_all: bool) -> list[Text]:
    """List what would take their GPUs back; nothing is done."""
    lines = [Text(""), Text("WOULD GIVE THEM BACK", style="bold")]
    told, left = foremost(reclaim_steps(pool), with_all=with_all)
    for step in told:
        words = f"ask {step.ask}, then {step.then}: frees {_devices(step.frees)}"
        lines += hanging(step.vm, words, width, label_width=max(len(one.vm) for one in told))
    return lines + others("VMs", ("" for _ in left), width)


def _uptime(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    return counted(seconds // _DAY, "day") if seconds >= 2 * _DAY else duration(seconds)


def _devices(devices: tuple[str, ...]) -> str:
    return ladder({name: devices.count(name) for name in devices})


def _note(words: str, width: int) -> list[Text]:
    return fold(Text(f"  {words}", style="dim"), width, hang=2)
