"""A GPU server's use of the room (profiles/servers), and a board's computing power and consumption.

Belief: size-servers.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import Field

from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.frozen import Frozen


class GpuForm(StrEnum):
    """How GPUs are built into a server."""

    PCIE = "PCIe"
    """Boards in PCIe slots."""
    SXM = "SXM"
    """Modules on a board of their own, such as HGX."""


class Server(Frozen):
    """One model of server. Power is the maximum by its maker; None is unknown or absent.

    `boards` are keys of the catalogue: it comes with `gpus` of one of them, which `nvlink` says it can join.
    `pcie_slots` counts its slots of 16 lanes, those of boards included.
    """

    key: str
    boards: tuple[str, ...]
    gpus: int = Field(gt=0)
    form: GpuForm
    nvlink: bool = True
    max_watts: int | None = Field(default=None, gt=0)
    rack_units: int | None = Field(default=None, gt=0)
    power_supplies: int | None = Field(default=None, gt=0)
    pcie_slots: int | None = Field(default=None, gt=0)
    compute_ports: int | None = Field(default=None, gt=0)
    port_gbps: int | None = Field(default=None, gt=0)


class ServerFile(Server):
    """A whole file: the server, what of it is recalled, and where it was read."""

    unproven: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str]
    date: str


class BoardPower(Frozen):
    """A GPU's dense peak in 16-bit formats, in TFLOP/s, and the watts that it draws at most."""

    tflops: float = Field(gt=0)
    watts: int = Field(gt=0)


class BoardPowerFile(Frozen):
    """The whole file, by the board's key."""

    boards: dict[str, BoardPower]
    unproven: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str]
    date: str


@cache
def load_servers() -> tuple[Server, ...]:
    """Return the servers that come with the program, in the order of their files."""
    return tuple(_read_server(path) for path in sorted(data_path("servers").glob("*.yaml")))


@cache
def load_board_power() -> dict[str, BoardPower]:
    """Return the known peak and power of the boards, by key; boards without an entry are unknown."""
    return build(read_document(data_path("training", "boards.yaml")), BoardPowerFile).boards


def _read_server(path: Path) -> Server:
    document = read_document(path)
    found = build(document, ServerFile)
    stem = found.key.lower().replace(" ", "-")
    if stem != path.stem:
        raise DocumentError([document.fault(("key",), f"the file must be named after its key: {stem}.yaml")])
    return Server(**found.model_dump(include=set(Server.model_fields)))
