"""What ansible-core loads to tell a test of its tasks."""

from __future__ import annotations
