"""How a guest gets at its GPUs: driver, licence, and containers' way to them."""

from __future__ import annotations
