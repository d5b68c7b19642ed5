"""Where secrets stand while commands run: in vCenter, guests and files, looked for after every request."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.guest.login import LabGuestShell
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

if TYPE_CHECKING:
    import pytest

_PACKED = re.compile(r"[A-Za-z0-9+/]{20,}={0,2}")
_NUMBERED = re.compile(r"(?<=/var/lib/cloud/instances/)[^/]+|(?<=/tmp/vgpu-cfg-vmware)\d+")


HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
OWN_KEY = "a guest's private host key"


def distinct_part(private: str) -> str:
    """Return what only this private key holds: its last whole line."""
    return private.splitlines()[-3]


@dataclass
class SecretWatch:
    """What was found so far: (secret, place). A place is `vCenter: …`, `guest: …` or `machine: …`.

    `needles` are texts by the secret that they are a part of. `looks` counts how often it was looked.
    """

    needles: dict[str, tuple[str, ...]]
    found: set[tuple[str, str]] = field(default_factory=set)
    looks: int = 0
    known: dict[tuple[str, str], str] = field(default_factory=dict)

    def forget(self) -> None:
        """Look at everything again."""
        self.found.clear()
        self.known.clear()

    def look(self, state: LabState) -> None:
        """Look at everything that vCenter and guests hold and that was not there the last time."""
        self.looks += 1
        fresh = []
        for vm in state.all(VirtualMachine):
            fresh += self._fresh(vm.moid, "vCenter: ", vm.extra_config.items())
            guest = vm.made_guest
            if guest is not None:
                fresh += self._fresh(
                    vm.moid, "guest: ", ((path, file.content) for path, file in guest.files.items())
                )
                fresh += self._fresh(
                    vm.moid, "guest: ", (("process arguments", one.command) for one in guest.processes)
                )
        events = (
            (moid, repr(getattr(state.objects[moid], "values", ""))) for moid in self._new(state.events)
        )
        fresh += [("vCenter: events", text) for _, text in events]
        fresh.append(("vCenter: custom attributes", repr(state.custom_values)))
        for place, text in fresh:
            if place == f"guest: {HOST_KEY}":
                # A guest makes it while it boots: from then on it is looked for.
                self.needles[OWN_KEY] = tuple({*self.needles.get(OWN_KEY, ()), distinct_part(text)})
        for place, text in fresh:
            self._search(place, text)

    def _fresh(self, moid: str, kind: str, held: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        found = []
        for name, text in held:
            if self.known.get((moid, name)) != text:
                self.known[moid, name] = text
                found.append((f"{kind}{_NUMBERED.sub('*', name)}", text))
        return found

    def _new(self, moids: Sequence[str]) -> list[str]:
        new = [moid for moid in moids if (moid, "event") not in self.known]
        self.known |= {(moid, "event"): "" for moid in new}
        return new

    def look_at_files(self, run: CommandLine) -> None:
        """Look at all files beside the lab's own state and what was written for the test."""
        for path in run.state_folder.rglob("*"):
            if path.is_file() and "lab" not in path.relative_to(run.state_folder).parts:
                place = f"machine: {path.relative_to(run.state_folder).parts[0]}"
                self._search(place, path.read_text(encoding="utf-8", errors="replace"))
        for path in run.folder.glob("*.json"):
            self._search(f"machine: {path.name}", path.read_text(encoding="utf-8"))

    def look_at_text(self, place: str, text: str) -> None:
        """Look at what a command has printed."""
        self._search(place, text)

    def _search(self, place: str, text: str) -> None:
        for whole in (text, *_unpacked(text)):
            for name, needles in self.needles.items():
                if any(needle in whole for needle in needles):
                    self.found.add((name, place))


def _unpacked(text: str) -> Iterator[str]:
    """Yield what stands in a text packed: as base64, with gzip or without."""
    for match in _PACKED.findall(text):
        try:
            content = base64.b64decode(match, validate=True)
            if content[:2] == b"\x1f\x8b":
                content = gzip.decompress(content)
        except (binascii.Error, OSError, EOFError, zlib.error):
            continue
        yield content.decode("utf-8", "replace")


def watch_secrets(monkeypatch: pytest.MonkeyPatch, needles: Mapping[str, tuple[str, ...]]) -> SecretWatch:
    """Look at every lab that is opened from now on, after each request and each thing done in a guest."""
    watch = SecretWatch(dict(needles))

    def watched(owner: type, name: str, state_of: Callable[[Any], LabState]) -> None:
        plain = getattr(owner, name)

        def call(self: Any, *words: Any, **named: Any) -> Any:
            answer = plain(self, *words, **named)
            watch.look(state_of(self))
            return answer

        monkeypatch.setattr(owner, name, call)

    watched(Lab, "exchange", lambda lab: lab.state)
    for name in ("execute", "write_file", "read_file"):
        watched(LabGuestShell, name, lambda shell: shell._lab.state)
    return watch


Rows = Mapping[str, frozenset[str]]


def told_places(page: Path, heading: str) -> Rows:
    """Read the places of each secret in a page's table below a heading; `nowhere` is none."""
    text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    told: dict[str, set[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] not in ("Secret", "---"):
            places = told.setdefault(cells[0], set())
            if cells[1] != "nowhere":
                places.add(cells[1].replace("`", ""))
    return {name: frozenset(places) for name, places in told.items()}
