"""A plan in the words of a table: findings, placements, changes and edits, a line each.

Equal VMs share a line (`hvd-{01..04}`). What every change of its kind says is ordinary, and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    CreateVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    ReconfigureVm,
    RestartService,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, ShellWrite
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import Diagnostic, Plan, StartQueue
from vgpu_cfg.changes.values import Edit, Impact, Placement
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code

Edits = Mapping[str, Sequence[str]]
"""Texts by key: some keys stand several times in a change, as those of NICs do."""

_OWN_IMPACT: Mapping[type, Impact] = {
    EnterMaintenance: Impact.HOST_MAINTENANCE,
    RebootHost: Impact.HOST_REBOOT,
    ColdBootHost: Impact.HOST_COLD_BOOT,
    RestartService: Impact.SERVICE_RESTART,
    ShutDownHost: Impact.HOST_COLD_BOOT,
    PowerOffVm: Impact.POWER_CYCLE,
}
_VM_CHANGES = (CreateVm, PowerOnVm, PowerOffVm, ReconfigureVm, UpgradeVm, StageGuest)

_ORDINARY_EDITS: Mapping[type, Mapping[str, str]] = {
    CreateVm: {
        "clone": "-> ubuntu",
        "host": "-> .*",
        "datastore": r"-> vsan\*",
        "folder": "-> /dc1/vm/training",
        "cpus": "4 -> .*",
        "memory": "8 GiB -> .*",
        "memory_reservation": r"0 GiB -> all\*",
        "cpu_hot_add": r"-> off\*",
        "memory_hot_add": r"-> off\*",
        "numa.nodeAffinity": "-> .*",
        "cores_per_numa_node": r"-> .*\*",
        "gpu": "-> .*",
        "pciPassthru.use64bitMMIO": r"-> TRUE\*",
        "pciPassthru.64bitMMIOSizeGB": r"-> .*\*",
        "owner_mark": r"-> demo\*",
    },
    ReconfigureVm: {"owner_mark": r"-> demo\* \(with its NICs and GPUs\)"},
    PowerOnVm: {"power": r"off -> on\*?"},
    PowerOffVm: {"power": "on -> powered off to apply the changes"},
    StageGuest: {
        "host-name": "-> host name .*",
        "users": r"-> users vgpu-cfg\*",
        "hosts": r"-> . hosts in /etc/hosts\*",
        "network": r"-> [0-9.]+/\d+",
        "ssh-mesh": r"-> SSH mesh of .\*",
        "nccl": r"-> NCCL settings\*",
        "nouveau": r"-> nouveau disabled\*",
        "driver": "-> driver 580 or 570 or 535",
        "licence": r"-> license \*{4}",
        "limits": r"-> memlock\*",
        "containers": "-> docker",
        "toolkit": r"-> container toolkit\*",
        "registry": r"-> nvcr.io \*{4}",
        "image": "-> tensorflow:21.07-tf1-py3",
        "worker": "-> worker container",
        "rank": r"-> ranks.*\*",
        "launcher": "-> `train` over . workers, . slots",
    },
}


# ---------------------------------------------------------------- findings


@dataclass(frozen=True, slots=True)
class Finding:
    """`head` is its code and its subject, and its severity where that is not the code's own."""

    head: str
    message: str
    remedy: str

    def says(self, words: str) -> bool:
        """Whether its message is this, or all of it with the remedy; "…" stands for any words."""
        pattern = re.escape(words).replace("…", ".*")
        return any(re.fullmatch(pattern, text) for text in (self.message, f"{self.message} -> {self.remedy}"))


def findings_of(plan: Plan) -> list[Finding]:
    return [Finding(_head(found), found.text, found.remedy) for found in plan.diagnostics]


def _head(found: Diagnostic) -> str:
    usual = Code(found.code).severity
    weight = "" if found.severity is usual else f" ({found.severity})"
    return f"{found.code} {found.subject.name}{weight}"


# ---------------------------------------------------------------- placements


def placed_of(plan: Plan) -> dict[str, str]:
    """By VM: its host, its GPUs (with "?" where ESXi may choose others), its nodes and its NICs."""
    return _folded((one.vm, _place(one)) for one in plan.placements)


