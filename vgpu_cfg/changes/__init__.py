"""What a plan is made of, what became of it, and what each kind of change disturbs besides its subject."""

from __future__ import annotations
