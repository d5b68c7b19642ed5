"""A fresh guest for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.staging.sandbox import Sandbox


@pytest.fixture
def guest(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "sandbox")
