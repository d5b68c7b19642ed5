"""The desks that tests of the host's shell sit at."""

from __future__ import annotations

import pytest

from tests.unit.lab.shell.logged_in import Desk


@pytest.fixture
def desk() -> Desk:
    """One host with two A100 and the NVIDIA driver."""
    return Desk()


@pytest.fixture
def bare() -> Desk:
    """One host as the installer leaves it, without the driver."""
    return Desk("bare")