def _place(placement: Placement) -> str:
    doubt = "" if placement.is_certain else "?"
    words = [placement.host_name, *(f"{_address(pci)}{doubt}" for pci in placement.gpu_pci_ids)]
    if placement.numa_nodes:
        words += ["node", *map(str, placement.numa_nodes)]
    if placement.nic_pci_ids:
        words += ["nic", *map(_address, placement.nic_pci_ids)]
    if placement.choice:
        words.append(f"({placement.choice})")
    return " ".join(words)


def _address(pci: str) -> str:
    return pci.removeprefix("0000:")


def started_of(plan: Plan) -> str:
    """In which order VMs are powered on, where each waits for all of those before it; else nothing."""
    waits = dict(_power_on_waits(plan))
    if not any(waits.values()):
        return ""
    layers = [[vm for vm, before in waits.items() if not before]]
    while following := [vm for vm, before in waits.items() if before == set(layers[-1])]:
        layers.append(following)
    return (
        ", then ".join(fold_names(layer) for layer in layers) if sum(map(len, layers)) == len(waits) else ""
    )


def _power_on_waits(plan: Plan) -> Iterator[tuple[str, set[str]]]:
    by_id = {change.id: change.vm.name for change in plan.changes if isinstance(change, PowerOnVm)}
    for change in plan.changes:
        if isinstance(change, PowerOnVm):
            yield change.vm.name, {by_id[need] for need in change.needs if need in by_id}


def contest_of(contest: StartQueue) -> str:
    """`a-{1..2} on 21:00.0 (A100), e2:00.0 (A100)`: who starts one by one, and on which GPUs."""
    gpus = ", ".join(f"{_address(gpu.pci_id)} ({gpu.board})" for gpu in contest.gpus)
    return f"{fold_names(contest.starts)} on {gpus}"


# ---------------------------------------------------------------- changes


@dataclass(slots=True)
class Line:
    """Changes that share a line of a table: its text, and the changes by their ids."""

    verbs: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    text: str = ""
    changes: list[Change] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text or f"{', '.join(self.verbs)} {fold_names(self.names)}"


def changes_of(plan: Plan) -> list[Change]:
    """List the changes, the two parts of what a guest is given as one."""
    parts = {change.needs[0]: change for change in plan.changes if _is_second(change)}
    ids = {second.id: first for first, second in parts.items()}
    joined: list[Change] = []
    for change in plan.changes:
        second = parts.get(change.id)
        if change.id in ids:
            continue
        both = (*change.needs, *(second.needs if second is not None else ()))
        needs = tuple(dict.fromkeys(ids.get(need, need) for need in both if need != change.id))
        if isinstance(change, StageGuest) and second is not None:
            assert change.rest == second.modules
            modules, edits = change.modules + second.modules, change.edits + second.edits
            joined.append(change.model_copy(update={"modules": modules, "edits": edits, "needs": needs}))
        else:
            joined.append(change.model_copy(update={"needs": needs}))
    return joined


def _is_second(change: Change) -> TypeGuard[StageGuest]:
    return isinstance(change, StageGuest) and change.id.startswith("finish ")


def lines_of(plan: Plan) -> list[Line]:
    """List the changes in their order.

    Those of one VM that need only each other share a line, and so do equal VMs.
    """
    is_told = bool(started_of(plan))
    power_ons = {change.id for change in plan.changes if isinstance(change, PowerOnVm)}
    before: dict[str, str] = {}
    off: set[str] = set()
    lines: list[Line] = []
    for change in changes_of(plan):
        own = f"{change.subject.kind} {change.subject.name}"
        needs = set(change.needs)
        if is_told and isinstance(change, PowerOnVm):
            needs -= power_ons - {before.get(own)}
        suffix = _suffix(change, needs, before.get(own), is_off=own in off)
        if isinstance(change, PowerOffVm):
            off.add(own)
        before[own] = change.id
        _add(lines, change, suffix)
    return _joined_hosts(_joined(lines))


