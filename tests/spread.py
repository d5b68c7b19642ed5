"""How `-n` deals tests out to workers: together what shares a dear fixture, the rest in small pieces.

xdist's own ways do neither: `loadfile` leaves a worker idle beside the last big file, `worksteal` tears
apart whatever stands together, and `loadgroup` has no effect under pytest 9.2.
"""

from __future__ import annotations

from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = frozenset({
    "tests/architecture/test_plain_words.py",
    "tests/bench/test_bounds.py",
    "tests/cli/test_hosts.py",
    "tests/cli/test_orphans.py",
    "tests/contract/hand_over/test_collection.py",
    "tests/doctor/test_judge.py",
    "tests/faults/test_host_moments.py",
    "tests/properties/shown_and_run/test_shown_and_run.py",
})  # fmt: skip
"""Files with a fixture that takes seconds, and that each worker would make anew."""
BY_PARAMETER = "tests/wheel/"
"""Files whose fixture takes seconds for each of its parameters: one worker has all tests of a parameter."""
CASES = "tests/plans/"
"""Files that look at the same cases: one worker reads the tables and plans each case once."""
WHOLE = "tests/unit/"
"""Small files of quick tests: they come last, and each is a piece."""
PIECES = 16
"""Into so many pieces any other file is cut at most."""


class Spread(LoadScopeScheduling):
    """Deals out piece after piece, in the order of the files."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        if file.startswith(CASES):
            return CASES
        if file.startswith(BY_PARAMETER):
            return f"{file} {name.rpartition('[')[2]}"
        if file in TOGETHER or file.startswith(WHOLE):
            return file
        return f"{file} {crc32(name.encode()) % PIECES}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spread:
    config.option.loadscopereorder = False
    return Spread(config, log)  # type: ignore[arg-type]  # xdist does not name the type of its log
