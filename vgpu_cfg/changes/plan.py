"""A plan: changes, findings, places, unknown facts, and the effects on other VMs and hosts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, Self

from pydantic import Field

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import HostRef, Impact, Placement, Subject, is_nothing
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.vgpu import Sharing, VgpuMode


class UnknownSetting(Frozen):
    """A setting that the plan file states and whose value is not known, and why.

    `setting` is a key of the settings table, `title` the same in words. `is_of_shell` is whether only the
    host's shell reports it; `verify` are lines to type there that show it.
    """

    setting: str
    title: str
    device: str = ""
    wanted: str
    why: str
    is_of_shell: bool = True
    verify: tuple[str, ...] = ()


class UnknownHost(Frozen):
    """The unknown settings of one host. They are no difference, and no change of the plan concerns them.

    If all of them differ, `impact` is the most that setting them would disturb, with the number of restarts
    in addition to the plan's own; none of it is part of the plan. If `is_checked_only`, nothing would be set.
    `remedy` is how to find them out.
    """

    host: HostRef
    settings: tuple[UnknownSetting, ...]
    impact: Impact = Impact.NONE
    reboots: int = 0
    cold_boots: int = 0
    is_checked_only: bool = False
    remedy: str = ""


class LostVm(Frozen):
    """A VM of the plan on such a host. `power_state` is what vCenter saw last.

    It could start on `could_start_on` as things are now, together with the others; where that is empty
    `why_not` says what forbids it. With `is_restarted_by_ha` vSphere HA starts it elsewhere by itself once it
    takes the host for dead.
    """

    name: str
    moid: str
    power_state: PowerState
    could_start_on: str = ""
    why_not: str = ""
    is_restarted_by_ha: bool = False


class LostHost(Frozen):
    """A host that does not respond or was disconnected, and the plan's VMs on it."""

    host: HostRef
    connection: Connection
    vms: tuple[LostVm, ...]


class Hindrance(Frozen):
    """An obstacle to the subject of a finding: which hosts, as ranges, and why."""

    subject: str
    reason: str


class Diagnostic(Frozen):
    """A finding. `code` is VGnnn and has a page; `remedy` is the next thing to do.

    `message` is the problem; `hindrances` are its obstacles if there can be several, one row each.
    """

    code: str
    severity: Severity
    subject: Subject
    message: str
    remedy: str = ""
    hindrances: tuple[Hindrance, ...] = ()

    @property
    def text(self) -> str:
        """The problem and its obstacles, as one sentence."""
        rows: dict[str, list[str]] = {}
        for one in self.hindrances:
            rows.setdefault(one.subject, []).append(one.reason)
        words = " | ".join(f"{subject}: {'; '.join(reasons)}" for subject, reasons in rows.items())
        return f"{self.message}: {words}" if words else self.message


class GpuLoad(Frozen):
    """A GPU before the VMs of a plan start: its sharing mode, and (profile, start) of its vGPUs.

    `board` is the catalog's key. GPUs without vGPUs are omitted.
    """

    pci_id: str
    board: str
    sharing: Sharing | None = None
    mode: VgpuMode = VgpuMode.SAME_SIZE
    mixes_series: bool = True
    held: tuple[tuple[str, int | None], ...] = ()


class StartQueue(Frozen):
    """VMs of one host that must be started one by one, the next chosen by the GPUs that ESXi gave the others.

    `gpus` are the host's GPUs of one board, `peer_sets` the addresses of those that a device group takes
    together. `starts` gives the profiles of each VM with the number of its group of peers.
    """

    host_moid: str
    gpus: tuple[GpuLoad, ...]
    peer_sets: tuple[tuple[str, ...], ...] = ()
    starts: Mapping[str, tuple[tuple[str, int | None], ...]]


class Canary(Frozen):
    """Hosts or VMs that go first, and the changes that wait for their verification and approval.

    `first` are the ids of the changes that must have come true before, `held` those that wait, to `others`.
    """

    names: tuple[str, ...]
    others: tuple[str, ...]
    first: tuple[str, ...]
    held: tuple[str, ...]


class BeliefsHere(Frozen):
    """The verdicts on beliefs of vgpu-cfg at the vCenter of a plan.

    says: the counts and the file, or why no file counts.
    is_first: whether nothing of the plan exists yet.
    """

    says: str
    is_first: bool


class PlanTarget(Frozen):
    """The vCenter that a plan was made for."""

    address: str
    instance_uuid: str = ""
    datacenter: str = ""


PLAN_FORMAT: Final = 2
"""The format of saved plans; in format 1 edits had no values to set."""