def _add(lines: list[Line], change: Change, suffix: str) -> None:
    if suffix or not isinstance(change, _VM_CHANGES):
        lines.append(Line(text=_verbed(change) + suffix, changes=[change]))
    elif lines and lines[-1].names == [change.vm.name]:
        lines[-1].verbs += (_verb(change),)
        lines[-1].changes.append(change)
    else:
        lines.append(Line((_verb(change),), [change.vm.name], changes=[change]))


def _joined(lines: Sequence[Line]) -> list[Line]:
    joined: list[Line] = []
    for line in lines:
        last = joined[-1] if joined else None
        if last is not None and line.names and last.verbs == line.verbs and _runs_on(last.names, line.names):
            last.names += line.names
            last.changes += line.changes
        else:
            joined.append(line)
    return joined


def _joined_hosts(lines: Sequence[Line]) -> list[Line]:
    """Put hosts with which the same is done, one after the other, on the same lines."""
    works: list[tuple[list[str], list[Line]]] = []
    for line in lines:
        host = line.changes[0].subject.name if line.changes[0].subject.kind == "host" else ""
        if works and host and works[-1][0] == [host]:
            works[-1][1].append(line)
        else:
            works.append(([host], [line]))
    joined: list[tuple[list[str], list[Line]]] = []
    for names, own in works:
        last = joined[-1] if joined else None
        if last and all(names) and _runs_on(last[0], names) and _is_same_work(last, (names, own)):
            for line, more in zip(last[1], own, strict=True):
                line.text = line.text.replace(fold_names(last[0]), fold_names([*last[0], *names]))
                line.changes += more.changes
            last[0].extend(names)
        else:
            joined.append((names, own))
    return [line for _, own in joined for line in own]


def _is_same_work(one: tuple[list[str], list[Line]], other: tuple[list[str], list[Line]]) -> bool:
    def told(names: list[str], lines: list[Line]) -> list[tuple[str, object]]:
        name = fold_names(names)
        return [(str(line).replace(name, "HOST"), departures_of(line.changes[0])) for line in lines]

    return told(*one) == told(*other)


def _runs_on(names: Sequence[str], more: Sequence[str]) -> bool:
    return "," not in fold_names([*names, *more])


def _verb(change: Change) -> str:
    if isinstance(change, StageGuest) and not change.with_clone:
        return "stage running"
    return change.id.removesuffix(f" {change.subject.name}")


def _verbed(change: Change) -> str:
    return f"{_verb(change)} {change.subject.name}" if isinstance(change, StageGuest) else change.id


def _suffix(change: Change, needs: set[str], before: str | None, *, is_off: bool) -> str:
    """What is not as always: its impact, and what it needs beside the last change of the same VM or host."""
    words = ""
    own = Impact.POWER_CYCLE if is_off else _OWN_IMPACT.get(type(change), Impact.NONE)
    if change.impact is not own:
        words += f" [{change.impact}]"
    wave = getattr(change, "wave", "")
    if isinstance(change, EnterMaintenance) and wave not in ("", "wave 1"):
        words += f", {wave}"
    others = [need for need in change.needs if need in needs and need != before]
    if before is not None and before not in needs:
        words += f", after {_both(others) or 'nothing'}"
    elif others:
        words += f", {'also ' if before else ''}after {_both(others)}"
    return words


def _both(needs: Sequence[str]) -> str:
    """`create hvd-{01..02} and set ats on esx-01`."""
    folded: dict[str, list[str]] = {}
    for need in needs:
        verb, _, name = need.rpartition(" ")
        folded.setdefault(verb, []).append(name)
    return " and ".join(f"{verb} {fold_names(names)}" for verb, names in folded.items())


def is_ordinary(plan: Plan, observed: Inventory) -> bool:
    """Whether a case need not say what is done: all new VMs are made, powered on and set up, in order."""
    known = {vm.name for vm in observed.vms if not vm.is_template}
    lines = lines_of(plan)
    made = [name for line in lines for name in line.names]
    return made == [vm.name for vm in plan.desired.vms if vm.name not in known] and all(
        line.verbs[:2] == ("create", "power on") and line.verbs[2:] in ((), ("stage",)) for line in lines
    )


