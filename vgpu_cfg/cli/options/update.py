"""What `export --update` was told: whose values go into the plan file, and how far it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.cli.options.shared import OutputFormat


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """Which VMs, by globs of their names, and whether the file is written unasked, or not at all."""

    globs: Sequence[str]
    yes: bool = False
    dry_run: bool = False
    output: OutputFormat = OutputFormat.TEXT
