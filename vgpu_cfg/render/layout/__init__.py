"""Layout of lines and wording of values, alike in every face."""

from __future__ import annotations
