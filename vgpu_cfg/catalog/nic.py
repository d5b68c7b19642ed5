"""The name of each RDMA NIC by its PCI ids, and the drivers that follow from them.

    nics = load_nics()                              nothing is read yet
    nics.by_pci(0x15B3, 0x101D).key                 "ConnectX-6 Dx"

One file per model in `profiles/nics`, read when an id or a name leads to it. The boards of GPUs are a
catalogue of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.catalog.nic_model import MELLANOX, NicModel


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
            from vgpu_cfg.catalog.nic_file import read_nic  # YAML, once it is needed

            self._models[stem] = read_nic(self.folder / f"{stem}.yaml")
        return self._models[stem]


@cache
def load_nics() -> NicCatalog:
    """Return the NICs that come with the program; no file is read before one is asked for."""
    return NicCatalog(data_path("nics"))
