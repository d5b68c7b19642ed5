"""Answers about work on a vCenter: trials, watches, upgrades, freezes, and the use of GPUs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.plans.estate import make_inventory
from tests.plans.planned import inventory_of
from tests.unit.render import samples
from tests.unit.render.display import Display
from tests.unit.render.pool_displays import POOL
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.knowledge.health_rules import RULES
from vgpu_cfg.model.choices import UseBy
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.locks import Freeze, KeptFreeze, Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.reservations import Spare
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.verification import Sign, Watch, Watched
from vgpu_cfg.planning.doctor.examine import examine
from vgpu_cfg.planning.doctor.ours import Ran, look_around
from vgpu_cfg.planning.doctor.trials import Left, Outline, Step, TrialMark, experiments_of
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.planning.pool.spare import ClusterSpare
from vgpu_cfg.planning.pool.use import UseRow
from vgpu_cfg.planning.upgrade.assess import AffectedHost, AffectedVm, Assessment, Fate, First, Target
from vgpu_cfg.planning.upgrade.waves import Played, Times, Wave, make_waves
from vgpu_cfg.planning.upkeep.absence import think_away
from vgpu_cfg.planning.upkeep.targets import away_of
from vgpu_cfg.render.layout.most import ALL
from vgpu_cfg.render.text.doctor import render_health, render_left, render_ours, render_outline, render_tried
from vgpu_cfg.render.text.estate.upgrade import render_absence, render_rehearsal, render_upgrade
from vgpu_cfg.render.text.pool.use import render_use
from vgpu_cfg.render.text.run.history import render_freezes, render_thawed
from vgpu_cfg.render.text.verification import render_watch
from vgpu_cfg.render.views.estate.inventory import UseTable

if TYPE_CHECKING:
    from rich.text import Text

NOW = samples.READ_AT
SERVER = "vc01.example.com"


def before(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


# ---------------------------------------------------------------- trials

MARK = TrialMark("0a1b2c", NOW + timedelta(days=1))
STEPS = (Step.OBJECTS, Step.GPU)
OUTLINE = Outline(SERVER, MARK, STEPS, experiments_of(STEPS), minutes=12, datastore_mib=20_480)
TRIED = (
    Tried("disabled-alarm-expression", Verdict.HOLDS, "1 object: alarm-7"),
    Tried("alarm-names-are-unique", Verdict.FAILS, "alarm-7, alarm-8"),
    Tried("alarm-time-moves", Verdict.OPEN, ""),
    Tried("recent-tasks", Verdict.OPEN, "no task was shown"),
)
LEFT = (
    Left("alarm", "alarm-7", MARK.name("alarm"), MARK),
    Left("VM", "vm-7", MARK.name("vm"), MARK, is_on=True),
    Left("attribute", "7", MARK.name("attribute"), MARK, is_proven=False),
)
REMAINING = ((LEFT[1], "the account does not have VirtualMachine.Inventory.Delete"),)

# ---------------------------------------------------------------- watches


def watched(rule: str, number: int, *, is_told: bool = False) -> Watched:
    """Return a sign of a host, of a VM, of a GPU, or of a GPU whose host is not known, by its number."""
    host, vm, gpu = ("esx-01", "esx-02", "esx-03", "")[number % 4], ("", "hvd-01")[number % 2], "0000:3b:00.0"
    target = ("host:esx-01", "host:esx-02", f"gpu:esx-03/{gpu}", "")[number % 4]
    lines = tuple(f"line {line} of {rule}" for line in range(number % 6))
    sign = Sign(
        rule=rule,
        host=host,
        vm=vm,
        gpu=gpu if number % 4 > 1 else "",
        target=target,
        words=lines,
        is_now=number % 3 == 0,
    )
    return Watched(sign=sign, since=before(5), held_since=before(4), seen_at=NOW, is_told=is_told)


SIGNS = tuple(watched(rule.key, number, is_told=number % 5 == 0) for number, rule in enumerate(RULES))
WATCH = Watch(
    plan='horovod "a100"',
    server=SERVER,
    at=NOW,
    file="plan.yaml",
    due=SIGNS[:-2],
    pending=SIGNS[:2],
    gone=SIGNS[2:5],
    unread=("hvd-03", "hvd-04"),
    cordoned={"gpu:esx-03/0000:3b:00.0": "cordoned", "host:esx-01": "not cordoned: the account may not"},
)
NOTED = Watch(plan="horovod-a100", server=SERVER, at=NOW, due=SIGNS[-2:])
QUIET = Watch(plan="horovod-a100", server=SERVER, at=NOW)

# ---------------------------------------------------------------- upgrades

TARGET = Target(driver="580.95.02", esxi="24859861")
FATES = ((Fate.MOVES, ""), (Fate.OFF, "passthrough"), (Fate.STAYS, "its owner keeps it"))


def affected_vm(host: str, number: int) -> AffectedVm:
    fate, why = FATES[number % 3]
    owner = f"owner-{number}" if number else ""
    return AffectedVm(
        f"vm-{host}-{number}", f"vm-{number}", host, owner, fate, why, 900 * number, has_gpu=True
    )


def affected_host(number: int) -> AffectedHost:
    name = f"esx-{number:02}"
    return AffectedHost(
        name,
        f"host-{number}",
        "/dc1/host/gpu" if number % 2 else "/dc1/host/lab",
        "dc1",
        "nvd-aie",
        "570.124.06" if number < 6 else "",
        "580.95.02",
        "24022510" if number % 3 else "24859861",
        by_image=number % 4 == 0,
        vms=tuple(affected_vm(name, vm) for vm in range(number)),
        blocked="its image is owned by SDDC Manager" if number == 9 else "",
    )


FIRSTS = (First("add the driver to the depot", "govc library.import x.zip"), First("tell the owners"))
UPGRADE = Assessment(
    TARGET,
    tuple(affected_host(number) for number in range(1, 10)),
    FIRSTS,
    {"/dc1/host/gpu": 1, "/dc1/host/lab": 2},
    has_it=3,
    unknown=("esx-20", "esx-21"),
)
UP_TO_DATE = Assessment(Target(fixed=("570.133.20", "535.247.01")), (), (), {}, has_it=3)
BUSY = Assessment(Target(fixed=("570.133.20",)), (affected_host(0),), (), {"/dc1/host/lab": 1}, has_it=0)
TIMES, MEASURED = Times(1800, 900), Times(1200, 600, measured=4)
PLAIN = make_waves(UPGRADE, "Sat 22:00-04:00 Europe/Berlin", TIMES, NOW)
SPARES = (ClusterSpare("gpu", Spare(hosts=1, origin="quotas.yaml:3")),)
WAVES = tuple(
    Wave(one.number, one.opens, one.closes, one.ends, one.hosts, one.is_canary, SPARES) for one in PLAIN
)
PLAYED = tuple(
    Played(
        wave,
        measured=2 * at,
        seconds=3700 * wave.hours - 600 * at,
        done=len(wave.hosts) - at,
        exit_code=6 * at,
    )
    for at, wave in enumerate(PLAIN[:2])
)

# ---------------------------------------------------------------- freezes

STATED = Freeze(
    until=NOW + timedelta(days=2), reason="audit", user="anna", machine="jump-01", since=before(3)
)
FROZEN = KeptFreeze(moid="alarm-7", freeze=STATED, account="LAB\\anna")
ENDED = KeptFreeze(
    moid="alarm-8",
    freeze=STATED.model_copy(update={"until": before(1), "change": "CHG7"}),
    account="LAB\\anna",
)
EDITED = KeptFreeze(moid="alarm-9", freeze=None, account="LAB\\eve")
HOLDER = LockHolder(
    run="5eed5eed5eed", command="apply", plan="demo", user="anna", machine="jump", since=before(1)
)
LOCK = Lock(moid="alarm-1", name=LockName(kind="plan", key="demo"), holder=HOLDER, beat_at=NOW)
FREEZES = Locks(now=NOW, held=(LOCK,), freezes=(FROZEN, ENDED, EDITED))

# ---------------------------------------------------------------- use


def use_row(name: str, **fields: float | tuple[str, ...] | None) -> UseRow:
    values: dict[str, object] = dict.fromkeys(
        (
            "utilization_percent",
            "memory_used_mib",
            "temperature_celsius",
            "power_watts",
            "past_percent",
            "peak_percent",
        )
    )
    return UseRow(**{"name": name, "gpus": 1, "vms": (), **values, **fields})  # type: ignore[arg-type]  # by name


ROWS = (
    use_row("busy", vms=("a", "b"), utilization_percent=71.25, memory_used_mib=40_000, power_watts=310),
    use_row("at rest", utilization_percent=0.0, peak_percent=0.0, past_percent=0.0),
    use_row("was busy", utilization_percent=0.0, peak_percent=93.5, past_percent=12.0),
    use_row("no use", vms=("c",), utilization_percent=0.0, temperature_celsius=41),
    use_row("unmeasured", unmeasured=1),
    use_row("both unmeasured", gpus=2, unmeasured=2),
    use_row("one of two", gpus=2, unmeasured=1, utilization_percent=3.0),
    use_row("", vms=("d",), shared=1),
    use_row("none", gpus=0),
)


def use(width: int) -> list[Text]:
    table = UseTable(ROWS, UseBy.PLAN, None)
    return [*render_use(POOL, table, width), *render_use(POOL, table, width, most=ALL)]


ILL = inventory_of("lost-host-beside-a-change")
HEALTH = examine(ILL, load_catalog(), ("--server", SERVER))
STARTED = RunEntry(run="r1", at=NOW, command="apply", plan="demo", result=RunResult.FAILED, user="jo")
RAN = Ran(STARTED, before(5), before(4), ("Sat 22:00",))
OURS = look_around(ILL, load_catalog(), (RAN,), ("--server", SERVER), ("no journal of r1 was found",))
SOUND = look_around(inventory_of("orphan-stays"), load_catalog(), (RAN,), ("--server", SERVER), ())
A100, L40S = (
    {"board": board, "pci": f"0000:{bus}:00.0", "node": 0} for board, bus in (("A100", 21), ("L40S", 22))
)
RUNS = {"host": "esx-01", "gpus": ["grid_a100-10c"], "on": [A100["pci"]], "memory_gib": 16, "migrates": True}
AWAY = make_inventory(
    {
        "hosts": {"esx-01": {"gpus": [A100, L40S]}, "esx-02": {"gpus": [A100]}},
        "vms": {"a": RUNS, "b": RUNS | {"gpus": ["nvidia_l40s-48c"], "on": [L40S["pci"]]}},
    }
)


def ours(width: int) -> list[Text]:
    return [
        line for found in (OURS, SOUND) for line in render_ours(found, width, next_command="vgpu-cfg plan")
    ]


def absences(width: int) -> list[Text]:
    """Think away the host of a VM, and its cluster."""
    desired = DesiredPlan(name="fit", vcenter=SERVER)
    ways = [away_of(word, AWAY) for word in (f"host:{AWAY.hosts[0].name}", "cluster:gpu")]
    found = [think_away(way, AWAY, load_catalog(), desired) for way in ways]
    return [line for one in found for line in render_absence(one, SERVER, width)]


DISPLAYS: dict[str, Display] = {
    "health": lambda width: render_health(HEALTH, SERVER, width),
    "status-without-plan": ours,
    "absences": absences,
    "trial": lambda width: [*render_outline(OUTLINE, width), *render_tried(TRIED, width)],
    "trial-left": lambda width: [*render_left(LEFT, LEFT[:1], width), *render_left((), (), width)],
    "watch": lambda width: render_watch(WATCH, width),
    "watch-noted": lambda width: [*render_watch(NOTED, width), *render_watch(QUIET, width)],
    "upgrade": lambda width: render_upgrade(UPGRADE, WAVES, TIMES, SERVER, width),
    "upgrade-all": lambda width: render_upgrade(UPGRADE, PLAIN, MEASURED, SERVER, width, with_all=True),
    "upgrade-nothing": lambda width: [
        *render_upgrade(UP_TO_DATE, (), TIMES, SERVER, width),
        *render_upgrade(BUSY, (), TIMES, SERVER, width),
    ],
    "upgrade-rehearsed": lambda width: render_rehearsal(PLAYED, width),
    "freezes": lambda width: [
        *render_freezes(FREEZES, width),
        *render_thawed((FROZEN, EDITED), width),
        *render_thawed((), width),
    ],
    "use": use,
}
