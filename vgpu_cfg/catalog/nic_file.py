"""The format of a file of `profiles/nics`, and its conversion to a NIC model.

Every key is described in profiles/README.md.

Belief: mlx5-drives-new-functions.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from vgpu_cfg.catalog.board_file import HexId
from vgpu_cfg.catalog.nic_model import NicModel
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.frozen import Frozen


class NicFile(Frozen):
    """A whole file. Ids are in quotes, since 1021 would be a number."""

    key: str
    device: HexId
    virtual_function: HexId | None = None
    also: tuple[str, ...] = ()
    driver: str
    rdma_driver: str
    line_gbps: int | None = Field(default=None, gt=0)
    note: str = ""
    unproven: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str]
    date: str


def read_nic(path: Path) -> NicModel:
    """Read one NIC's file; DocumentError names the line and column of every fault."""
    document = read_document(path)
    row = build(document, NicFile)
    faults = []
    stem = row.key.lower().replace(" ", "-")
    if stem != path.stem:
        faults.append(document.fault(("key",), f"the file must be named after its key: {stem}.yaml"))
    faults += [
        document.fault(("unproven", name), f"{name!r} is not a valid key for a NIC file")
        for name in row.unproven
        if name not in NicFile.model_fields
    ]
    if faults:
        raise DocumentError(faults)
    return NicModel(
        key=row.key,
        device_id=int(row.device, 16),
        names=tuple(dict.fromkeys((row.key, *row.also))),
        vf_device_id=int(row.virtual_function, 16) if row.virtual_function is not None else None,
        driver=row.driver,
        rdma_driver=row.rdma_driver,
        line_gbps=row.line_gbps,
        note=" ".join(row.note.split()),
        unproven=MappingProxyType(row.unproven),
        sources=MappingProxyType(row.sources),
        date=row.date,
    )
