"""The firmware parameters of NICs: their words in mlxconfig, and when one is truly in force.

A parameter has three values: the factory's, the one in force (Current) and the one that the next boot brings
(Next Boot). Only the shell reads and sets them, and only while the host owns the NIC: one that is passed
through is its guest's. NVIDIA's documents disagree on how a new value is loaded, by a reboot or by switching
the power off (NVAIE 5.0 chapter 4 against two later planning pages), so a reboot comes first and a cold boot
only if that did not help.

Belief: nic-firmware-after-a-reboot, mlxconfig-takes-mst-names, mlxconfig-takes-pci-addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.kinds.change_host import ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup, is_same_boot
from vgpu_cfg.model.observed.inventory import ETHERNET, INFINIBAND, Host, Inventory
from vgpu_cfg.model.plan_values import NicUse
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Instructions,
    Invalidator,
    Reading,
    Remembering,
)
from vgpu_cfg.planning.host_settings.match import nic_rules, with_function
from vgpu_cfg.planning.host_settings.nics.firmware_tools import KEY as FIRMWARE_TOOLS

KEY = "nic_firmware"

MLXCONFIG = "/opt/mellanox/bin/mlxconfig"
"""The path where NVIDIA's firmware tools (MFT for ESXi) put it; it is not on the shell's path.

