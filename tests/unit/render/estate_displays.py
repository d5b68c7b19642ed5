"""Answers about templates, driver branches, roles, verifications and fixes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.render import samples
from tests.unit.render.display import Display
from vgpu_cfg.changes.privileges import Place
from vgpu_cfg.changes.suggestion import AsFound, Fate, Fix, FixKind, FixPart, Left, OtherVm, Suggestion
from vgpu_cfg.model.guest_looks import (
    BranchPlan,
    BranchVerdict,
    FitsBranch,
    StackPart,
    TemplateLook,
    TemplateLooks,
    TemplateRow,
    TemplateState,
    VmStack,
)
from vgpu_cfg.model.verification import (
    Baseline,
    CheckResult,
    CheckState,
    CheckSubject,
    FailedCheck,
    Figure,
    PastRun,
    Verification,
    VmPlace,
)
from vgpu_cfg.planning.privileges import Command, Reason, Role, Target
from vgpu_cfg.render.text.estate.privileges import render_privileges
from vgpu_cfg.render.text.estate.templates import render_branch_plan, render_template_looks
from vgpu_cfg.render.text.plan.findings import render_fixes
from vgpu_cfg.render.text.plan.whole import render_found
from vgpu_cfg.render.text.verification import render_verification

NOW = samples.READ_AT
SERVER = "vc01.example.com"


# ---------------------------------------------------------------- templates and driver branches

LOOKS = TemplateLooks(
    plan="horovod-a100",
    server=SERVER,
    begun=NOW,
    looks=(
        TemplateLook(
            template="ubuntu-22.04-efi",
            vms="hvd-{01..02}",
            clone="vgpu-cfg-look-1",
            rows=(
                TemplateRow(name="VMware Tools", state=TemplateState.HAS, found="12.3.5"),
                TemplateRow(name="cloud-init", state=TemplateState.LACKS, why="the plan sets the guest up"),
                TemplateRow(name="kernel headers", state=TemplateState.UNKNOWN, found="none of 5.15"),
                TemplateRow(name="NVIDIA driver", state=TemplateState.NOT_ASKED, found="570.124.06"),
            ),
        ),
        TemplateLook(
            template="rhel-9", vms="db", clone="vgpu-cfg-look-2", rows=(), silent="it has no address"
        ),
    ),
    left_over=("vgpu-cfg-look-2",),
)
FITS = BranchVerdict(fits=FitsBranch.YES, why="in the table of R580", source="release notes")
UNKNOWN = BranchVerdict(fits=FitsBranch.UNKNOWN, why="no document names it", ask="ask its maker for R580")
SHUT_OUT = BranchVerdict(fits=FitsBranch.NO, why="its guest driver is R535 or newer")


def part(name: str, target: BranchVerdict, found: str = "1.0") -> StackPart:
    return StackPart(name=name, found=found, today=FITS, target=target)


STACKS = (
    VmStack(
        vm="hvd-01",
        host="esx-01",
        parts=(part("host driver", FITS), part("guest driver", SHUT_OUT), part("CUDA", UNKNOWN, "")),
        order=("update the host", "update the guest driver"),
    ),
    VmStack(vm="hvd-02", host="", parts=(part("CUDA", UNKNOWN),), unread="it is off"),
)
BRANCH = BranchPlan(
    plan="horovod-a100", server=SERVER, begun=NOW, branch="580", about=("R580 ends in 2028",), stacks=STACKS
)

# ---------------------------------------------------------------- roles


def reason(privilege: str, *commands: Command, without: str = "", is_recalled: bool = False) -> Reason:
    return Reason(privilege, commands, ("create VMs", "delete VMs"), without, is_recalled)


ROLES = (
    Role(
        "vgpu-cfg-root",
        (
            reason("Global.CancelTask", Command.APPLY, without="a task goes on"),
            reason("System.Read", Command.APPLY, Command.DESTROY, is_recalled=True),
        ),
        (
            Target(Place.ROOT, "group-d1", "/", propagates=False),
            Target(Place.PORTGROUP, "dvportgroup-7", "/dc1/network/it's", propagates=True),
        ),
    ),
    Role(
        "vgpu-cfg's hosts",
        (reason("Host.Config.Maintenance", Command.DESTROY),),
        (
            Target(Place.CLUSTER, "domain-s9", "/dc1/host/esx-09\x1b", propagates=True),
            Target(Place.TEMPLATE, "vm-4", "/dc1/vm/ubuntu", propagates=False),
            Target(Place.FOLDER, "", "the folder", propagates=True),
        ),
    ),
    Role("", (), (Target(Place.DATASTORE, "datastore-3", "/dc1/datastore/vsan", propagates=False),)),
)

# ---------------------------------------------------------------- verification


def result(kind: str, name: str, check: str, state: CheckState, **fields: Any) -> CheckResult:
    subject = CheckSubject.model_validate(
        {"kind": kind, "name": name, "vms": tuple(name.split(" -> ")) if kind == "pair" else ()}
    )
    made = {
        "subject": subject,
        "check": check,
        "title": check.replace("-", " "),
        "state": state,
        "seconds": 1.5,
    }
    return CheckResult.model_validate(made | fields)


SLOW = {
    "code": "VV001",
    "expected": "90 Gb/s",
    "meaning": "packets are lost",
    "remedy": "look at the switch's counters",
}
RESULTS = (
    result("host", "esx-01", "clock", CheckState.PASSED, observed="0.2 s off"),
    result("host", "esx-01", "ats", CheckState.UNPROVEN, why="the host's shell is closed"),
    result("host", "esx-02", "ats", CheckState.UNPROVEN, why="the host's shell is closed"),
    result("vm", "hvd-01", "driver", CheckState.PASSED, observed="570.124.06"),
    result("vm", "hvd-01", "license", CheckState.SKIPPED, why="the plan asks for none", is_asked=False),
    result(
        "vm", "hvd-02", "driver", CheckState.FAILED, code="VV010", observed="no driver", remedy="install it"
    ),
    result(
        "vm", "hvd-03", "driver", CheckState.FAILED, code="VV010", observed="no driver", remedy="install it"
    ),
    result("vm", "hvd-02", "health", CheckState.NOT_ASKED, why="its driver failed"),
    result("vm", "hvd-02", "clock", CheckState.SKIPPED, why="another check tells it"),
    *(
        result(
            "pair",
            name,
            "bandwidth",
            state,
            observed=f"{gbps} Gb/s",
            measured={"gbps": gbps, "line_rate_gbps": 100, "share": gbps / 100},
            **more,
        )
        for name, state, gbps, more in (
            ("hvd-01 -> hvd-02", CheckState.PASSED, 97.5, {}),
            ("hvd-02 -> hvd-01", CheckState.FAILED, 40, SLOW),
        )
    ),
    result(
        "training", "horovod", "allreduce", CheckState.PASSED, observed="11.2 GB/s", measured={"busbw": 11.2}
    ),
)
PLACES = (
    VmPlace(vm="hvd-01", host="esx-01", profiles=("grid_a100-40c",)),
    VmPlace(vm="hvd-02", host="esx-02"),
)
VERIFIED = Verification(
    plan="horovod-a100",
    server=SERVER,
    begun=NOW,
    seconds=83,
    places=PLACES,
    results=RESULTS,
    unasked=("hvd-04", "hvd-05"),
)
ALL_WELL = VERIFIED.model_copy(
    update={"results": tuple(one for one in RESULTS if one.state is CheckState.PASSED), "unasked": ()}
)
MANY_WELL = ALL_WELL.model_copy(
    update={"results": tuple(result("vm", f"hvd-{n:02}", "driver", CheckState.PASSED) for n in range(8))}
)
NO_CHECK = VERIFIED.model_copy(update={"results": (), "is_quick": True})
NONE_RAN = VERIFIED.model_copy(update={"results": (RESULTS[4], RESULTS[8])})


def figure(name: str, subject: str, value: float) -> Figure:
    return Figure(check="bandwidth", subject=subject, name=name, value=value)


OWN_RUN = PastRun(
    plan="horovod-a100",
    begun=NOW,
    passes=False,
    failed=(FailedCheck(code="VV010", check="driver", subject="hvd-02"),),
    figures=(figure("gbps", "hvd-01 -> hvd-02", 97.5), figure("other", "hvd-02 -> hvd-01", 40)),
)
EARLIER = OWN_RUN.model_copy(
    update={"begun": NOW - timedelta(days=1), "passes": True, "failed": (), "figures": OWN_RUN.figures[1:]}
)
BASELINE = Baseline(
    plan="horovod-a100",
    begun=NOW - timedelta(days=9),
    figures=(figure("gbps", "hvd-01 -> hvd-02", 100), figure("gbps", "hvd-03 -> hvd-01", 98)),
)

# ---------------------------------------------------------------- fixes

MOVED = OtherVm(vm="desk-7", moid="vm-7", fate=Fate.MOVED, host="esx-02", loses=("its pin",))


def fix_part(kind: FixKind, says: str, *lines: str) -> FixPart:
    command, *then = lines or ("",)
    return FixPart(kind=kind, says=says, command=command, then=tuple(then))


FILE = fix_part(FixKind.FILE, "a smaller profile")
EDIT = ("  vms:", "-   - gpu: grid_a100-40c", "+   - gpu: grid_a100-20c")
FIXES = Suggestion(
    tried=9,
    fixes=(
        Fix(parts=(FILE,), lines=EDIT, text="the file", disturbs=("hvd-01: power cycle",), others=(MOVED,)),
        Fix(parts=(FILE, fix_part(FixKind.LEAVE, "two VMs on one host")), lines=EDIT[:2]),
        Fix(parts=(fix_part(FixKind.FLAG, "power cycles", "--allow-power-cycle"),)),
        Fix(parts=(fix_part(FixKind.OUTSIDE, "switch desk-7 off", "govc vm.power -off desk-7", "sleep 9"),)),
        Fix(parts=(FILE, fix_part(FixKind.OUTSIDE, "call the owner of desk-7")), lines=EDIT[:1]),
    ),
)
AS_FOUND = AsFound(
    text="",
    lines=("  vms:", "-     cpus: 8", "+     cpus: 16"),
    vms=("hvd-01", "hvd-02"),
    left=(Left(vm="hvd-03", what="GPU", why="its profile is not in the catalog"),),
)


def found(values: AsFound, *, is_only_shown: bool) -> Display:
    return lambda width: render_found(values, "plan.yaml", width, is_only_shown=is_only_shown)


DISPLAYS: dict[str, Display] = {
    "templates": lambda width: render_template_looks(LOOKS, width),
    "driver-branch": lambda width: render_branch_plan(BRANCH, width),
    "driver-branch-fits": lambda width: render_branch_plan(
        BRANCH.model_copy(update={"stacks": STACKS[1:], "about": ()}), width
    ),
    "privileges": lambda width: render_privileges(
        ROLES, "horovod-a100", SERVER, (Command.APPLY, Command.DESTROY), width
    ),
    "privileges-of-one": lambda width: render_privileges(ROLES[1:2], "a", SERVER, (Command.DESTROY,), width),
    "verify": lambda width: render_verification(VERIFIED, width, next_command="vgpu-cfg verify plan.yaml"),
    "verify-all": lambda width: render_verification(VERIFIED, width, with_all=True),
    "verify-well": lambda width: render_verification(ALL_WELL, width),
    "verify-many": lambda width: render_verification(MANY_WELL, width),
    "verify-no-check": lambda width: render_verification(NO_CHECK, width),
    "verify-none-ran": lambda width: render_verification(NONE_RAN, width),
    "fixes": lambda width: render_fixes(FIXES, width, command="vgpu-cfg plan plan.yaml --write-fix new.yaml"),
    "fixes-written": lambda width: render_fixes(FIXES, width, command="", is_written="new.yaml"),
    "fixes-none-in-time": lambda width: render_fixes(
        Suggestion(tried=8, is_complete=False), width, command=""
    ),
    "found-in-vcenter": found(AS_FOUND, is_only_shown=True),
    "found-nothing": found(AsFound(text=""), is_only_shown=False),
}
