"""The scheduling policy of time-sliced vGPUs in the option string of the module `nvidia`.

    all GPUs alike    NVreg_RegistryDwords=RmPVMRL=0x11
    GPUs that differ  NVreg_RegistryDwordsPerDevice=pci=0000:21:00.0;RmPVMRL=0x11;pci=…;RmPVMRL=0x01

Both hold other keys too (`key=value` separated by semicolons), which stay. A policy is never left in both,
since the winner is documented nowhere. Best effort is the driver's default: its key is removed, as NVIDIA's
way back does. A value with a time slice (0x00TT0001) counts as its policy and stays. Only configured values
can be read: the running one is in dmesg alone. It needs a reboot. On boards whose MIG instances several vGPUs
share by turns (RTX PRO 6000 and 4500) a policy goes with MIG; that ESXi's option reaches into the instances
was not seen. Sources: NVIDIA AI Enterprise 5.0 User Guide ch. 7; nv-reg.h of NVIDIA's open modules; Infra 8,
choosing a vGPU mode (time-sliced MIG-backed vGPUs); NVML, nvmlGpuInstanceSetVgpuSchedulerState (GB20x and
later).

Belief: shared-mig-has-a-scheduler, mig-scheduler-on-esxi.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ModuleWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Gpu
from vgpu_cfg.model.plan_file import HostGpuEntry
from vgpu_cfg.model.plan_values import SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    InFile,
    Instructions,
    Part,
    Reading,
)
from vgpu_cfg.planning.host_settings.gpus.gpu_support import objection_to, served_gpus, shares_instances
from vgpu_cfg.planning.host_settings.modules import merge_options, option_of

MODULE = "nvidia"
ALL, EACH = "NVreg_RegistryDwords", "NVreg_RegistryDwordsPerDevice"

_KEY = "RmPVMRL"
_VALUES = {
    SchedulerPolicy.BEST_EFFORT: "0x00",
    SchedulerPolicy.EQUAL_SHARE: "0x01",
    SchedulerPolicy.FIXED_SHARE: "0x11",
}
_BY_LOW_BYTE = {
    0x01: SchedulerPolicy.EQUAL_SHARE,
    0x03: SchedulerPolicy.EQUAL_SHARE,
    0x11: SchedulerPolicy.FIXED_SHARE,
}
_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]+):)?(?P<bus>[0-9a-f]+):(?P<slot>[0-9a-f]+)(?:\.(?P<function>[0-7]))?"
)
_IN_MIG_MODE = "in MIG mode, GPUs on this board are divided into slices and do not have a scheduler"
_MIXED_SIZE = "the fixed_share scheduler is not available in mixed-size mode"
_REMEDIES = {
    _IN_MIG_MODE: "remove `scheduler`, or set `sharing: time_sliced`",
    _MIXED_SIZE: "set `scheduler: best_effort` or `equal_share`, or `vgpu_mode: same_size`",
}
"""The remedy for a note that the policy is impossible."""


@dataclass(slots=True)
class _Registry:
    """The keys of both options: those of all GPUs, and those of single ones by address."""

    everywhere: dict[str, str]
    single: dict[str, dict[str, str]]

    @classmethod
    def parse(cls, options: str) -> _Registry:
        single: dict[str, dict[str, str]] = {}
        current: dict[str, str] = {}
        for key, value in _pairs(option_of(options, EACH) or ""):
            if key == "pci":
                current = single.setdefault(_address(value), {})
            else:
                current[key] = value
        return cls(dict(_pairs(option_of(options, ALL) or "")), single)

    def value(self, pci_id: str) -> str:
        """Return RmPVMRL for a GPU, the default if unset."""
        default = self.everywhere.get(_KEY, _VALUES[SchedulerPolicy.BEST_EFFORT])
        return self.single.get(pci_id, {}).get(_KEY, default)

    def set(self, values: Mapping[str, str]) -> None:
        """Give GPUs their values: one for all where they are alike, else each its own."""
        self.everywhere.pop(_KEY, None)
        for pci_id in values:
            self.single.get(pci_id, {}).pop(_KEY, None)
        wanted = {pci_id: value for pci_id, value in values.items() if _policy(value) != _BEST}
        if len(wanted) == len(values) and len(set(wanted.values())) == 1:
            self.everywhere[_KEY] = next(iter(wanted.values()))
            return
        for pci_id, value in wanted.items():
            self.single.setdefault(pci_id, {})[_KEY] = value

    def merged_into(self, options: str) -> str:
        """Return the option string with both options rewritten, the rest as it was."""
        single = [
            pair
            for pci_id, keys in self.single.items()
            if keys
            for pair in (f"pci={pci_id}", *(f"{key}={value}" for key, value in keys.items()))
        ]
        everywhere = [f"{key}={value}" for key, value in self.everywhere.items()]
        changes = {ALL: ";".join(everywhere) or None, EACH: ";".join(single) or None}
        return merge_options(options, changes)


_BEST = SchedulerPolicy.BEST_EFFORT.value


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for part in text.split(";"):
        key, _, value = part.strip().partition("=")
        if key:
            yield key, value


def _address(text: str) -> str:
    """Spell an address as everywhere in this project; domain and function may be left out (nv-reg.h)."""
    found = _ADDRESS.fullmatch(text.strip().lower())
    if found is None:
        return text
    domain, bus, slot = (int(found[name] or "0", 16) for name in ("domain", "bus", "slot"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{found['function'] or '0'}"


def _policy(value: str) -> str:
    """Return the policy of a value of RmPVMRL; the value itself if it is unknown."""
    try:
        number = int(value, 0)
    except ValueError:
        return value
    if number == 0:
        return _BEST
    known = _BY_LOW_BYTE.get(number & 0xFF)
    return value if known is None else known.value


def read_policy(view: HostView, pci_id: str) -> str | None:
    """Return the policy that is configured for a GPU, None where it cannot be read."""
    options = view.facts.modules.get(MODULE)
    return None if options is None else _policy(_Registry.parse(options).value(pci_id))


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    for gpu, rule, note in served_gpus(entry, view):
        if rule.scheduler is None:
            continue
        why_not = note or _obstacle(view, gpu, rule)
        yield DesiredSetting("scheduler", rule.scheduler.value, gpu.pci_id, note=why_not)


def _obstacle(view: HostView, gpu: Gpu, rule: HostGpuEntry) -> str:
    """Say what else is asked of the GPU, or holds there, that leaves no room for the policy."""
    if (rule.sharing or gpu.sharing) is Sharing.MIG:
        return "" if shares_instances(view, gpu.pci_id) else _IN_MIG_MODE
    is_mixed = (rule.vgpu_mode or gpu.vgpu_mode) is VgpuMode.MIXED_SIZE
    return _MIXED_SIZE if is_mixed and rule.scheduler is SchedulerPolicy.FIXED_SHARE else ""


def _read(view: HostView, device: str) -> Reading:
    facts = view.facts
    if FactGroup.MODULES not in facts.groups:
        return Reading(unread=facts.unread.get(FactGroup.MODULES, "the kernel modules were not read"))
    policy = read_policy(view, device)
    if policy is None:
        return Reading(unread="the kernel module nvidia does not exist, so the driver is not installed")
    return Reading(configured=policy)


def _in_file(policy: str) -> Mapping[str, object]:
    """Say a policy other than the one of a GPU of which nothing was said."""
    is_known = policy in list(SchedulerPolicy) and policy != SchedulerPolicy.BEST_EFFORT
    return {"scheduler": policy} if is_known else {}


def _options(view: HostView, desired_settings: Sequence[DesiredSetting]) -> str:
    """Return the whole option string of the module with the desired settings in it."""
    options = view.facts.modules.get(MODULE, "")
    registry = _Registry.parse(options)
    values = {gpu.pci_id: registry.value(gpu.pci_id) for gpu in view.host.gpus if not gpu.is_passthrough}
    for desired in desired_settings:
        if _policy(values.get(desired.device, "")) != desired.value:
            values[desired.device] = _VALUES[SchedulerPolicy(desired.value)]
    registry.set(values)
    return registry.merged_into(options)


def _write(view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    before = view.facts.modules.get(MODULE, "")
    return (ModuleWrite(module=MODULE, options=_options(view, desired_settings), before=before),)


def _other_way(view: HostView, desired_settings: Sequence[DesiredSetting]) -> HostWrite:
    arguments = (("module", MODULE), ("parameter-string", _options(view, desired_settings)))
    return EsxcliWrite(command="system.module.parameters.set", arguments=arguments)


def _objects(view: HostView, desired: DesiredSetting) -> Objection | None:
    if desired.note in _REMEDIES:
        return Objection(Code.NOT_SUPPORTED, desired.note, _REMEDIES[desired.note])
    return objection_to(view, desired)


def _stays(before: str) -> str:
    return "" if before in list(SchedulerPolicy) else f"{before} is not a supported policy"


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    before = view.facts.modules.get(MODULE, "")
    policy = desired.value.upper()
    state = "DISABLED" if desired.value == _BEST else "ENABLED"
    return Instructions(
        why=(
            "best effort gives a vGPU the time that other vGPUs do not use. Equal share divides time "
            "equally among running vGPUs. Fixed share reserves the same amount of time for each vGPU even "
            "if others are idle, so performance is consistent. The whole option string is written, "
            "including its other options"
        ),
        commands=(f'esxcli system module parameters set -m {MODULE} -p "{_options(view, [desired])}"',),
        expected=(
            f"after the reboot: NVRM: GPU at {{device}} has software scheduler {state} with policy {policy}."
        ),
        verify=(
            f"esxcli system module parameters list -m {MODULE} | grep Registry",
            "dmesg | grep NVRM | grep scheduler",
        ),
        undo=(
            f'esxcli system module parameters set -m {MODULE} -p "{before}"',
            "esxcli system shutdown reboot --reason=scheduler",
        ),
    )


SCHEDULER = HostSetting(
    key="scheduler",
    title="vGPU scheduler",
    source="NVIDIA AI Enterprise 5.0 User Guide ch. 7",
    desired_settings=_desired_settings,
    read=_read,
    write=_write,
    other_way=_other_way,
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how,
    group="module nvidia",
    in_file=InFile(Part.GPU, _in_file),
    remembered=None,
    facts=frozenset({FactGroup.MODULES, FactGroup.SOFTWARE}),
    needs_in_force=("driver",),
    objects=_objects,
    stays=_stays,
)
