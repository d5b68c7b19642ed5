"""Two guests of the example's plan, made of namespaces, and the Horovod that trains on them.

What cannot be had on a machine is skipped, and the reason is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.guests import Guests, open_guests
from tests.proof.hosts import NotPermitted, check_permitted

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".cache" / "proof" / "env"


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    """Boot the guests of examples/multi-node-horovod.yaml: cloud-init has run, and sshd answers."""
    try:
        check_permitted()
    except NotPermitted as reason:
        pytest.skip(f"no two hosts can be made of namespaces here: {reason}")
    with open_guests(tmp_path_factory.mktemp("plan")) as found:
        yield found


@pytest.fixture(scope="module")
def horovod() -> Path:
    """Return the folder of Horovod's programs."""
    if not (ENVIRONMENT / "installed").exists():
        pytest.skip("Horovod is not built: script/build-proof says why")
    return ENVIRONMENT / "bin"
