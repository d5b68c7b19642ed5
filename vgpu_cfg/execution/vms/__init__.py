"""How is a VM made, changed and switched, and does it show what was asked for?"""

from __future__ import annotations
