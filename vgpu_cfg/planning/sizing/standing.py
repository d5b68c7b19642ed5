"""What the hosts that are there take of the room, as far as documents tell it of their models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.catalog.servers import BoardPower, Server
from vgpu_cfg.model.observed.inventory import Gpu, Host
from vgpu_cfg.planning.sizing.room import MEMORY_BY_FRAMEBUFFER, RoomSheet, room_of

_NO_LETTER = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class StandingHosts:
    """Hosts of one model with the same GPUs.

    `boards` counts GPUs by name. `framebuffer_mib` is that of one host's GPUs, None where that of one is not
    known; `short_of_memory` are hosts that have less than twice as much memory, a rule of thumb.
    `boards_watts` is what all their GPUs draw at most, None where that of one is not known. `room` is None
    where no document was read for the model: nothing is guessed of it.
    """

    hosts: tuple[str, ...]
    model: str
    boards: Mapping[str, int]
    framebuffer_mib: int | None
    short_of_memory: Mapping[str, int]
    """Their memory in MiB, by name."""
    boards_watts: int | None
    room: RoomSheet | None


def standing_hosts(
    hosts: Iterable[Host], catalog: Catalog, power: Mapping[str, BoardPower], servers: Sequence[Server]
) -> tuple[StandingHosts, ...]:
    """Group hosts by model and GPUs, in the hosts' order, and say what each group takes."""
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], list[Host]] = {}
    for host in hosts:
        counts = Counter(_name(gpu, catalog) for gpu in host.gpus)
        groups.setdefault((host.model, tuple(counts.items())), []).append(host)
    return tuple(_group(found, catalog, power, servers) for found in groups.values())


def _group(
    hosts: Sequence[Host], catalog: Catalog, power: Mapping[str, BoardPower], servers: Sequence[Server]
) -> StandingHosts:
    first = hosts[0]
    boards = [_board(gpu, catalog) for gpu in first.gpus]
    drawn = [power.get(board.key) if board is not None else None for board in boards]
    known = [one.watts for one in drawn if one is not None]
    framebuffer = sum(board.framebuffer_mib for board in boards if board is not None)
    is_known = all(board is not None for board in boards)
    server = next((one for one in servers if _is_model(first, one, boards)), None)
    return StandingHosts(
        hosts=tuple(host.name for host in hosts),
        model=first.model,
        boards=Counter(_name(gpu, catalog) for gpu in first.gpus),
        framebuffer_mib=framebuffer if is_known else None,
        short_of_memory={
            host.name: host.memory_mib
            for host in hosts
            if 0 < host.memory_mib < MEMORY_BY_FRAMEBUFFER * framebuffer
        },
        boards_watts=len(hosts) * sum(known) if len(known) == len(drawn) else None,
        room=None if server is None else room_of(server, len(hosts) * server.gpus),
    )


def _is_model(host: Host, server: Server, boards: Sequence[Board | None]) -> bool:
    """Whether the model's name has that of the server in it, with boards that it comes with."""
    keys = {board.key for board in boards if board is not None}
    return _plain(server.key) in _plain(host.model) and keys <= set(server.boards)


def _plain(text: str) -> str:
    return _NO_LETTER.sub("", text.casefold())


def _board(gpu: Gpu, catalog: Catalog) -> Board | None:
    return catalog.by_pci(gpu.pci.vendor_id, gpu.pci.device_id, gpu.pci.subdevice_id)


def _name(gpu: Gpu, catalog: Catalog) -> str:
    board = _board(gpu, catalog)
    return gpu.name if board is None else board.name
