"""Plans and runs as Markdown documents, for a colleague without this tool and for the file."""

from __future__ import annotations
