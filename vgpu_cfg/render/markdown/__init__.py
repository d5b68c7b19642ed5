"""How a plan and a run read as documents in Markdown, for a colleague without this tool and for the file."""

from __future__ import annotations
