"""Which tests a plain run leaves to `--all`, how short its searches are, and how its end says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

LONG = "long"
_LEFT = pytest.StashKey[Counter[str]]()
"""How many tests this run has left out, by reason."""
_OF_A_WORKER = "left_to_all"
_SEARCHES = Counter[str]()
"""How many searches this process has cut short."""
_is_all = False


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "run what is marked `long` too, and search as long as it takes"
    parser.getgroup("vgpu-cfg").addoption("--all", action="store_true", dest="all", help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    global _is_all  # noqa: PLW0603 - test modules ask while they are imported, where no config is at hand
    _is_all = bool(config.getoption("all"))
    config.stash[_LEFT] = Counter()


def examples(few: int, many: int) -> int:
    """Return how many examples a search tries: few in a plain run, many with `--all`."""
    if _is_all:
        return many
    _SEARCHES["searches are shorter than they are there"] += 1
    return few


def each(cases: Iterable[tuple[object, ...]], why: str, first: Callable[..., bool]) -> list[Any]:
    """Return cases for `parametrize`: what `first` does not choose is long, for this reason."""
    return [pytest.param(*case, marks=() if first(*case) else pytest.mark.long(why)) for case in cases]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `long`. It goes last: markers are still given in other hooks."""
    if _is_all:
        return
    left = [item for item in items if item.get_closest_marker(LONG) is not None]
    config.stash[_LEFT].update(reason_of(item) for item in left)
    config.stash[_LEFT].update(_SEARCHES)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.get_closest_marker(LONG) is None]


def reason_of(item: pytest.Item) -> str:
    """Return why a test is long. Raises UsageError where its marker does not say."""
    marker = item.get_closest_marker(LONG)
    if marker is None or len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.long takes the reason, one text")
    return marker.args[0]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, where it is a worker of xdist's."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        left = session.config.stash[_LEFT]
        output[_OF_A_WORKER] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what a worker left out. Every worker collects all tests, so they all say the same."""
    told: Mapping[str, int] = getattr(node, "workeroutput", {}).get(_OF_A_WORKER, {})
    left: Counter[str] = node.config.stash[_LEFT]
    left |= Counter(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left = config.stash[_LEFT]
    if not left:
        return
    terminalreporter.section("left to script/test --all", sep="=", yellow=True, bold=True)
    for reason, count in left.most_common():
        terminalreporter.write_line(f"{count:5}  {reason}", yellow=True)
