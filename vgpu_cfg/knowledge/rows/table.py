"""All known failures, by their places; the order is from specific to general.

Some rows are kept as data: a TOML file for each place, a table for each row, by its key. A table's keys are
the fields of `FaultRow`; `kernel = true` repeats its `patterns`. A source that says "from memory" makes a row
`INFERRED`. A table with `rows` is a family of numbered errors: each of them is [number, name, text, cause,
remedy]. All these rows are known by their patterns alone, never by likeness.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow
from vgpu_cfg.knowledge.rows.drivers import DRIVER_ROWS, LICENCE_ROWS
from vgpu_cfg.knowledge.rows.guests import CONTAINER_ROWS, GUEST_ROWS
from vgpu_cfg.knowledge.rows.hosts import GPU_ROWS
from vgpu_cfg.knowledge.rows.power_on import POWER_ON_ROWS
from vgpu_cfg.knowledge.rows.running import GENERAL_ROWS, VM_ROWS
from vgpu_cfg.knowledge.rows.training import TRAINING_ROWS
from vgpu_cfg.knowledge.rows.xid import XID_ROWS

FOLDER = Path(__file__).parent


def read_rows(name: str) -> tuple[FaultRow, ...]:
    """Return the rows of a file, in its order."""
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return tuple(row for key, fields in tables.items() for row in _rows(key, fields))


def in_other_languages(rows: tuple[FaultRow, ...]) -> tuple[FaultRow, ...]:
    """Return the rows with the patterns of vCenter's texts in other languages."""
    found = tomllib.loads((FOLDER / "languages.toml").read_text(encoding="utf-8"))
    own = {row.key: tuple(text["pattern"] for text in found.get(row.key, ())) for row in rows}
    return tuple(replace(row, patterns=row.patterns + own[row.key]) if own[row.key] else row for row in rows)


def _rows(key: str, fields: dict[str, Any]) -> Iterator[FaultRow]:
    if "rows" not in fields:
        yield _row(key, fields)
        return
    for number, name, text, cause, remedy in fields.pop("rows"):
        said = {"{number}": str(number), "{name}": name, "{text}": text}
        literal = {**said, "{text}": re.escape(text).replace("\\ ", " ")}
        patterns = [_filled(one, literal) for one in fields["patterns"]]
        known = {word: _filled(fields[word], said) for word in ("sample", "symptom")}
        own = {"patterns": patterns, "cause": cause, "remedy": remedy, **known}
        yield _row(f"{key.removesuffix('-number')}-{number}", {**fields, **own})


def _filled(text: str, said: dict[str, str]) -> str:
    for word, value in said.items():
        text = text.replace(word, value)
    return text


def _row(key: str, fields: dict[str, Any]) -> FaultRow:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    if values.get("kernel") is True:
        values["kernel"] = values["patterns"]
    values["faults"] = frozenset(values.get("faults", ()))
    confidence = Confidence.INFERRED if "from memory" in fields["source"] else Confidence.SEEN
    return FaultRow(key, confidence=confidence, is_verbatim=True, **values)


_BY_PLACE: dict[str, tuple[FaultRow, ...]] = {
    "vCenter, hostd, and vmware.log: a VM does not start": POWER_ON_ROWS,
    "vCenter: a VM cannot be migrated, stopped, snapshotted, or changed": VM_ROWS,
    "ESXi: nvidia-smi, esxcli, vmkernel.log": GPU_ROWS,
    "the guest driver: dmesg, modprobe, nvidia-smi, CUDA": DRIVER_ROWS,
    "the guest: topology, RDMA, firmware": GUEST_ROWS,
    "licenses: nvidia-gridd and vCenter": (*LICENCE_ROWS, *read_rows("licences")),
    "containers: Docker and the NVIDIA Container Toolkit": CONTAINER_ROWS,
    "training: NCCL, mlx5, Horovod": TRAINING_ROWS,
    "Xid: error numbers from the NVIDIA driver, on hosts and in guests": XID_ROWS,
    "the guest's kernel: PCIe, disks, NICs": read_rows("kernel"),
    "vCenter: clones, storage, HA, and VMware Tools": read_rows("vsphere"),
    "ESXi: packages and esxcli": read_rows("esxcli"),
    "the guest: driver packages, cloud-init, and containers": read_rows("runtimes"),
    "Windows guests": read_rows("windows"),
    "the guest: packages, compilers, SSH, NFS, and networks": read_rows("linux"),
    "jobs: rendezvous, MPI, Slurm, Fabric Manager, DCGM": read_rows("jobs"),
    "training and serving: PyTorch, DeepSpeed, Ray, vLLM": read_rows("frameworks"),
    "numbers: RDMA, CUDA, VIX, and other Xids": read_rows("numbers"),
    "vCenter: any VM": GENERAL_ROWS,
    "vCenter: faults by type": read_rows("faults"),
}

PLACES = {place: in_other_languages(rows) for place, rows in _BY_PLACE.items()}
"""The places of texts, and their rows."""

ROWS: tuple[FaultRow, ...] = tuple(row for rows in PLACES.values() for row in rows)


def place_of(key: str) -> str:
    """Return where the text of a row is met."""
    return next(place for place, rows in PLACES.items() if any(row.key == key for row in rows))
