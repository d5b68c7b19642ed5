"""The subjects of a test, isolated from this machine: a plan file with its options, and its vCenter."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.flow import Planned
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.planning.findings.options import PlanOptions

WIDTH = 100
_PREFIX = "VGPU_CFG_"


@contextmanager
def surroundings(folder: Path) -> Iterator[None]:
    """Hide all of the user's settings for a while; files are kept below `folder`, and no lab waits.

    Raises AssertionError, with what `vgpu-cfg` would print, in place of an error of the tool's.
    """
    __tracebackhide__ = True
    before = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    own = {"STATE_FOLDER": str(folder), "CONFIG": str(folder / "config.yaml"), "LAB_SPEED": "0"}
    for name in before:
        del os.environ[name]
    os.environ.update({f"{_PREFIX}{name}": value for name, value in own.items()})
    try:
        with told():
            yield
    finally:
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def told() -> Iterator[None]:
    """Raise AssertionError, with what `vgpu-cfg` would print, in place of an error of the tool's."""
    __tracebackhide__ = True
    try:
        yield
    except VgpuCfgError as error:
        from vgpu_cfg.render.layout.lines import plain
        from vgpu_cfg.render.text.errors import render_error

        raise AssertionError(plain(render_error(error, WIDTH))) from None


class PlanFile:
    """A plan file, read with the values of its variables and the approvals of the command line.

    `variables` and `variable_files` are `--set` and `--vars`, `allow_power_cycle`, `allow_move`, `delete`,
    `allow_destroy` and `allow` the options of these names. Raises AssertionError with every fault of the
    file.
    """

    def __init__(  # noqa: PLR0913 one for each option of the command line
        self,
        path: str | Path,
        *,
        variables: Mapping[str, object] | None = None,
        variable_files: Iterable[str | Path] = (),
        allow_power_cycle: bool = False,
        allow_move: bool = False,
        delete: Iterable[str] = (),
        allow_destroy: int = 0,
        allow: Iterable[str] = (),
    ) -> None:
        __tracebackhide__ = True
        from vgpu_cfg.cli.flows.preparing.request import read_request

        self.path = Path(path)
        self._options = (allow_power_cycle, allow_move, tuple(delete), allow_destroy)
        self._allow = tuple(allow)
        values = {name: str(value) for name, value in (variables or {}).items()}
        with told():
            self._request = read_request(self.path, values, tuple(Path(file) for file in variable_files))

    def __repr__(self) -> str:
        return f"PlanFile({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The plan's name."""
        return self._request.desired.name

    @property
    def vms(self) -> tuple[str, ...]:
        """The names of its VMs, ranges written out, in the file's order."""
        return tuple(vm.name for vm in self._request.desired.vms)

    def request(self) -> PlanRequest:
        """Return the file's content, in the form for commands."""
        return self._request

    def options(self, *, with_leave: bool = False) -> PlanOptions:
        """Return the approvals; with `with_leave` all possible ones: power cycles, moves, approvals."""
        from vgpu_cfg.model.choices import Approval
        from vgpu_cfg.planning.findings.options import PlanOptions

        power_cycle, move, delete, allow_destroy = self._options
        return PlanOptions(
            allow_power_cycle=power_cycle or with_leave,
            allow_move=move or with_leave,
            delete=delete,
            allow_destroy=allow_destroy,
            allow=tuple(Approval(word) for word in (Approval if with_leave else self._allow)),
        )


