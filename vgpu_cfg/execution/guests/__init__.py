"""How is a guest set up, and what does its report amount to?"""

from __future__ import annotations
