"""The table of VM settings: what each shall be, how it is compared, and which edits bring it."""

from __future__ import annotations
