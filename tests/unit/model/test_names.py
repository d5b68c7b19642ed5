"""Names that vCenter escapes come back as they were."""

from __future__ import annotations

import pytest

from vgpu_cfg.model.observed.managed_object import escaped, unescaped


@pytest.mark.parametrize("name", ["plain", "a/b", "50%", "a\\b", "%2f", "%", "a%zz", "ü/%25"])
def test_escaping_a_name_can_be_undone(name: str) -> None:
    assert unescaped(escaped(name)) == name
    assert "/" not in escaped(name)
