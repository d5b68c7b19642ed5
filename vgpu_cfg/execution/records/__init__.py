"""What does a run leave for others to read? The lock, the journal, the marks on hosts."""

from __future__ import annotations
