"""No secret of a plan shows in vCenter, files, output or other processes, at any request of a run."""

from __future__ import annotations

import pytest

from tests.faults.test_points import module_ran

LATER = pytest.mark.long("secrets searched for at every request: tests/faults/test_secrets.py")


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("guests", marks=LATER),
        pytest.param("hosts", marks=pytest.mark.exhaustive("the same where hosts are prepared")),
    ],
)
def test_no_secret_shows_at_any_request(scenario: str) -> None:
    code, told = module_ran("searching", scenario)
    assert code == 0, told


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@LATER
def test_one_that_a_plan_exposes_is_found() -> None:
    code, told = module_ran("searching", "exposed")
    assert code == 1, told
    assert "vCenter: TOKEN: at " in told
    assert "files: " not in told
    assert "output: " not in told
