"""What is cordoned, as rows: of which host or GPU, why, by whom and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.model.observed.inventory import Host


@dataclass(frozen=True, slots=True)
class CordonRow:
    """A cordon; `gpu` is empty where it is of the host, `by` and `since` where nobody told."""

    host: str
    gpu: str
    reason: str
    by: str
    since: str


def cordon_rows(hosts: Iterable[Host]) -> tuple[CordonRow, ...]:
    """Make a row of each cordon, in the hosts' order."""
    return tuple(
        CordonRow(
            host=host.name,
            gpu=cordon.pci_id,
            reason=cordon.reason,
            by=cordon.by,
            since=cordon.since.isoformat() if cordon.since is not None else "",
        )
        for host in hosts
        for cordon in host.cordons
    )
