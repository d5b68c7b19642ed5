"""Which host and GPU each demand gets, in numbers only: no VM of a plan file is known here."""

from __future__ import annotations
