"""The list of a plan's hosts in the words of other tools: one file here for each format.

    handed = FORMATS["ansible"].write(host_list, ExportOptions())
    handed.files     the content, by the name that each file should have
    handed.notes     notes and tasks for its reader

The formats are those that the tools' own documents or sources describe; each file says which.
"""

from __future__ import annotations

from vgpu_cfg.staging.export.formats import FORMATS, Format
from vgpu_cfg.staging.export.parts import Exported, ExportOptions

__all__ = ["FORMATS", "ExportOptions", "Exported", "Format"]
