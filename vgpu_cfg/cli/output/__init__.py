"""The answers of a command: values as text or JSON, and questions at a terminal."""

from __future__ import annotations
