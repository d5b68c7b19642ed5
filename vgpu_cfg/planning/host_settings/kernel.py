"""The name of the VMkernel's boot setting for PCIe address translation (ATS), by release, and its default.

    7.0, 7.0 U1     vtdAtsSupport    off
    7.0 U2          atsSupport       off    through esxcli only
    7.0 U3 and on   atsSupport       on     also as advanced option VMkernel.Boot.atsSupport

If it is on by default, there is nothing to do and no reboot is due, unless it was switched off. The advanced
option has the configured value alone; the value in force shows through esxcli. From 9.0 on
`atsDisallowPCIeVidDid` may still deny it to single devices. Sources: NVIDIA AI Enterprise 5.0 User Guide,
chapter 4; dumps of real hosts(that U3 before U3d has the option is derived).

Belief: ats-support-option.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, OptionWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.wording import is_at_least, version_tuple
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Instructions,
    Part,
    Reading,
    only,
)

ON, OFF = "TRUE", "FALSE"

_OPTION = "VMkernel.Boot.atsSupport"
_FIRST_WITH_NEW_NAME = (7, 0, 2)
_FIRST_WITH_OPTION = (7, 0, 3)


def _name(view: HostView) -> str:
    """Return what this release calls the setting."""
    known = version_tuple(view.host.version)
    return "vtdAtsSupport" if known and known < _FIRST_WITH_NEW_NAME else "atsSupport"


def _desired_settings(entry: DesiredHosts, _view: HostView) -> Iterable[DesiredSetting]:
    if entry.ats is not None:
        yield DesiredSetting("ats", ON if entry.ats else OFF)


def _read(view: HostView, _device: str) -> Reading:
    """Read it from esxcli; without that the advanced option, which has one value."""
    facts = view.facts
    found = facts.kernel.get(_name(view))
    if found is not None:
        return Reading(configured=found.configured.upper(), runtime=found.runtime.upper())
    option = facts.options.get(_OPTION)
    if option is not None:
        return Reading(configured=ON if str(option).upper() == ON else OFF)
    if FactGroup.KERNEL in facts.groups:
        return Reading(unread=f"the kernel setting {_name(view)} does not exist on the host", is_absent=True)
    return Reading(unread=facts.unread.get(FactGroup.KERNEL, "the kernel settings were not read"))


def _has_option(view: HostView) -> bool:
    return _OPTION in view.facts.options or is_at_least(view.host.version, _FIRST_WITH_OPTION)


def _write(view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    (desired,) = desired_settings
    if _has_option(view):
        return (OptionWrite(options={_OPTION: desired.value == ON}),)
    return (_esxcli(view, desired),)


def _other_way(view: HostView, desired_settings: Sequence[DesiredSetting]) -> HostWrite | None:
    """Go through esxcli where the advanced option is not offered; before 7.0 U3 that is the first way."""
    (desired,) = desired_settings
    return _esxcli(view, desired) if _has_option(view) else None


def _esxcli(view: HostView, desired: DesiredSetting) -> EsxcliWrite:
    arguments = (("setting", _name(view)), ("value", desired.value))
    return EsxcliWrite(command="system.settings.kernel.set", arguments=arguments)


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    name = _name(view)
    option = f"govc host.option.set -host {{host}} {_OPTION} {desired.value.lower()}"
    esxcli = f"esxcli system settings kernel set --setting={name} --value={desired.value}"
    has_option = _has_option(view)
    other = OFF if desired.value == ON else ON
    return Instructions(
        why=(
            "ATS lets the NIC and the GPU communicate directly through their PCIe switch. Without it, "
            "traffic goes through the root port at about half the bandwidth. It requires the VM's P2P "
            "options and the NIC's firmware setting (ATS_ENABLED)."
        ),
        client=f"host > Configure > Advanced System Settings > {_OPTION}" if has_option else "",
        commands=(*((option,) if has_option else ()), esxcli),
        expected=(
            f"esxcli system settings kernel list --option={name} prints Configured {desired.value}; "
            "Runtime changes after the reboot"
        ),
        verify=(f"esxcli system settings kernel list --option={name}",),
        undo=(
            f"esxcli system settings kernel set --setting={name} --value={other}",
            "esxcli system shutdown reboot --reason=ATS",
        ),
    )


ATS = HostSetting(
    key="ats",
    title="kernel atsSupport",
    source="NVIDIA AI Enterprise 5.0 User Guide ch. 4",
    desired_settings=_desired_settings,
    read=_read,
    write=_write,
    other_way=_other_way,
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how,
    group="kernel",
    in_file=only(Part.HOST, "ats", True, where=ON),
    remembered=None,
    facts=frozenset({FactGroup.KERNEL, FactGroup.OPTIONS}),
)