class Site:
    """A vCenter that plans are made for, without a network. Each plan is made only once."""

    def __init__(self, name: str, flags: ConnectionFlags, folder: Path) -> None:
        self.name = name
        self.flags = flags
        self._folder = folder
        self._planned: dict[tuple[PlanFile, bool], Planned] = {}
        self._fixes: dict[PlanFile, str] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def planned(self, plan: PlanFile, *, with_leave: bool = False) -> Planned:
        """Make a plan for the current inventory. Raises AssertionError if it cannot be read."""
        __tracebackhide__ = True
        from vgpu_cfg.cli.flows.flow import plan_once

        key = plan, with_leave
        if key not in self._planned:
            options = plan.options(with_leave=with_leave)
            with surroundings(self._folder):
                self._planned[key] = plan_once(self.request_of(plan), self.flags, options)
        return self._planned[key]

    def fixes(self, plan: PlanFile) -> str:
        """Say what would let a refused plan be carried out."""
        from vgpu_cfg.cli.flows.flow import server_of
        from vgpu_cfg.cli.flows.suggestion import find_fixes
        from vgpu_cfg.render.layout.lines import plain
        from vgpu_cfg.render.text.plan.findings import render_fixes

        if plan not in self._fixes:
            answer = self.planned(plan)
            command = f"vgpu-cfg plan {plan.path} --suggest={plan.path.stem}-fixed{plan.path.suffix}"
            with surroundings(self._folder):
                request = self.request_of(plan)
                found = find_fixes(request, server_of(self.flags, request.desired), answer)
            self._fixes[plan] = plain(render_fixes(found, WIDTH, command=command))
        return self._fixes[plan]

    def request_of(self, plan: PlanFile) -> PlanRequest:
        """Return the content of a plan file for this vCenter."""
        return plan.request()


class RecordedVCenter(Site):
    """A vCenter saved by `vgpu-cfg inventory --record FILE`. Raises AssertionError for any other file."""

    def __init__(self, path: str | Path) -> None:
        __tracebackhide__ = True
        from vgpu_cfg.recording import load_recording

        self.path = Path(path)
        with told():
            load_recording(self.path)
        # Nothing is kept for a recording; the folder is not made.
        folder = Path(tempfile.gettempdir(), "vgpu-cfg-testing")
        super().__init__(self.path.name, ConnectionFlags(recording=self.path), folder)


class LabEstate(Site):
    """An estate of the lab, built in or a file, that begins anew for each folder it is kept in.

    Raises AssertionError for an estate that there is not.
    """

    def __init__(self, estate: str | Path, folder: str | Path) -> None:
        __tracebackhide__ = True
        from vgpu_cfg.cli.labs import open_lab_of

        server = f"lab:{estate}"
        super().__init__(server, ConnectionFlags(server=server), Path(folder))
        with surroundings(self._folder):
            open_lab_of(str(estate))

    def apply(self, plan: PlanFile, *, done: Iterable[str] = ()) -> None:
        """Carry a plan out; `done` names the manual steps that are done.

        Raises AssertionError with the output of `apply`, if it did not end with exit code 0. No file is
        written next to the plan file: the plan has an id of its own on labs, unless the file states one.
        """
        __tracebackhide__ = True
        from vgpu_cfg.cli.flows.running import apply_flow

        self._run("apply", plan, apply_flow.apply, tuple(done))

    def destroy(self, plan: PlanFile) -> None:
        """Delete the plan's VMs and rules. Raises AssertionError as `apply` does."""
        __tracebackhide__ = True
        from vgpu_cfg.cli.flows.running import apply_flow

        self._run("destroy", plan, apply_flow.destroy, ())

    def _run(self, verb: str, plan: PlanFile, command: Callable[..., int], done: tuple[str, ...]) -> None:
        __tracebackhide__ = True
        from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
        from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat

        how = ApplyOptions(
            path=plan.path,
            yes=True,
            parallel=8,
            per_host=2,
            output=OutputFormat.TEXT,
            options=CommandOptions(self.flags),
            done=done,
        )
        printed = io.StringIO()
        self._planned.clear()
        self._fixes.clear()
        with surroundings(self._folder), redirect_stdout(printed), redirect_stderr(printed):
            code = command(self.request_of(plan), self.flags, plan.options(), how)
        if code:
            raise AssertionError(f"{verb} of {plan.path} on {self.name}: exit {code}\n\n{printed.getvalue()}")

    def request_of(self, plan: PlanFile) -> PlanRequest:
        """Return the content of a plan file, with an id that is not written to a file."""
        request = plan.request()
        if not request.desired.id_file:
            return request
        own = str(uuid5(NAMESPACE_URL, f"{self.name}/{request.desired.name}"))
        return replace(request, desired=request.desired.model_copy(update={"id": own, "id_file": ""}))
