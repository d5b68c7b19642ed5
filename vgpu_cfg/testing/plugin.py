"""pytest fixtures for a recording, a lab and a plan file, with their markers and settings.

pytest loads this module wherever the package is installed. It imports nothing else until a fixture is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from vgpu_cfg.testing.subjects import LabEstate, PlanFile, RecordedVCenter

_Made = TypeVar("_Made")

_RECORDING, _LAB, _PLAN = "vgpu_recording", "vgpu_lab", "vgpu_plan"
_MARKERS = {
    _RECORDING: "(path): recording for the fixture vgpu_recording, relative to the rootdir",
    _LAB: "(estate): lab estate for the fixture vgpu_lab, built-in or a file relative to the rootdir",
    _PLAN: "(path, variables={}, variable_files=[], allow_power_cycle=False, allow_move=False, delete=[], "
    "allow_destroy=0, allow=[]): plan file for the fixture vgpu_plan, relative to the rootdir",
}
_SETTINGS = {
    _RECORDING: "recording for the fixture vgpu_recording, relative to the rootdir",
    _LAB: "lab estate for the fixture vgpu_lab, built-in or a file relative to the rootdir",
    _PLAN: "plan file for the fixture vgpu_plan, relative to the rootdir",
}
_kept = pytest.StashKey[dict[tuple[str, str], Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the settings that hold where no marker says otherwise."""
    for name, text in _SETTINGS.items():
        parser.addini(name, text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for name, text in _MARKERS.items():
        config.addinivalue_line("markers", f"{name}{text}")


@pytest.fixture(name=_RECORDING)
def recording(request: pytest.FixtureRequest) -> RecordedVCenter:
    """Return a recorded vCenter; its plans are reused by the tests that follow."""

    def make(path: str | Path) -> RecordedVCenter:
        from vgpu_cfg.testing.subjects import RecordedVCenter

        return RecordedVCenter(_from_root(request, path))

    return _once(request, _RECORDING, make)


@pytest.fixture(name=_LAB)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> LabEstate:
    """Give an estate of the lab, new for each test."""

    def make(estate: str | Path) -> LabEstate:
        from vgpu_cfg.testing.subjects import LabEstate

        is_file = Path(estate).suffix in (".yaml", ".yml")
        return LabEstate(_from_root(request, estate) if is_file else estate, tmp_path / "vgpu-cfg")

    args, keywords = _words(request, _LAB)
    return _made(_LAB, make, args, keywords)


@pytest.fixture(name=_PLAN)
def plan(request: pytest.FixtureRequest) -> PlanFile:
    """Give a plan file, read once."""

    def make(  # noqa: PLR0913 one for each option of the command line
        path: str | Path,
        *,
        variables: Mapping[str, object] | None = None,
        variable_files: Iterable[str | Path] = (),
        allow_power_cycle: bool = False,
        allow_move: bool = False,
        delete: Iterable[str] = (),
        allow_destroy: int = 0,
        allow: Iterable[str] = (),
    ) -> PlanFile:
        from vgpu_cfg.testing.subjects import PlanFile

        return PlanFile(
            _from_root(request, path),
            variables=variables,
            variable_files=[_from_root(request, file) for file in variable_files],
            allow_power_cycle=allow_power_cycle,
            allow_move=allow_move,
            delete=delete,
            allow_destroy=allow_destroy,
            allow=allow,
        )

    return _once(request, _PLAN, make)


def _from_root(request: pytest.FixtureRequest, path: str | Path) -> Path:
    """Return a path that is written from the rootdir, as short as the folder of the run lets it be."""
    whole = request.config.rootpath / path
    here = request.config.invocation_params.dir
    return whole.relative_to(here) if whole.is_relative_to(here) and Path.cwd() == here else whole


def _once(request: pytest.FixtureRequest, name: str, make: Callable[..., _Made]) -> _Made:
    """Return the object made before for the same words, else make it."""
    args, keywords = _words(request, name)
    kept: dict[tuple[str, str], Any] = request.config.stash.setdefault(_kept, {})
    key = (name, repr((args, sorted(keywords.items()))))
    if key not in kept:
        kept[key] = _made(name, make, args, keywords)
    found: _Made = kept[key]
    return found


def _words(request: pytest.FixtureRequest, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the values of the nearest marker; a marker may leave the path to the settings."""
    marker = request.node.get_closest_marker(name)
    args, keywords = (marker.args, dict(marker.kwargs)) if marker is not None else ((), {})
    setting = str(request.config.getini(name))
    if not args and setting:
        args = (setting,)
    if not args:
        pytest.fail(
            f'{name}: no value specified; add @pytest.mark.{name}("...") to the test, '
            f"or {name} = ... to the pytest configuration",
            pytrace=False,
        )
    return args, keywords


def _made(name: str, make: Callable[..., _Made], args: tuple[Any, ...], keywords: dict[str, Any]) -> _Made:
    """Make it; a fault in a file or a marker is reported without a traceback."""
    try:
        inspect.signature(make).bind(*args, **keywords)
    except TypeError as error:
        problem = f"@pytest.mark.{name}: {error}; the syntax is {name}{_MARKERS[name].partition(':')[0]}"
    else:
        try:
            return make(*args, **keywords)
        except AssertionError as error:
            problem = str(error)
    pytest.fail(problem, pytrace=False)
