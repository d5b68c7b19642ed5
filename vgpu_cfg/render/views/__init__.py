"""What is shown of an inventory, a plan and a run, as rows that every face takes."""

from __future__ import annotations
