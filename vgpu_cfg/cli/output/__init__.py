"""How a command answers: values as text or JSON, and questions at a terminal."""

from __future__ import annotations
