"""Every display of the transcripts, a verification that fails in each way, and errors, at each width."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.render.transcripts import CASES
from tests.unit.verification.cases import CASES as FAILURES
from tests.widths import WIDTHS, faults
from vgpu_cfg.errors import DoesNotFit, Interrupted, NotFound, VgpuCfgError
from vgpu_cfg.model.verification import Verification
from vgpu_cfg.render.text.errors import render_error
from vgpu_cfg.render.text.verification import render_verification

ERRORS = (
    NotFound(
        "no host is called esx-mixed-fleet-without-any-a100-in-it-01.lab.example.com",
        subject="inventory of vc01.example.com in the datacenter of the second building",
        remedy="run `vgpu-cfg inventory` to list them; names are those of vCenter, globs like esx-* work too",
    ),
    DoesNotFit("VG103 grid_a100-40c cannot be placed", subject="vm hvd-{01..40}", remedy="free a GPU"),
    Interrupted("stopped by Ctrl-C; 3 tasks go on in vCenter"),
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_display_keeps_to_the_width(case: str, width: int) -> None:
    assert faults(CASES[case], width) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_verification_keeps_to_the_width(width: int) -> None:
    results = tuple(case.result() for case in FAILURES)
    found = Verification(
        plan="horovod-a100",
        server="vc01.example.com",
        begun=datetime(2026, 11, 22, tzinfo=UTC),
        results=results,
    )
    assert faults(lambda width: render_verification(found, width, with_all=True), width) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_keeps_to_the_width(error: VgpuCfgError, width: int) -> None:
    assert faults(lambda width: render_error(error, width), width) == []
