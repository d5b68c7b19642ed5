"""The content of an inventory, a plan and a run, as rows for every face."""

from __future__ import annotations
