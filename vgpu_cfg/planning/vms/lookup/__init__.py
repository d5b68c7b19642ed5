"""What a VM of the plan names, has and needs: all of it looked up before anything is placed."""

from __future__ import annotations
