"""Which tests a run leaves to `--all` and `--faults`, how short its searches are, and how its end says so."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

LONG, EXHAUSTIVE, SAMPLED = "long", "exhaustive", "sampled"
OPTIONS = {LONG: "--all", EXHAUSTIVE: "--faults"}
"""The option with which a run has the tests of a marker."""
TESTS = Path(__file__).resolve().parent
_LEFT = pytest.StashKey[dict[str, Counter[str]]]()
"""How many tests this run has left out, by marker and reason."""
_OF_A_WORKER = "left_out"
_SEARCHES = Counter[str]()
"""How many searches this process has cut short."""
_is_all = False
_is_exhaustive = False


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vgpu-cfg")
    long = "run what is marked `long` too, and search as long as it takes"
    group.addoption("--all", action="store_true", dest=LONG, help=long)
    exhaustive = "run what is marked `exhaustive` too: every mishap at every request"
    group.addoption("--faults", action="store_true", dest=EXHAUSTIVE, help=exhaustive)


def pytest_configure(config: pytest.Config) -> None:
    # Test modules ask while they are imported, where no config is at hand.
    global _is_all, _is_exhaustive
    _is_all, _is_exhaustive = (bool(config.getoption(marker)) for marker in OPTIONS)
    left: dict[str, Counter[str]] = {marker: Counter() for marker in OPTIONS}
    config.stash[_LEFT] = left


def examples(few: int, many: int) -> int:
    """Return how many examples a search tries: few in a plain run, many with `--faults`.

    `--all` goes a sixteenth of the way from the few to the many.
    """
    if _is_exhaustive:
        return many
    _SEARCHES["searches are shorter than they are there"] += 1
    return few + (many - few) // 16 if _is_all else few


def each(
    cases: Iterable[tuple[object, ...]], why: str, first: Callable[..., bool], *, one_of: int = 1
) -> list[Any]:
    """Return cases for `parametrize`: what `first` does not choose is long, for this reason.

    Of these `--all` runs one of so many, none if that is 0, and leaves the others to `--faults`.
    """
    late, rare = pytest.mark.long, pytest.mark.exhaustive
    others = (rare if one_of == 0 or number % one_of else late for number in itertools.count())
    return [pytest.param(*case, marks=() if first(*case) else next(others)(why)) for case in cases]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked, but for what is asked for. It goes last: other hooks still give markers.

    A run of named folders or files has every row of what is sampled in a run of all tests.
    """
    for marker in OPTIONS:
        _leave_out(marker, config, items)
    if [Path(each).resolve() for each in config.args] == [TESTS]:
        _sample(items)
        _leave_out(EXHAUSTIVE, config, items)
    if not _is_exhaustive:
        config.stash[_LEFT][EXHAUSTIVE if _is_all else LONG].update(_SEARCHES)


def _leave_out(marker: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [item for item in items if item.get_closest_marker(marker) is not None]
    if left and not config.getoption(marker):
        config.stash[_LEFT][marker].update(reason_of(item, marker) for item in left)
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.get_closest_marker(marker) is None]


def _sample(items: Iterable[pytest.Item]) -> None:
    """Of a test that is `sampled(count)`, leave all but one of so many of its rows to `--faults`."""
    rows = Counter[str]()
    for item in items:
        marker = item.get_closest_marker(SAMPLED)
        if marker is not None:
            test = item.nodeid.partition("[")[0]
            if rows[test] % marker.args[0]:
                item.add_marker(pytest.mark.exhaustive("rows like those that run: @pytest.mark.sampled"))
            rows[test] += 1


def reason_of(item: pytest.Item, name: str = LONG) -> str:
    """Return why a test is left out. Raises UsageError where its marker does not say."""
    marker = item.get_closest_marker(name)
    if marker is None or len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{name} takes the reason, one text")
    return marker.args[0]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, where it is a worker of xdist's."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        left = session.config.stash[_LEFT]
        output[_OF_A_WORKER] = {marker: dict(reasons) for marker, reasons in left.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what a worker left out. Every worker collects all tests, so they all say the same."""
    told: Mapping[str, Mapping[str, int]] = getattr(node, "workeroutput", {}).get(_OF_A_WORKER, {})
    left: dict[str, Counter[str]] = node.config.stash[_LEFT]
    for marker, reasons in told.items():
        left[marker] |= Counter(reasons)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for marker, left in config.stash[_LEFT].items():
        if not left:
            continue
        title = f"left to script/test {OPTIONS[marker]}"
        terminalreporter.section(title, sep="=", yellow=True, bold=True)
        for reason, count in left.most_common():
            terminalreporter.write_line(f"{count:5}  {reason}", yellow=True)
