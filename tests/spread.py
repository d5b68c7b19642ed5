"""How `-n` deals tests out to workers: together what shares a dear fixture, the rest in small pieces.

xdist's own ways do neither: `loadfile` leaves a worker idle beside the last big file, `worksteal` tears
apart whatever stands together, and `loadgroup` has no effect under pytest 9.2.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

OF_A_FILE = ('scope="module"', "\n@cache\n", "from tests.architecture.usage import")
"""Signs of a file that makes something once for all of its tests, and that each worker would make anew."""
BY_PARAMETER = "tests/wheel/"
"""Files whose fixture takes seconds for each of its parameters: one worker has all tests of a parameter."""
CASES = (
    "tests/plans/",
    "tests/unit/planning/test_differences.py",
    "tests/unit/planning/test_rollback_of_cases.py",
    "tests/unit/render/test_timeline.py",
)
"""Files that look at the same cases: one worker reads the tables and plans each case once."""
TRAININGS = ("tests/unit/staging/training/test_launcher.py", "tests/unit/staging/training/test_pausing.py")
"""Files whose trainings are found among all processes of the machine: one worker, one after the other."""
WHOLE = "tests/unit/"
"""Small files of quick tests: they come last, and each is a piece."""
ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PIECES = 16
"""Into so many pieces any other file is cut at most."""


@cache
def makes_once(file: Path) -> bool:
    """Whether a file makes something once for all of its tests."""
    text = file.read_text(encoding="utf-8")
    return any(sign in text for sign in OF_A_FILE)


class Spread(LoadScopeScheduling):
    """Deals out piece after piece, in the order of the files."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        if file.startswith(CASES):
            return CASES[0]
        if file in TRAININGS:
            return TRAININGS[0]
        if file.startswith(BY_PARAMETER):
            return f"{file} {name.rpartition('[')[2]}"
        if file.startswith(WHOLE) or makes_once(ROOT / file):
            return file
        return f"{file} {crc32(name.encode()) % PIECES}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the wheel: a piece of its tests takes a minute, of which the other workers would wait."""
    items.sort(key=lambda item: not item.nodeid.startswith(BY_PARAMETER))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker of a whole run begin with other files.

    pytest rewrites the asserts of a file when it is first imported, and keeps the outcome. Workers that
    import all files in the same order all do that.
    """
    worker: dict[str, Any] = getattr(session.config, "workerinput", {})
    if not worker or [Path(each).resolve() for each in session.config.args] != [TESTS]:
        return
    left_out = [Path(each).resolve() for each in session.config.getoption("ignore") or ()]
    files = [file for file in sorted(TESTS.rglob("test_*.py")) if not set(left_out) & set(file.parents)]
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # What fails here fails again when it is collected, and is reported there.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spread:
    config.option.loadscopereorder = False
    return Spread(config, log)  # type: ignore[arg-type]  # xdist does not name the type of its log
