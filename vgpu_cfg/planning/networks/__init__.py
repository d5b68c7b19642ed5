"""What distributed switches and portgroups lack, and who would suffer from a change of theirs."""

from __future__ import annotations
