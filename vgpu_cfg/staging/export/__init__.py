"""The list of a plan's hosts in the words of other tools: one file here for each format.

    handed = FORMATS["ansible"].write(hand_over, HandOverOptions())
    handed.files     what is written, by the name that each file should have
    handed.notes     what its reader has to know or to do

The formats are those that the tools' own documents or sources describe; each file says which.
"""

from __future__ import annotations

from vgpu_cfg.staging.export.formats import FORMATS, Format
from vgpu_cfg.staging.export.parts import Handed, HandOverOptions

__all__ = ["FORMATS", "Format", "HandOverOptions", "Handed"]
