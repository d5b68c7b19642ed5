"""The context of checks on a plan file's VMs: its networks, its secrets, and files that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredNetwork
from vgpu_cfg.model.frozen import Frozen

ReadText = Callable[[str, str], str]
"""Reads a file by the name of the document that names it, and its path from there.

Raises ValueError if there is no such file, DocumentError if its content is invalid.
"""


def no_files(_document: str, path: str) -> str:
    """Refuse every file: without a folder there are none."""
    raise ValueError(f"cannot read the file {path!r} on this machine")


@dataclass(frozen=True, slots=True)
class VmContext:
    """The plan around its VMs. `networks` is None where they are faulty: then nothing is said of them."""

    networks: Mapping[str, DesiredNetwork] | None = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    read_text: ReadText = no_files

    def unknown_secret(self, name: str | None) -> tuple[str, str] | None:
        """Return the error for a secret missing from `secrets`; None if it is there.

        Its name is not repeated: it may be the secret itself.
        """
        if name is None or name in self.secrets:
            return None
        hint = did_you_mean(name, self.secrets) or "example: secrets: {lic: file:/etc/vgpu-cfg/licence.tok}"
        return "`secrets` does not contain a secret with this name", hint


def value_of(entry: Frozen, key: str) -> Any:
    """Return the file's value at a key that may be absent; None if it is."""
    return getattr(entry, key) if key in entry.model_fields_set else None
