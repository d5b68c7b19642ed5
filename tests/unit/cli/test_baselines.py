"""A baseline of a large cluster is read again, as large as it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vgpu_cfg.cli.kept.baselines import FORMAT, KIND, read_baseline
from vgpu_cfg.documents import MOST_FILE_BYTES
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.verification import Baseline, Figure


def test_the_figures_of_sixty_four_workers_are_read_again(tmp_path: Path) -> None:
    names = [f"hvd-{number:02}" for number in range(1, 65)]
    figures = tuple(
        Figure(check=check, subject=f"{one} -> {other}", name="gbps", value=94.1)
        for check in ("bandwidth", "bandwidth-gpu")
        for one in names
        for other in names
        if one != other
    )
    made = Baseline(plan="large", begun=datetime(2026, 11, 23, tzinfo=UTC), figures=figures)
    path = tmp_path / "figures.json"
    data = {"kind": KIND, "format": FORMAT, **made.model_dump(mode="json")}
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")
    assert path.stat().st_size > MOST_FILE_BYTES.value
    assert read_baseline(path, "large") == made


def test_a_figure_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    figure = {"check": "bandwidth", "subject": "a -> b", "name": "gbps", "value": -1}
    data = {"kind": KIND, "format": FORMAT, "plan": "p", "begun": "2026-11-23T06:00:00Z", "figures": [figure]}
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(DocumentError, match=r"figures\.0\.value"):
        read_baseline(path, "p")
