"""The guest in a folder, for the tests of what training needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import Sandbox


@pytest.fixture
def guest(tmp_path: Path) -> Sandbox:
    root = tmp_path / "guest"
    root.mkdir()
    return Sandbox(root)