Commands name a NIC by its PCI address. On ESXi the tool accepts the names that `mst status -vv` lists with
the addresses (`mt4123_pciconf0`); the shell puts them in.
"""

_INSTALL_TOOLS = (
    "set how MFT and NMST are installed: `firmware_tools: {by: esxcli, depot: [MFT.zip, NMST.zip]}`, or "
    "`{by: lifecycle}`, or `{by: hand}`"
)

_LINK_TYPES = {"1": "IB", "2": "ETH", "3": "VPI"}
_TRUTH = {"1": "True", "0": "False"}
_WORDS = (*_TRUTH.values(), *_LINK_TYPES.values(), *(str(number) for number in range(1025)))
"""Values that parameters mostly have; of any other it is known only whether it is the wanted one."""
_NUMBERS = {"True": "1", "False": "0", "IB": "1", "ETH": "2", "VPI": "3"}


def firmware_word(value: str) -> str:
    """Return a value in the word that mlxconfig prints: `True`, `False`, `ETH`, `IB`, or unchanged."""
    if value.casefold() in ("true", "false"):
        return value.capitalize()
    return value.upper() if value.upper() in _LINK_TYPES.values() else value


def is_same_word(wanted: str, found: str) -> bool:
    """Whether two values are one, whether written as a word or as its number."""
    wanted, found = firmware_word(wanted), firmware_word(found)
    if found in _TRUTH.values():
        wanted = _TRUTH.get(wanted, wanted)
    if found in _LINK_TYPES.values():
        wanted = _LINK_TYPES.get(wanted, wanted)
    return wanted == found


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    tools_come = entry.firmware_tools is not None
    for nic, rule in nic_rules(entry, view):
        for name, value in rule.firmware.items():
            comes_back = rule.use is NicUse.HOST and _is_handed_out(view, nic.pci_id)
            device = f"{nic.pci_id} {name}"
            yield DesiredSetting(
                KEY, firmware_word(value), device, comes_back=comes_back, tools_come=tools_come
            )


def _read(view: HostView, device: str) -> Reading:
    pci_id, _, name = device.partition(" ")
    if _is_handed_out(view, pci_id):
        return Reading(unread=f"{pci_id} is in passthrough mode, so the host cannot query it", is_absent=True)
    shell = view.facts.shell
    if shell is None:
        return Reading(unread=view.facts.unread.get(FactGroup.SHELL_NICS, "the host's shell was not queried"))
    if pci_id not in shell.firmware:
        reason = shell.unread.get(pci_id) or shell.unread.get("") or "mlxconfig did not report it"
        return Reading(unread=reason)
    found = shell.firmware[pci_id].get(name)
    if found is None and pci_id in shell.unread:
        return Reading(unread=shell.unread[pci_id])
    if found is None:
        return Reading(unread=f"mlxconfig does not list {name} for {pci_id}", is_absent=True)
    next_boot = found.current if found.next_boot is None else found.next_boot
    return Reading(configured=next_boot, runtime=found.current)


def _is_handed_out(view: HostView, pci_id: str) -> bool:
    function = view.device(pci_id)
    return function is not None and function.passthrough_active


def _objects(view: HostView, desired: DesiredSetting) -> Objection | None:
    pci_id, _, name = desired.device.partition(" ")
    if desired.comes_back:
        return None
    if _is_handed_out(view, pci_id):
        return _guests_matter(view, desired, pci_id, name)
    shell = view.facts.shell
    if shell is not None and shell.has_firmware_tools is False:
        if desired.tools_come:
            return None
        message = f"NVIDIA's firmware tools are not installed on the host, so {name} cannot be read or set"
        return Objection(Code.NO_FIRMWARE_TOOLS, message, _INSTALL_TOOLS)
    if _read(view, desired.device).is_absent:
        message = (
            f"mlxconfig does not list {name} for {pci_id}: the firmware is too old or hides this parameter"
        )
        remedy = "update the NIC's firmware; some parameters are visible only if ADVANCED_PCI_SETTINGS is 1"
        return Objection(Code.NOT_SUPPORTED, message, remedy)
    return None


def _guests_matter(view: HostView, desired: DesiredSetting, pci_id: str, name: str) -> Objection:
    check = f"in its guest, `mlxconfig -d PCI -e query {name}` must show {desired.value} under Current"
    if pci_id in view.facts.vmnics:
        message = f"vgpu-cfg put {pci_id} in passthrough mode, so its firmware is no longer readable"
        return Objection(Code.FIRMWARE_UNPROVEN, message, check)
    message = f"{pci_id} is in passthrough mode, so {name} can be set only in its guest"
    remedy = (
        f"{check}; otherwise, set it in the guest and power-cycle the host, or set the NIC to `use: host` "
        "first"
    )
    return Objection(Code.FIRMWARE_IN_GUEST, message, remedy)


def _impact(view: HostView, desired: DesiredSetting) -> Impact:
    """Ask for a cold boot only where the host has rebooted since the write and nothing came of it."""
    reading, mark = _read(view, desired.device), view.facts.mark
    if reading.unread or reading.configured is None or reading.in_force is None or mark is None:
        return Impact.HOST_REBOOT
    is_set, holds = (is_same_word(desired.value, value) for value in (reading.configured, reading.in_force))
    written_in = mark.waiting.get(desired.id)
    now = view.facts.boot_time
    has_rebooted = written_in is not None and now is not None and not is_same_boot(now, written_in)
    return Impact.HOST_COLD_BOOT if is_set and not holds and has_rebooted else Impact.HOST_REBOOT


def _write(_view: HostView, desired_settings: Sequence[DesiredSetting]) -> list[ShellWrite]:
    """Make one command per NIC: mlxconfig applies all parameters of a call or none."""
    settings: dict[str, list[str]] = {}
    for desired in desired_settings:
        pci_id, _, name = desired.device.partition(" ")
        settings.setdefault(pci_id, []).append(f"{name}={_NUMBERS.get(desired.value, desired.value)}")
    commands = [(MLXCONFIG, "-d", pci_id, "-y", "set", *words) for pci_id, words in settings.items()]
    return [ShellWrite(commands=tuple(commands))]


def _show_link_type(host: Host, desired: DesiredSetting) -> Host:
    """Show the port as Ethernet or InfiniBand, if the parameter sets it."""
    pci_id, _, name = desired.device.partition(" ")
    if name != _link_type_of(pci_id):
        return host
    return with_function(host, pci_id, class_id=INFINIBAND if is_same_word(desired.value, "IB") else ETHERNET)


def _link_type_of(pci_id: str) -> str:
    """Return the parameter of a port: a board of two has a function for each."""
    return f"LINK_TYPE_P{int(pci_id[-1]) + 1}"


def with_link_types(observed: Inventory) -> Inventory:
    """Return the inventory with the ports as InfiniBand that their firmware makes so at the next boot."""
    changed: dict[str, Host] = {}
    for host in observed.hosts:
        facts = observed.facts.hosts.get(host.moid)
        firmware = facts.shell.firmware if facts is not None and facts.shell is not None else {}
        for pci_id, values in firmware.items():
            found = values.get(_link_type_of(pci_id))
            if found is not None and is_same_word("IB", found.next_boot or found.current or ""):
                before = changed.get(host.moid, host)
                changed[host.moid] = with_function(before, pci_id, class_id=INFINIBAND)
    if not changed:
        return observed
    hosts = tuple(changed.get(host.moid, host) for host in observed.hosts)
    return observed.model_copy(update={"hosts": hosts})


def _by_hand(view: HostView, desired: DesiredSetting) -> str:
    """Describe the steps on the console; nothing if it is not known to be necessary."""
    if _read(view, desired.device).unread:
        return ""
    pci_id, _, name = desired.device.partition(" ")
    return f"on the host's console, set {name} of {pci_id} to {desired.value} with {MLXCONFIG}"


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    pci_id, _, name = desired.device.partition(" ")
    reading = _read(view, desired.device)
    before = reading.configured if not reading.unread and reading.configured else "the previous value"
    return Instructions(
        why=(
            f"{name} is stored on the NIC and persists when the host is reinstalled. Set it before enabling "
            "passthrough, because the host cannot access a passthrough NIC's firmware. ATS_ENABLED is one "
            f"link in the ATS chain, and every link is required. In place of {pci_id}, use the name shown "
            "by `/opt/mellanox/bin/mst status -vv`. If a reboot does not change the value under Current, "
            "power-cycle the host."
        ),
        commands=(f"{MLXCONFIG} -d {pci_id} -y set {name}={_NUMBERS.get(desired.value, desired.value)}",),
        expected="Applying... Done!\n-I- Please reboot machine to load new configurations.",
        verify=(f"{MLXCONFIG} -d {pci_id} -e query {name}",),
        undo=(f"{MLXCONFIG} -d {pci_id} -y set {name}={_NUMBERS.get(before, before)}",),
    )


NIC_FIRMWARE = HostSetting(
    key=KEY,
    title="NIC firmware",
    source="NVIDIA AI Enterprise 5.0 User Guide, chapter 4; native ESXi driver manual 4.19.71 (LINK_TYPE)",
    desired_settings=_desired_settings,
    read=_read,
    write=_write,
    impact=_impact,
    how=_how,
    group=KEY,
    # Another value, and another firmware, are pending until the host has booted.
    in_file="readable only with mlxconfig on the host",
    remembered=Remembering((Invalidator.BOOT, Invalidator.BUILD), attributes=4, words=_WORDS),
    facts=frozenset({FactGroup.SHELL_NICS}),
    same=is_same_word,
    needs_in_force=("nic_passthrough", FIRMWARE_TOOLS),
    has_need=lambda desired, key: desired.comes_back or key == FIRMWARE_TOOLS,
    objects=_objects,
    by_hand=_by_hand,
    show=_show_link_type,
)
