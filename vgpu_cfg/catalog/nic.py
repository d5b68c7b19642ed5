"""RDMA NICs: the model by its PCI ids, its names, and the drivers that follow from it.

    nics = load_nics()                              nothing is read yet
    nics.by_pci(0x15B3, 0x101D).key                 "ConnectX-6 Dx"

One file per model in `profiles/nics`, read when an id or a name leads to it; profiles/README.md describes its
keys. The boards of GPUs are a catalogue of their own.

Belief: mlx5-drives-new-functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from vgpu_cfg.catalog.board_file import HexId
from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.frozen import Frozen

MELLANOX = 0x15B3
"""The PCI vendor of every NIC here."""


@dataclass(frozen=True, slots=True)
class NicModel:
    """One model of NIC.

    `names` are its own name and those of pci.ids. `vf_device_id` is the device id of its virtual functions
    (several models share one; None: not looked up). `driver` and `rdma_driver` are ESXi's kernel modules for
    it. `line_gbps` is the speed of a port on most cards, in Gb/s; None if unknown. `unproven` gives, by the
    file's key, derived and recalled values, and their basis.
    """

    key: str
    device_id: int
    names: tuple[str, ...]
    vf_device_id: int | None
    driver: str
    rdma_driver: str
    line_gbps: int | None
    note: str
    unproven: Mapping[str, str]
    sources: Mapping[str, str]
    date: str


@dataclass(slots=True)
class NicCatalog:
    """The models of a folder; each file is read when it is first needed. A broken one is a DocumentError."""

    folder: Path
    _texts: dict[str, str] = field(default_factory=dict)
    _models: dict[str, NicModel] = field(default_factory=dict)

    @property
    def models(self) -> tuple[NicModel, ...]:
        """Every model, in the order of the files."""
        return tuple(self._holding(""))

    def by_pci(self, vendor_id: int, device_id: int) -> NicModel | None:
        """Return the model with these ids; they may be signed shorts, as vSphere gives them.

        A virtual function has no model: most of them share one id.
        """
        if vendor_id & 0xFFFF != MELLANOX:
            return None
        wanted = device_id & 0xFFFF
        return next((model for model in self._holding(f"{wanted:04x}") if model.device_id == wanted), None)

    def names_of(self, vendor_id: int, device_id: int) -> tuple[str, ...]:
        """Return every name of the model with these ids; empty where there is none."""
        model = self.by_pci(vendor_id, device_id)
        return model.names if model is not None else ()

    def model(self, name: str) -> NicModel | None:
        """Return the model with this key, whatever the case."""
        wanted = name.strip().casefold()
        return next((model for model in self._holding(wanted) if model.key.casefold() == wanted), None)

    def _holding(self, word: str) -> Iterator[NicModel]:
        """Read the models whose file holds this word, given in lower case, somewhere."""
        if not self._texts:
            self._texts = {
                path.stem: path.read_text(encoding="utf-8", errors="replace").casefold()
                for path in sorted(self.folder.glob("*.yaml"))
            }
        for stem, text in self._texts.items():
            if word in text:
                yield self._read(stem)

    def _read(self, stem: str) -> NicModel:
        if stem not in self._models:
            self._models[stem] = read_nic(self.folder / f"{stem}.yaml")
        return self._models[stem]


@cache
def load_nics() -> NicCatalog:
    """Return the NICs that come with the program; no file is read before one is asked for."""
    return NicCatalog(data_path("nics"))


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
