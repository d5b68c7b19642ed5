"""How one command is put to several vCenters or plans, and what their answers come to together."""

from __future__ import annotations
