"""What is compared of a lab's state: what runs made, what they must not leave, and what is a stranger's."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.cli.host_watch import SSH, is_down, marks_of, values_of
from tests.faults.harness.scenarios import OURS, SECOND
from vgpu_cfg.lab.state.inventory import Cluster, Folder, Host, LabState, Task
from vgpu_cfg.lab.state.store import PLAIN_FIELDS, encode_object, encode_values
from vgpu_cfg.lab.state.vm import VirtualMachine
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE

_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
MARK = "vgpu_cfg."
READ = f"{MARK}read."
"""What a shell told is remembered on the host as it was read, by any run."""
PLAIN = (HOME_ATTRIBUTE, "owner", "team")
"""Custom attributes whose texts every run writes alike."""
CHOSEN = (MARK, "guestinfo.", "numa.nodeAffinity")
"""What begins so differs from run to run: ids and moments, what guests tell, which GPU was free."""


def look_at(state: LabState) -> dict[str, Any]:
    """Return what two ends of one scenario must share, as JSON values."""
    hosts = state.all(Host)
    return {
        "vms": sorted(_vm(vm) for vm in state.all(VirtualMachine)),
        "hosts": {host.name: _told(values_of(host)) for host in hosts},
        "down": [host.name for host in hosts if is_down(host)],
        "open shells": [host.name for host in hosts if host.services[SSH].running],
        "marks": marks_of(state),
        "kept": _kept(state),
        "rules": sorted(rule.name for cluster in state.all(Cluster) for rule in cluster.rules),
        "groups": sorted(group.name for cluster in state.all(Cluster) for group in cluster.groups),
        "alarms": sorted(state.objects[moid].name for moid in state.alarms),
        "folders": sorted(folder.name for folder in state.all(Folder)),
        "open tasks": len(state.open_tasks),
        "places": {vm.name: state.get(vm.host, Host).name for vm in state.all(VirtualMachine) if vm.host},
    }


def _kept(state: LabState) -> list[list[str]]:
    """Return the custom attributes that things have, without the texts that hold moments and ids."""
    names = {str(each["key"]): each["name"] for each in state.custom_values.get("fields", ())}
    values = state.custom_values.get("values", {})
    return sorted(
        [
            getattr(state.objects[thing], "name", thing),
            names[str(key)],
            text if names[str(key)] in PLAIN else "",
        ]
        for thing, found in values.items()
        for key, text in found.items()
        if text and thing in state.objects and not names[str(key)].startswith(READ)
    )


def begin_with(state: LabState) -> dict[str, Any]:
    """Return what another run would begin with: all of the above, and what is still going on."""
    tasks = [state.get(moid, Task) for moid in state.open_tasks]
    guests = [repr(vm.made_guest) for vm in state.all(VirtualMachine)]
    return {
        **look_at(state),
        "going on": sorted(f"{task.name} {task.entity}" for task in tasks),
        "booting": sorted(state.booting),
        "leaving": sorted(state.leaving),
        "connected": [host.connection for host in state.all(Host)],
        "values": state.custom_values,
        "guests": guests,
    }


def whole(state: LabState) -> str:
    """Return all that vCenter keeps, events and tasks included, as text; what is inside of guests is not."""
    things = {moid: encode_object(thing) for moid, thing in state.objects.items()}
    for thing in things.values():
        thing.pop("made_guest", None)
    text = json.dumps([things, encode_values({name: getattr(state, name) for name in PLAIN_FIELDS})])
    return "\n".join([text, *_unpacked(text)])


def _unpacked(text: str) -> Iterator[str]:
    """Yield what is packed in a text, as base64 or zipped besides, and what is packed in that."""
    for packed in _BASE64.findall(text):
        with suppress(binascii.Error, ValueError, OSError, EOFError, zlib.error):
            content = base64.b64decode(packed + "=" * (-len(packed) % 4))
            inner = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
            found = inner.decode("utf-8")
            yield found
            yield from _unpacked(found)


def _told(values: dict[str, Any]) -> Any:
    return json.loads(json.dumps(values, default=repr))


def _vm(vm: VirtualMachine) -> list[Any]:
    """Return a VM as a plan means it; of one that is another's everything, as a digest."""
    if vm.extra_config.get(f"{MARK}plan", "").partition(" ")[0] not in (OURS, SECOND):
        given_up = {"change_version", "log"} if vm.name.startswith("hvd-") else set[str]()
        kept = [
            repr(getattr(vm, field.name))
            for field in dataclasses.fields(vm)
            if field.name not in {"seed", "made_devices", "made_guest", "revision", "host", *given_up}
        ]
        return [vm.name, "not ours", hashlib.sha256("".join(kept).encode()).hexdigest()]
    settings = {key: text for key, text in vm.extra_config.items() if not key.startswith(CHOSEN)}
    devices = sorted(type(device).__name__ + _backing(device) for device in vm.devices.values())
    return [
        vm.name, vm.power_state, vm.cpus, vm.memory_mib, vm.is_template, sorted(settings.items()),
        sorted(key for key in vm.extra_config if key.startswith((MARK, "guestinfo."))), devices,
    ]  # fmt: skip


def _backing(device: Any) -> str:
    return str(getattr(getattr(device, "backing", None), "vgpu", ""))
