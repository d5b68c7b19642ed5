"""The entries of `hosts`: each host's differences from a plain one, as far as vCenter reports them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.inventory import Host, HostNic, Inventory
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.ranges import runs_of
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.host_settings.entry import HostView, InFile, Part
from vgpu_cfg.planning.host_settings.match import passed_through_nics
from vgpu_cfg.planning.host_settings.resolved_host import make_view
from vgpu_cfg.planning.host_settings.table import SETTINGS

Rule = dict[str, Any]
_OF_PASSED_THROUGH = frozenset({"use", "label"})
"""The possible requests for a passthrough GPU: the host's driver does not serve it."""


@dataclass(slots=True)
class ExportedHosts:
    """The entries, how many hosts they cover, and their unknown settings, with the reason."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    left_out: list[str] = field(default_factory=list)


def host_entries(hosts: Iterable[Host], observed: Inventory, catalog: Catalog) -> ExportedHosts:
    """Write the hosts that are prepared, those that are alike in one entry."""
    result = ExportedHosts()
    entries: list[tuple[dict[str, Any], list[str]]] = []
    for host in sorted(hosts, key=lambda one: as_counted(one.name)):
        said = _said_of(make_view(host, observed, catalog))
        if not said or "{" in host.name:
            continue
        same = next((names for entry, names in entries if entry == said), None)
        if same is None:
            entries.append((said, [host.name]))
        else:
            same.append(host.name)
    for said, names in entries:
        result.count += len(names)
        written = [one for one, _ in runs_of(names)]
        result.entries.append(
            {"names": written[0] if len(written) == 1 else written, "prepare": "none", **said}
        )
    if entries:
        result.left_out = list(_silent())
    return result


def _silent() -> Iterator[str]:
    """Yield what no entry says, by the reason."""
    reasons: dict[str, list[str]] = {}
    for setting in SETTINGS:
        if not isinstance(setting.in_file, InFile):
            reasons.setdefault(setting.in_file, []).append(setting.title)
    for reason, titles in reasons.items():
        yield f"host settings {', '.join(titles)}: {reason}"


def _said_of(view: HostView) -> dict[str, Any]:
    said: dict[str, Any] = dict(_words(view, "", Part.HOST))
    gpus = {gpu.pci_id: _of_gpu(dict(_words(view, gpu.pci_id, Part.GPU))) for gpu in view.host.gpus}
    if any(gpus.values()):
        said["gpus"] = list(_rules(gpus))
    nics = [
        {"match": _match(nic), **words}
        for nic in (*view.host.nics, *passed_through_nics(view))
        if (words := dict(_words(view, nic.pci_id, Part.NIC)))
    ]
    if nics:
        said["nics"] = nics
    return said


def _words(view: HostView, device: str, part: Part) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of a device from the rows.

    Unread values are left out, as are those that wait for a restart.
    """
    for setting in SETTINGS:
        if not isinstance(setting.in_file, InFile) or setting.in_file.part is not part:
            continue
        reading = setting.read(view, device)
        if not reading.unread and reading.configured is not None and reading.configured == reading.in_force:
            yield from setting.in_file.says(reading.configured).items()


def _of_gpu(words: Rule) -> Rule:
    if words.get("use") != GpuUse.PASSTHROUGH:
        return words
    return {key: value for key, value in words.items() if key in _OF_PASSED_THROUGH}


def _rules(gpus: dict[str, Rule]) -> Iterator[Rule]:
    """Yield one rule for all GPUs where they are alike, else one for each of which something is said."""
    rules: Sequence[Rule] = list(gpus.values())
    if all(rule == rules[0] for rule in rules):
        yield rules[0]
        return
    for pci_id, rule in gpus.items():
        if rule:
            yield {"match": {"pci_id": pci_id}, **rule}


def _match(nic: HostNic) -> Rule:
    """Select one NIC: by its name, which stays the same as long as the host has it."""
    return {"vmnic": nic.device} if nic.device else {"pci_id": nic.pci_id}
