"""Which tests reach which lines: directly, and through what one has computed and others find in a cache."""

from __future__ import annotations

import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage

CACHED = type(functools.cache(lambda: None))


class Watch:
    """Notes lines, needs and seconds of parts of a run: a test, by its number, or one cached result."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._watcher = coverage.Coverage(data, include=[f"{folder.resolve()}/*"], config_file=False)
        self._at = ""
        self._needs: defaultdict[str, set[str]] = defaultdict(set)
        self._seconds: dict[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what is done meanwhile, caches of the project's modules included."""
        wrapped: dict[int, Any] = {}
        for module in list(sys.modules.values()):
            file = Path(getattr(module, "__file__", None) or "/")
            if file.is_relative_to(Path.cwd()) and "site-packages" not in file.parts:
                for name, value in list(vars(module).items()):
                    if isinstance(value, CACHED):
                        wrapped.setdefault(id(value), self._noting(value))
                        setattr(module, name, wrapped[id(value)])
        self._watcher.start()
        yield
        self._watcher.stop()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        before, self._at = self._at, name
        self._watcher.switch_context(name)
        start = time.process_time()
        try:
            yield
        finally:
            self._seconds[name] = time.process_time() - start
            self._at = before
            self._watcher.switch_context(before)

    def _noting(self, function: Any) -> Callable[..., Any]:
        """Make a cached function note which part asks for which of its results."""
        parts: dict[Any, str] = {}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            key = (args, tuple(kwargs.items()))
            name = parts.setdefault(key, f"{function.__name__} {id(function)} {len(parts)}")
            self._needs[self._at].add(name)
            if name in self._seconds:
                return function(*args, **kwargs)
            with self.part(name):
                return function(*args, **kwargs)

        vars(call).update(cache_clear=function.cache_clear, cache_info=function.cache_info)
        return call

    def found(self, tests: int) -> Mapping[str, Any]:
        """Return the tests that reach each line of each file, and the seconds of tests without a cache."""
        used_by: defaultdict[str, set[int]] = defaultdict(set)
        seconds = []
        for test in range(tests):
            parts = self._with_needs(str(test))
            seconds.append(sum(self._seconds.get(part, 0) for part in parts))
            for part in parts:
                used_by[part].add(test)
        data = self._watcher.get_data()
        reach = {
            path: {
                line: sorted(set().union(*(used_by[part] for part in parts)))
                for line, parts in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        return {"reach": reach, "seconds": seconds}

    def _with_needs(self, part: str) -> set[str]:
        found, left = {part}, [part]
        while left:
            more = self._needs[left.pop()] - found
            found |= more
            left += more
        return found