# ---------------------------------------------------------------- edits


def edits_of(change: Change) -> dict[str, list[str]]:
    """All edits of a change, and what else a case may state of it: what is sent, typed or waited for."""
    texts: dict[str, list[str]] = {}
    for edit in change.edits:
        texts.setdefault(edit.key, []).append(_edit(edit))
    return texts | {key: [text] for key, text in _beside(change) if text}


def _beside(change: Change) -> Iterator[tuple[str, str]]:
    match change:
        case StageGuest():
            kinds = tuple(module.kind for module in change.spec.modules)
            yield "modules", "all" if change.modules == kinds else " ".join(change.modules)
        case CreateVm() | ReconfigureVm():
            nodes, macs = (_of_devices(change.spec, name) for name in ("numa_node", "mac"))
            yield "virtual_nodes", f"node {nodes}" if nodes else ""
            yield "macs", macs
        case EnterMaintenance():
            yield "reason", change.reason
            yield "evacuates", ", ".join(change.evacuates)
            yield "vsan", change.vsan or ""
            yield "window", change.window
            yield "max_down", f"{change.max_down} hosts" if change.max_down > 1 else ""
            yield "is_held", "yes" if change.is_held else ""
            yield "is_recovered", "yes" if change.is_recovered else ""
        case ExitMaintenance():
            yield "is_held", "yes" if change.is_held else ""
        case ChangeHost():
            yield "sends", _flat(change.write)
            yield "or", _flat(change.other_way) if change.other_way is not None else ""
        case ChangeNetwork():
            yield "sends", _flat(change.network)
        case ManualStep():
            yield "text", change.text
            yield "proof", change.proof
            yield "commands", "; ".join(change.commands)
        case PowerOnVm(pin=NumaPin() as pin):
            gpus = " ".join(f"{_address(pci)} on {node}" for pci, node in pin.node_by_pci_id.items())
            yield "pin", f"node {_all(pin.nodes)}, of {gpus}"
        case _:
            pass


def _of_devices(spec: VmSpec, name: str) -> str:
    told = [getattr(device, name, None) for device in spec.devices]
    return " ".join(str(one) for one in told if one is not None)


def _flat(sent: Frozen) -> str:
    """`graphics default_type=sharedDirect`, or a line of shell as it is typed."""
    if isinstance(sent, EsxcliWrite):
        options = " ".join(f"--{option}={value}" for option, value in sent.arguments)
        return f"esxcli {sent.command.replace('.', ' ')} {options}".strip()
    if isinstance(sent, ShellWrite):
        return "; ".join(" ".join(command) for command in sent.commands)
    rows = sent.model_dump(mode="json", exclude_defaults=True).items()
    return " ".join([str(getattr(sent, "kind", "")), *(f"{key}={_value(value)}" for key, value in rows)])


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": ")).replace('"', "")


def _all(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _edit(edit: Edit) -> str:
    after = "" if edit.after is None else f" {edit.after}{'*' if edit.is_default else ''}"
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.before or ''} ->{after}{note}".strip()


_ASIDES = ("sends", "or", "text", "proof", "commands", "pin", "reason", "virtual_nodes", "macs")
"""What a case states only where it is about that; whole plans and runbooks show the rest."""


def departures_of(change: Change) -> dict[str, list[str]]:
    """The edits that a case must state, since not every change of the kind has them."""
    usual = {"modules": "all"} | dict.fromkeys(_ASIDES, ".*") | dict(_ORDINARY_EDITS.get(type(change), {}))
    return {
        key: texts
        for key, texts in edits_of(change).items()
        if not all(re.fullmatch(usual.get(key, "(?!)"), text, re.DOTALL) for text in texts)
    }


def _folded(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Put names whose texts are equal, and that run on, under one key."""
    runs: list[tuple[list[str], str]] = []
    for name, text in rows:
        if runs and runs[-1][1] == text and _runs_on(runs[-1][0], [name]):
            runs[-1][0].append(name)
        else:
            runs.append(([name], text))
    return {fold_names(names): text for names, text in runs}
