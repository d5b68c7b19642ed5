"""What commands do to the lab's hosts while they run: every call and restart, how many are down at once."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.lab.state.inventory import Alarm, Gpu, Host, LabState, Nic
from vgpu_cfg.lab.state.vm import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.locks import HEAD
from vgpu_cfg.model.observed.host_facts import REMEMBERED_PREFIX

if TYPE_CHECKING:
    import pytest

PLAN = "examples/prepare-hosts.yaml"
ESTATE = "bare"
A100_HOSTS = ("esx-r12-01.lab", "esx-r12-02.lab")
L40S_HOSTS = ("esx-r12-03.lab", "esx-r12-04.lab")
HAND = ("lab", "hand", ESTATE, *L40S_HOSTS, "--bios", "sriov=on", "--power-on")

LOCKING = "lock "
"""What the name of a call begins with that makes, keeps or removes a lock."""

SSH = "TSM-SSH"
MARK = "vgpu_cfg.host"
READING = frozenset({
    "CreateCollectorForEvents", "CreateContainerView", "CreateFilter", "CreateListView",
    "CurrentTime", "DestroyCollector", "DestroyPropertyFilter", "DestroyView", "Fetch",
    "FindAssociatedProfile", "FindExtension",
    "GetAlarm", "GetCustomizationSpec", "HasPrivilegeOnEntities", "Login", "Logout",
    "ModifyListView", "QueryAssignedLicenses", "QueryConfigOptionDescriptor", "QueryConfigOptionEx",
    "QueryConfigTarget", "QueryConfiguredModuleOptionString", "QueryEvents", "QueryOptions",
    "ReadNextEvents", "ReadPreviousEvents", "ResetCollector", "RetrieveManagedMethodExecuter",
    "RetrievePropertiesEx", "RetrieveServiceContent",
    "RetrieveVendorDeviceGroupInfo", "RetrieveVgpuProfileInfo", "WaitForUpdatesEx", "fetchSoftwarePackages",
})  # fmt: skip
"""Methods that change nothing that another session could see."""

_METHOD = re.compile(rb"<soapenv:Body>\s*<(\w+)")
_ALARM = re.compile(rb'<_this [^>]*type="Alarm"[^>]*>(?P<moid>[^<]+)<|<name>(?P<lock>vgpu-cfg lock: )')
_ESXCLI = re.compile(rb"<method[^>]*>vim\.EsxCLI\.([\w.]+)<")
_IS_READING = re.compile(
    r"^(\$ .*( -q\b| query\b| --query-gpu=|mst status|mig -lgi$)|esxcli .*\b(get|list)$|GET )"
)

Before = Callable[[str], None]


@dataclass(slots=True)
class Watch:
    """What was seen since the last `forget`. A call's name is its method, `esxcli …` or `$ command`.

    `most_down` is how many hosts were in maintenance mode or away at once; `restarts` says how often each
    host came up. `before_call` and `after_call` take a call's name, and may break it off.
    """

    calls: Counter[str] = field(default_factory=Counter)
    most_down: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    booted: dict[str, float] = field(default_factory=dict)
    before_call: Before = lambda _name: None
    after_call: Before = lambda _name: None

    @property
    def writes(self) -> dict[str, int]:
        """The calls that changed something, with their number; the run's own locks apart."""
        return {
            name: count
            for name, count in self.calls.items()
            if not is_reading(name) and not name.startswith(LOCKING)
        }

    def forget(self) -> None:
        """Count from nothing again."""
        self.calls.clear()
        self.most_down = 0
        self.restarts.clear()
        self.booted.clear()

    def look(self, state: LabState) -> None:
        """Note how the hosts are."""
        hosts = state.all(Host)
        self.most_down = max(self.most_down, sum(is_down(host) for host in hosts))
        for host in hosts:
            if self.booted.setdefault(host.name, host.boot_time) != host.boot_time:
                self.restarts[host.name] += 1
                self.booted[host.name] = host.boot_time

    def told(self, name: str, call: Callable[[], Any]) -> Any:
        """Count a call and let it happen."""
        self.before_call(name)
        self.calls[name] += 1
        answer = call()
        self.after_call(name)
        return answer


def is_reading(name: str) -> bool:
    """Whether a call changes nothing."""
    return name in READING or _IS_READING.match(name) is not None


def is_down(host: Host) -> bool:
    """Whether a host is in maintenance mode, on the way there, or away."""
    return host.in_maintenance or host.entering_maintenance or host.connection != "connected"


