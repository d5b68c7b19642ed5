"""How the VMs read that have GPU devices and may not need them: those that are off, those that seem idle."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.planning.pool.summary import GpuPool, IdleVm
from vgpu_cfg.render.layout.lines import Cell, Column, counted, duration, fold, table
from vgpu_cfg.render.layout.profiles import ladder

_OFF_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("STATE"),
    Column("WOULD NEED", is_flexible=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_IDLE_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("FOLDER", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("HOLDS", is_flexible=True),
    Column("CPU", is_right=True),
    Column("UP", is_right=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_DAY = 86_400


def render_off(pool: GpuPool, width: int) -> list[Text]:
    """List the VMs that have GPU devices and do not run; nothing where there is none."""
    if not pool.off:
        return []
    rows: list[list[Cell]] = [
        [
            holder.vm,
            holder.host,
            "suspended" if holder.state == "suspended" else "off",
            _devices(holder.devices),
            holder.plan,
        ]
        for holder in pool.off
    ]
    lines = [Text(""), Text("HAVE GPU DEVICES AND DO NOT RUN", style="bold")]
    lines += table(_OFF_COLUMNS, rows, width)
    return [
        *lines,
        *_note("vCenter reserves no GPU for them: what they would need counts as free above.", width),
    ]


def render_idle(pool: GpuPool, width: int) -> list[Text]:
    """List the VMs that run with GPU devices and use almost no CPU; nothing where there is none."""
    lines: list[Text] = []
    if pool.idle:
        title = f"RUN WITH GPU DEVICES AND USE LESS THAN {pool.idle_below:g} % OF THEIR CPUS"
        lines += [Text(""), Text(title, style="bold")]
        lines += table(_IDLE_COLUMNS, [_idle_cells(one) for one in pool.idle], width)
        words = (
            "A hint, no proof: vCenter does not report how busy a GPU is, and what it says of CPUs is of "
            "the moment. `nvidia-smi vgpu -u` on the host shows it, for MIG on Ampere nothing does."
        )
        lines += _note(words, width)
    if pool.cpu_untold:
        who = f"{counted(len(pool.cpu_untold), 'VM that runs', 'VMs that run')} with GPU devices"
        lines += _note(f"vCenter reports no CPU use of {who}: {fold_names(pool.cpu_untold)}.", width)
    return lines


def _idle_cells(one: IdleVm) -> list[Cell]:
    return [
        one.vm,
        one.folder,
        one.host,
        _devices(one.devices),
        f"{one.cpu_percent:.1f} %",
        _uptime(one.uptime_seconds),
        one.plan,
    ]


def _uptime(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    return counted(seconds // _DAY, "day") if seconds >= 2 * _DAY else duration(seconds)


def _devices(devices: tuple[str, ...]) -> str:
    return ladder({name: devices.count(name) for name in devices})


def _note(words: str, width: int) -> list[Text]:
    return fold(Text(f"  {words}", style="dim"), width, hang=2)