class Plan(Frozen):
    """The planned changes and their reasons. Saved as plan.json, it is the reviewed plan.

    `blocked` are the ids of changes with an error, and of those that need them: the plan shows them, and is
    not carried out. `hosts_in_sync` are the plan's hosts without changes. `contests` are the hosts whose VMs
    start one by one, `canaries` those that go first. `unknown` are settings of hosts that nothing reports: no
    difference, and no change. `lost_hosts` do not respond, and the plan leaves its VMs on them alone.
    `others` are other VMs that it may touch: by moid, each with the text of its former owner mark, "" for
    none. `disturbed` are the other objects that the changes disturb.

    `digest` covers the changes but not the change versions of VMs: it says whether two plannings came to the
    same thing.
    """

    format: Literal[2] = PLAN_FORMAT
    name: str
    target: PlanTarget
    read_at: datetime
    desired: DesiredPlan
    placements: tuple[Placement, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    changes: tuple[Change, ...] = ()
    blocked: tuple[str, ...] = ()
    contests: tuple[StartQueue, ...] = ()
    canaries: tuple[Canary, ...] = ()
    in_sync: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    hosts_in_sync: tuple[str, ...] = ()
    unknown: tuple[UnknownHost, ...] = ()
    lost_hosts: tuple[LostHost, ...] = ()
    others: Mapping[str, str] = Field(default_factory=dict)
    disturbed: tuple[Disturbed, ...] = Field(default=(), exclude_if=is_nothing)
    beliefs: BeliefsHere | None = Field(default=None, exclude_if=is_nothing)
    untouched_vms: int = 0
    untouched_hosts: int = 0

    @property
    def digest(self) -> str:
        """Eight hex digits over the changes and placements, and over which secrets and logins they take."""
        content: dict[str, object] = {
            "placements": [one.as_compared for one in self.placements],
            "changes": [_without_change_version(change.model_dump(mode="json")) for change in self.changes],
        }
        if self.desired.secrets:
            content["secrets"] = {name: str(one) for name, one in self.desired.secrets.items()}
            content["logins"] = self._logins
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def makes_the_same(self, other: Self) -> bool:
        """Whether another planning came to the same thing, which another release may word differently."""
        return self.digest == other.digest or self.wordless.digest == other.wordless.digest

    @property
    def wordless(self) -> Self:
        """The same plan without the words that explain its changes to people."""
        changes = tuple(
            change.model_copy(
                update={name: "" for name in ("reason", "text") if name in type(change).model_fields}
                | {"edits": tuple(edit.model_copy(update={"note": ""}) for edit in change.edits)}
            )
            for change in self.changes
        )
        return self.model_copy(update={"changes": changes})

    @property
    def _logins(self) -> list[object]:
        """Which accounts and secrets hosts and guests are logged in to with, each once."""
        texts = {entry.access.model_dump_json() for entry in self.desired.hosts}
        texts |= {vm.guest.login.model_dump_json() for vm in self.desired.vms if vm.guest is not None}
        return [json.loads(text) for text in sorted(texts)]

    def as_saved(self) -> dict[str, object]:
        """Return the content of plan.json, with the digest that `apply` compares."""
        return {"digest": self.digest, **self.model_dump(mode="json")}

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that stop the plan."""
        return tuple(found for found in self.diagnostics if found.severity is Severity.ERROR)


def _without_change_version(change: dict[str, object]) -> dict[str, object]:
    if change["kind"] == "destroy_vm":
        # Disks of others are changes and edits of their own; the plan's may be told anew by the next reading.
        return {key: value for key, value in change.items() if key != "disks"}
    spec = change.get("spec")
    if isinstance(spec, dict):
        return change | {"spec": {key: value for key, value in spec.items() if key != "change_version"}}
    return change


def disturbed_by(change: Change, observed: Inventory, own: Collection[str]) -> tuple[Disturbed, ...]:
    """List the effects of a change; `own` are the moids of the plan's VMs."""
    return tuple(change.disturbs(Reach(change.id, observed, own)))


def all_disturbed(
    changes: Iterable[Change], observed: Inventory, own: Collection[str]
) -> tuple[Disturbed, ...]:
    """List what changes disturb, in their order; `own` are the moids of the plan's VMs."""
    return tuple(one for change in changes for one in disturbed_by(change, observed, own))


def lacking(disturbed: Iterable[Disturbed], given: Collection[Approval]) -> Iterator[Disturbed]:
    """Yield what needs an approval that was not given; of running work the guest is asked."""
    known = {None, Approval.TRAINING, *given}
    return (one for one in disturbed if one.needs not in known)


def how_to_approve(approval: Approval) -> str:
    """Say how an approval is given, in the plan file or with the command."""
    return f"add `allow: [{approval}]` to the plan file, or use --allow {approval}"


def reckoned(
    plan: Plan,
    observed: Inventory,
    disturbed: tuple[Disturbed, ...],
    *,
    vms: Collection[str | None],
    hosts: Collection[str | None],
) -> Plan:
    """Return a plan with its effects, and how many hosts and VMs are untouched.

    `vms` and `hosts` are the moids that it is about.
    """
    reached = {one.subject.moid for one in disturbed}
    others = [vm for vm in observed.vms if not vm.is_template and vm.moid not in vms]
    return plan.model_copy(
        update={
            "disturbed": disturbed,
            "untouched_vms": sum(vm.moid not in reached for vm in others),
            "untouched_hosts": sum(host.moid not in {*hosts, *reached} for host in observed.hosts),
        }
    )
