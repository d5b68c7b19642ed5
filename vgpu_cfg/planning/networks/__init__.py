"""Missing settings of distributed switches and portgroups, and the users that changes disturb."""

from __future__ import annotations
