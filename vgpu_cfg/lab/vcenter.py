"""The simulated vCenter itself: the simulation with every part that makes something happen in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from vgpu_cfg.lab.guest import lifecycle as life
from vgpu_cfg.lab.operations.hosts import power
from vgpu_cfg.lab.simulation import tasks
from vgpu_cfg.lab.simulation.operations import find_operation
from vgpu_cfg.lab.simulation.simulation import Simulation, Timeline
from vgpu_cfg.lab.soap import dispatch
from vgpu_cfg.lab.state.inventory import Managed, type_on_wire


class Lab(Simulation):
    """A vCenter with GPUs: it answers requests and carries out methods; its hosts, tasks and guests go on."""

    timelines: ClassVar[tuple[Timeline, ...]] = (power, tasks, life)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer one HTTP request. Raises `ConnectionDropped` or `ConnectionRefused` where none is given."""
        return dispatch.exchange(self, method, path, headers, body)

    def close(self) -> None:
        """Let go: everything was saved when it happened."""

    def call(self, subject: Managed | str, method: str, **arguments: Any) -> Any:
        """Call a method as the wire would, with pyvmomi values for arguments."""
        with self.transaction():
            thing = self.state.objects[subject] if isinstance(subject, str) else subject
            return find_operation(type_on_wire(thing), method)(self, thing, **arguments)

    def at_server(self, host: Managed | str, what: power.ServerAction, **facts: bool) -> None:
        """Let happen at a server what no API does: `power_on`, `bios` with facts (`sriov=True`), `fail`.

        `cut_off` takes the network alone, and `reconnect` gives it back. `host` is a host or its name. Raises
        ValueError where it cannot be.
        """
        with self.transaction():
            power.act_at_server(self, host, what, facts)