def watch_labs(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Follow every lab that is opened from now on, until `monkeypatch` is undone."""
    watch = Watch()
    exchange, execute, save = Lab.exchange, LabShell.execute, Lab.save

    def watched_exchange(
        lab: Lab, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        name = _name_of(body, lab.state) or f"{method} {path}"
        answer: tuple[int, Mapping[str, str], bytes] = watch.told(
            name, lambda: exchange(lab, method, path, headers, body)
        )
        return answer

    def watched_execute(shell: LabShell, line: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = watch.told(f"$ {line}", lambda: execute(shell, line))
        return answer

    def watched_save(lab: Lab) -> None:
        save(lab)
        watch.look(lab.state)

    monkeypatch.setattr(Lab, "exchange", watched_exchange)
    monkeypatch.setattr(LabShell, "execute", watched_execute)
    monkeypatch.setattr(Lab, "save", watched_save)
    return watch


def _name_of(body: bytes, state: LabState) -> str:
    found = _METHOD.search(body)
    if found is None:
        return ""
    alarm = _ALARM.search(body)
    if alarm is not None and _is_lock(alarm, state):
        return f"{LOCKING}{found[1].decode()}"
    inner = _ESXCLI.search(body) if found[1] == b"ExecuteSoap" else None
    return f"esxcli {inner[1].decode().replace('.', ' ')}" if inner else found[1].decode()


def _is_lock(alarm: re.Match[bytes], state: LabState) -> bool:
    """Whether an alarm that is made, changed or removed is a lock, by its name or its moid."""
    thing = state.objects.get((alarm["moid"] or b"").decode())
    return bool(alarm["lock"]) or (isinstance(thing, Alarm) and thing.name.startswith(HEAD))


# ---------------------------------------------------------------- the lab's own state


def state_file(vgpu_cfg: CommandLine, estate: str = ESTATE) -> Path:
    """Return where the lab's state is kept between commands."""
    return vgpu_cfg.state_folder / "lab" / Path(estate).stem / "state.json"


def put_state(vgpu_cfg: CommandLine, saved: Path, estate: str = ESTATE) -> None:
    """Let the lab go on from a state that was kept."""
    place = state_file(vgpu_cfg, estate)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(saved, place)
    vgpu_cfg.keep_id(PLAN)


def hosts_of(state: LabState) -> dict[str, Host]:
    """Return the hosts by name."""
    return {host.name: host for host in state.all(Host)}


def marks_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the marks that hosts carry, by host name."""
    values = state.custom_values.get("values", {})
    keys = [str(each["key"]) for each in state.custom_values.get("fields", ()) if each["name"] == MARK]
    found = {host.name: values.get(host.moid, {}).get(key, "") for host in state.all(Host) for key in keys}
    return {name: json.loads(text) for name, text in found.items() if text}


def is_tidy(state: LabState) -> bool:
    """Whether nothing of the work is left: no maintenance mode, mark, alarm or open SSH service."""
    hosts = state.all(Host)
    return not (
        any(is_down(host) or host.services[SSH].running for host in hosts)
        or marks_of(state)
        or state.alarms
        or state.open_tasks
    )


def values_of(host: Host) -> dict[str, Any]:
    """Return what the example sets of a host, each value as configured and as in force."""
    return {
        "driver": (host.driver.kind, host.driver.version) if host.driver else None,
        "graphics": (
            host.configured_default_graphics_type,
            host.configured_assignment_policy,
            host.assignment_policy,
        ),
        "ats": (host.kernel["atsSupport"].configured, host.kernel["atsSupport"].runtime),
        "bios": host.bios.sriov,
        **{f"gpu {gpu.pci_id}": _gpu_values(host, gpu) for gpu in host.gpus},
        **{f"nic {nic.pci.pci_id}": _nic_values(nic) for nic in host.nics},
        "passed through": sorted(
            (pci_id, found.active, found.label) for pci_id, found in host.passthrough.items() if found.enabled
        ),
        **{f"module {name}": (found.configured, found.at_boot) for name, found in host.modules.items()},
    }


def _gpu_values(host: Host, gpu: Gpu) -> tuple[object, ...]:
    return (
        gpu.graphics_type,
        gpu.configured_graphics_type or host.configured_default_graphics_type,
        gpu.vgpu_mode,
        (gpu.mig_enabled, gpu.mig_pending),
        (gpu.ecc_enabled, gpu.ecc_pending),
    )


def _nic_values(nic: Nic) -> tuple[object, ...]:
    """Return the firmware's parameters that are not the factory's, and the virtual functions."""
    changed = tuple(
        (name, found.current, found.next_boot)
        for name, found in nic.firmware.items()
        if {found.current, found.next_boot} != {found.default}
    )
    return changed, nic.requested_vfs, nic.num_vfs


def settings_of(state: LabState) -> dict[str, Any]:
    """Return everything of the hosts and VMs that does not tell of the way there: no times, tasks or places.

    DRS moves VMs where there is room at the moment, so where they run is none of it.
    """
    return dict(_told(state))


def _told(state: LabState) -> Iterator[tuple[str, Any]]:
    for host in state.all(Host):
        kept = {
            name: getattr(host, name)
            for name in Host.__dataclass_fields__
            if name not in {"revision", "boot_time", "vms"}
        }
        yield host.name, repr(kept)
    for vm in state.all(VirtualMachine):
        yield vm.name, (vm.power_state, vm.memory_mib, vm.cpus, sorted(vm.extra_config.items()))
    yield "alarms", list(state.alarms)
    yield "marks", marks_of(state)
    yield "custom values", {moid: held for moid, held in _values(state).items() if held}


def _values(state: LabState) -> dict[str, dict[str, str]]:
    names = {str(each["key"]): each["name"] for each in state.custom_values.get("fields", ())}
    return {
        moid: {
            names[key]: text
            for key, text in held.items()
            # What is remembered holds for one boot, and a run that goes on may take another.
            if text and not names[key].startswith(REMEMBERED_PREFIX)
        }
        for moid, held in state.custom_values.get("values", {}).items()
    }
