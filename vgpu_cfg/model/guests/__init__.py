"""What a guest shall have, module by module, and what it reports of itself."""

from __future__ import annotations
