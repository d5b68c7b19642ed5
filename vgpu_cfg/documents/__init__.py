"""The way from a user's YAML text to a model, with file:line:column in every complaint.

    document = read_document(path)            every fault of the text, or plain data with positions
    estate = build(document, Estate)          every fault of the content, or the model
    document.fault(("vms", 3, "cpus"), "…")   a fault that only the caller can see

Nothing here knows what any document is about.
"""

from __future__ import annotations

from vgpu_cfg.documents.binding import build
from vgpu_cfg.documents.editing import Edit, changed_lines, edited
from vgpu_cfg.documents.part import Part
from vgpu_cfg.documents.suggestions import close_to, did_you_mean
from vgpu_cfg.documents.text import Document, Loc, dump, laid_out, parse_text, read_document
from vgpu_cfg.documents.whole_file import put_whole, take_name

__all__ = [
    "Document",
    "Edit",
    "Loc",
    "Part",
    "build",
    "changed_lines",
    "close_to",
    "did_you_mean",
    "dump",
    "edited",
    "laid_out",
    "parse_text",
    "put_whole",
    "read_document",
    "take_name",
]
