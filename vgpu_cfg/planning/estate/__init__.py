"""What the names of a plan file mean in one vCenter, and which of it is the plan's own."""

from __future__ import annotations
