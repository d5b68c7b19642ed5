"""What a run leaves for others to read: the lock, the journal, the marks on hosts."""

from __future__ import annotations
