"""Which words of a GPU's or a NIC's rule cannot stand together, and which rule can never hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vgpu_cfg.documents import Loc, Part
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.plan_file import GpuMatch, HostEntry, HostGpuEntry, HostNicEntry, NicMatch, RoceEntry
from vgpu_cfg.model.plan_values import GpuUse, NicUse, SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

_OF_VGPUS = ("sharing", "vgpu_mode", "scheduler")
_OF_TIME_SLICES = ("vgpu_mode",)
"""A scheduler may go beside MIG: which board it is, and whether its instances are shared, its host tells."""
_FALSE = ("False", "0")
_TRUE = ("True", "1")


def check_gpu_rules(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    """Yield what is wrong between the keys of each rule for GPUs, and between rules."""
    rules = entry.gpus
    for index, rule in enumerate(rules):
        yield from _check_gpu(rule, ("gpus", index), part)
        yield from _check_reach([_criteria(one.match) for one in rules[: index + 1]], "gpus", part)


def _check_gpu(rule: HostGpuEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    given = {key for key in rule.model_fields_set if getattr(rule, key) is not None}
    if rule.use is GpuUse.LEAVE:
        for key in sorted(given - {"match", "use"}):
            message = f"`use: leave` touches nothing of a GPU, and `{key}` is set beside it"
            yield part.fault((*loc, key), message, "remove one of them")
        return
    if rule.use is GpuUse.PASSTHROUGH:
        for key in _OF_VGPUS:
            if key in given:
                message = f"`{key}` is of GPUs that serve vGPUs, and this one is passed through"
                yield part.fault((*loc, key), message, "remove it, or write use: vgpu")
        if "ecc" in given:
            message = "the ECC of a GPU that is passed through is set in its guest"
            yield part.fault((*loc, "ecc"), message, "remove it, or write use: vgpu")
    elif rule.label:
        message = "a hardware `label` is of a device that is passed through"
        yield part.fault((*loc, "label"), message, "write use: passthrough, or remove it")
    if rule.sharing is Sharing.MIG:
        for key in _OF_TIME_SLICES:
            if key in given and rule.use is not GpuUse.PASSTHROUGH:
                message = f"`{key}` is of time-sliced vGPUs, and this GPU is in MIG mode"
                yield part.fault((*loc, key), message, "remove it, or write sharing: time_sliced")
    mixes = rule.vgpu_mode is VgpuMode.MIXED_SIZE and rule.scheduler is SchedulerPolicy.FIXED_SHARE
    if mixes and rule.use is not GpuUse.PASSTHROUGH:
        message = "a GPU that takes vGPUs of mixed size cannot share time in fixed parts"
        yield part.fault((*loc, "scheduler"), message, "write best_effort or equal_share")


def check_nic_rules(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    """Yield what is wrong between the keys of each rule for NICs, and between rules."""
    rules = entry.nics
    for index, rule in enumerate(rules):
        loc: Loc = ("nics", index)
        yield from _check_nic_use(rule, loc, part)
        yield from _check_firmware(rule, loc, part)
        if entry.ats is False and rule.firmware.get("ATS_ENABLED") in _TRUE:
            message = "`ats: false` switches off on the host what ATS_ENABLED switches on in the NIC"
            yield part.fault(
                (*loc, "firmware", "ATS_ENABLED"), message, "remove one of them: ATS is all or nothing"
            )
        yield from _check_reach([_criteria(one.match) for one in rules[: index + 1]], "nics", part)


def _check_nic_use(rule: HostNicEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    given = rule.model_fields_set
    if rule.use is NicUse.SRIOV and "vfs" not in given:
        yield part.fault((*loc, "use"), "`use: sriov` needs `vfs`, the number of functions", "as in vfs: 8")
    if rule.use is not NicUse.SRIOV and "vfs" in given:
        message = "`vfs` are the virtual functions of `use: sriov`"
        yield part.fault((*loc, "vfs"), message, "write use: sriov, or remove it")
    if rule.label and rule.use is not NicUse.PASSTHROUGH:
        message = "a hardware `label` is of a device that is passed through"
        yield part.fault((*loc, "label"), message, "write use: passthrough, or remove it")
    if rule.use is NicUse.PASSTHROUGH and rule.switch:
        message = "a NIC that is passed through cannot be an uplink of a switch"
        yield part.fault((*loc, "switch"), message, "remove it, or write use: host")
    if rule.use is NicUse.PASSTHROUGH and "roce" in given and rule.roce is not False:
        message = "RoCE on a NIC that is passed through is set in its guest"
        yield part.fault((*loc, "roce"), message, "remove it; the host's driver does not see this NIC")
    if isinstance(rule.roce, RoceEntry) and rule.roce.trust == "pcp" and "dscp" in rule.roce.model_fields_set:
        message = "with `trust: pcp` the `dscp` of a packet does not count"
        yield part.fault((*loc, "roce", "dscp"), message, "remove it, or write trust: dscp")


def _check_firmware(rule: HostNicEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    firmware = rule.firmware
    if not firmware:
        return
    if not {"model", "vmnic", "pci_id"} & _criteria(rule.match).keys():
        message = "`firmware` is of one kind of NIC, and this rule takes NICs of every make"
        yield part.fault((*loc, "firmware"), message, "add match: {model: ConnectX}, a vmnic or a pci_id")
    if rule.use is not NicUse.SRIOV:
        return
    if firmware.get("SRIOV_EN") in _FALSE:
        message = "`use: sriov` needs SRIOV_EN, which this rule switches off"
        yield part.fault((*loc, "firmware", "SRIOV_EN"), message, "write true, or remove it")
    functions = firmware.get("NUM_OF_VFS", "")
    if functions.isdecimal() and int(functions) < (rule.vfs or 0):
        message = f"NUM_OF_VFS of {functions} is less than the {rule.vfs} of `vfs`"
        yield part.fault((*loc, "firmware", "NUM_OF_VFS"), message, f"write at least {rule.vfs}")


def _criteria(match: GpuMatch | NicMatch) -> dict[str, Any]:
    """Return what a match asks, as far as it asks anything."""
    return match.model_dump(exclude_none=True)


def _check_reach(matches: Sequence[dict[str, Any]], section: str, part: Part) -> Iterator[DocumentFault]:
    """Complain of the last rule where an earlier one takes everything that it could.

    A NIC that the host itself needs is taken only by its vmnic: a rule that names one is not
    reached by the rules that name none.
    """
    last = matches[-1]
    for index, earlier in enumerate(matches[:-1]):
        if "vmnic" in last and "vmnic" not in earlier:
            continue
        if all(key in last and _takes(key, earlier[key], last[key]) for key in earlier):
            message = f"this rule never holds: item {index + 1} of '{section}' takes all that it matches"
            yield part.fault((section, len(matches) - 1), message, "the first that matches holds: move it up")
            return


def _takes(key: str, wider: Any, narrower: Any) -> bool:
    """Whether everything with the second value has the first one too; a model is part of a name."""
    if key == "model":
        return str(wider).casefold() in str(narrower).casefold()
    return bool(wider == narrower)
