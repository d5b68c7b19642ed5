"""JSON output: stable keys, each document with its kind and format."""

from __future__ import annotations
