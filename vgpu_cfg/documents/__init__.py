"""The way from a user's YAML text to a model, with file:line:column in every complaint.

    document = read_document(path)            every fault of the text, or plain data with positions
    estate = build(document, Estate)          every fault of the content, or the model
    document.fault(("vms", 3, "cpus"), "…")   a fault that only the caller can see

Nothing here knows what any document is about.
"""

from __future__ import annotations

from vgpu_cfg.documents.binding import Part, build
from vgpu_cfg.documents.editing import Edit, changed_lines, dump, edited, laid_out
from vgpu_cfg.documents.files import (
    MOST_DATA_BYTES,
    MOST_FILE_BYTES,
    MOST_NAMES,
    PRIVATE,
    Limit,
    OpenToOthersError,
    append_whole,
    make_private_folder,
    pass_on,
    probe_written,
    put_whole,
    read_bytes,
    read_within,
    take_name,
    unpacked,
)
from vgpu_cfg.documents.text import (
    Document,
    Loc,
    by_word,
    close_to,
    did_you_mean,
    parse_text,
    read_document,
)

__all__ = [
    "MOST_DATA_BYTES",
    "MOST_FILE_BYTES",
    "MOST_NAMES",
    "PRIVATE",
    "Document",
    "Edit",
    "Limit",
    "Loc",
    "OpenToOthersError",
    "Part",
    "append_whole",
    "build",
    "by_word",
    "changed_lines",
    "close_to",
    "did_you_mean",
    "dump",
    "edited",
    "laid_out",
    "make_private_folder",
    "parse_text",
    "pass_on",
    "probe_written",
    "put_whole",
    "read_bytes",
    "read_document",
    "read_within",
    "take_name",
    "unpacked",
]
