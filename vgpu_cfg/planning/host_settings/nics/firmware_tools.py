"""NVIDIA's firmware tools (MFT) on a host: installed, wanted, and the way to install them.

They are two VIBs, `mft` (the tools) and `nmst` (their kernel module); each comes in an offline bundle of its
own, Mellanox-MFT-Tools_….zip and Mellanox-NATIVE-NMST_….zip. esxcli says that both need a reboot. Sources:
lists of VIBs of hosts with 4.25 and 4.28, logs of installations of 4.14 to 4.22; NVIDIA's MFT documentation
names no VIB. Of later releases the names were not read.

Belief: vib-install-of-two-depots, firmware-tools-are-two-vibs, mst-starts-with-the-host,
esxcli-mellanox-plug-in, esxcli-mellanox-in-a-shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup, HostFacts
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading
from vgpu_cfg.planning.host_settings.modules import NONE, STAGED, WantedPackage, is_staged, is_wanted_package

KEY = "firmware_tools"
_TOOLS, _MODULE = "mft", "nmst"
_BUNDLES = ("/vmfs/volumes/DATASTORE/MFT-TOOLS.zip", "/vmfs/volumes/DATASTORE/NATIVE-NMST.zip")


def _versions(facts: HostFacts) -> dict[str, str]:
    """Return the versions of the two VIBs, by their names."""
    return {
        package.name.casefold(): package.version
        for package in facts.software
        if package.name.casefold() in (_TOOLS, _MODULE)
    }


def _desired_settings(entry: DesiredHosts, _view: HostView) -> Iterable[DesiredSetting]:
    tools = entry.firmware_tools
    if tools is None:
        return
    yield DesiredSetting(KEY, WantedPackage(_TOOLS, tools.version or "*", tools.by, tools.depot).value)


def _read(view: HostView, _device: str) -> Reading:
    facts = view.facts
    if FactGroup.SOFTWARE not in facts.groups:
        return Reading(unread=facts.unread.get(FactGroup.SOFTWARE, "the installed software was not read"))
    configured = _installed(facts)
    if is_staged(facts, KEY):
        return Reading(configured=STAGED, runtime=configured)
    return Reading(configured=configured)


def _installed(facts: HostFacts) -> str:
    """Return `mft 4.28.0.881-0` where both VIBs are there, `only mft …` where one is, else `none`."""
    found = _versions(facts)
    if len(found) == 1:
        ((name, version),) = found.items()
        return f"only {name} {version}"
    return f"{_TOOLS} {found[_TOOLS]}" if found else NONE


def _write(_view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    (desired,) = desired_settings
    return WantedPackage.parse(desired.value).install


def _by_hand(view: HostView, desired: DesiredSetting) -> str:
    wanted = WantedPackage.parse(desired.value)
    if wanted.is_installed_here:
        return ""
    what = f"NVIDIA's firmware tools (the MFT and NMST components, {wanted.version})"
    if wanted.by == "lifecycle":
        return (
            f"add {what} to the cluster's image, then remediate {view.host.name} (which takes it out of "
            "service and reboots it)"
        )
    lines = [f"with {view.host.name} in maintenance mode: {command}" for command in _commands(wanted)]
    return f"install {what} from the same release; {'; then '.join(lines)}; then reboot"


def _commands(wanted: WantedPackage) -> tuple[str, ...]:
    return tuple(
        f"esxcli software vib install --depot={shlex.quote(depot)}" for depot in wanted.depots or _BUNDLES
    )


def _how(_view: HostView, desired: DesiredSetting) -> Instructions:
    wanted = WantedPackage.parse(desired.value)
    return Instructions(
        why=(
            "NIC firmware can be read and set only with mlxconfig, which is part of MFT and requires its "
            "kernel module, NMST. Both must be from the same release and match the ESXi release."
        ),
        client="in vSphere Lifecycle Manager, edit the image on the cluster's Updates tab",
        # Where an image owns the software, esxcli must not install beside it.
        commands=() if wanted.by == "lifecycle" else _commands(wanted),
        expected="Reboot Required: true",
        verify=(
            "esxcli software vib list | grep -i -E '^(mft|nmst)'",
            "/opt/mellanox/bin/mst start",
            "/opt/mellanox/bin/mst status -vv",
        ),
        undo=(
            f"esxcli software vib remove --vibname={_TOOLS} --vibname={_MODULE}",
            "esxcli system shutdown reboot --reason='NVIDIA firmware tools removed'",
        ),
    )


FIRMWARE_TOOLS = HostSetting(
    key=KEY,
    title="NVIDIA firmware tools",
    source="NVIDIA MFT documentation 4.34, ESXi; recorded installations",
    desired_settings=_desired_settings,
    read=_read,
    same=is_wanted_package,
    write=_write,
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how,
    group=KEY,
    in_file="the plan file does not specify a version",
    remembered=None,
    facts=frozenset({FactGroup.SOFTWARE}),
    stays=lambda _before: "firmware tools are never removed or downgraded",
    by_hand=_by_hand,
)
