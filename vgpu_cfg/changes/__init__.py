"""Facts about each kind of change: what it disturbs besides its subject, and the approval that this needs."""

from __future__ import annotations
