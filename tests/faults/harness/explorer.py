"""Follows a run from inside its process, and tries at every request what goes wrong there.

At a request the lab and the run are forked. The two children live through the mishap while their parents
wait; then the parents go on to the next request. So each point costs what follows it, not what was before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
import pytest
import urllib3

from tests.faults.harness import guests, mishaps
from tests.faults.harness.mishaps import Mishap
from tests.faults.harness.results import Key
from tests.faults.harness.wires import Place
from vgpu_cfg.shells.ssh import SshConnection
from vgpu_cfg.vsphere.wire import transport

_METHOD = re.compile(rb"<soapenv:Body>\s*<(\w+)")
_ESXCLI = re.compile(rb"<method[^>]*>vim\.EsxCLI\.([\w.]+)<")

Request = tuple[str, int]
"""A request's name, and the revision of vCenter's state at which it was sent."""
WENT_ON = 77
"""The exit code of a process whose run went on as the undisturbed one did."""
ALIKE, GIVEN_UP = 12, 60
"""So many requests in a row must be the same; after so many it is let run to its end."""
EVERY = 10

Judge = Callable[[Path, Place, Key, int], None]
"""Takes the folder of a run that a mishap befell, its lab, the point, and how the process ended."""


@dataclass(slots=True)
class Explorer:
    """What is tried: `wanted` has the points by the number of the request, `judge` sees what becomes of each.

    At the end the requests are written to `told`, each as its name and the revision of vCenter's state when
    it was sent. `course` has those of an undisturbed run: a run that goes on as that one did is let be.
    """

    place: Place
    wanted: Mapping[int, Sequence[Key]]
    judge: Judge
    told: Path
    course: Sequence[Request] = ()
    seen: list[Request] = field(default_factory=list)
    generation: int = 0
    is_child: bool = False
    _number: int = 0
    _pools: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)

    def keep_requests(self) -> None:
        """Write down which requests there were, in their order."""
        self.told.write_text(json.dumps(self.seen), encoding="utf-8")

    def told_requests(self) -> list[Request]:
        """Return what a run wrote down, once it has ended."""
        return [(name, number) for name, number in json.loads(self.told.read_text(encoding="utf-8"))]

    def install(self) -> None:
        """Stand between this process and every request that it sends from now on."""
        urlopen, execute, login = (
            urllib3.HTTPSConnectionPool.urlopen,
            SshConnection.execute,
            paramiko.SSHClient.connect,
        )
        known: weakref.WeakKeyDictionary[Any, tuple[int, Any, Any]] = weakref.WeakKeyDictionary()

        def watched_urlopen(pool: Any, method: str, url: str, body: Any = None, **more: Any) -> Any:
            self._pools.add(pool)
            mishap = self.at(name_of(method, url, body))
            if mishap == "silence":
                _shorten_patience()
            return urlopen(pool, method, url, body=body, **more)

        def watched_execute(connection: Any, line: str, *rest: Any, **more: Any) -> Any:
            self.at(f"$ {line}")
            generation, words, named = known[connection._client]
            if generation != self.generation:
                login(connection._client, *words, **named)
                known[connection._client] = (self.generation, words, named)
            return execute(connection, line, *rest, **more)

        def watched_login(client: Any, *words: Any, **named: Any) -> None:
            login(client, *words, **named)
            known[client] = (self.generation, words, named)

        guests.WATCHERS.append(self.at)
        patch = pytest.MonkeyPatch()
        patch.setattr(urllib3.HTTPSConnectionPool, "urlopen", watched_urlopen)
        patch.setattr(SshConnection, "execute", watched_execute)
        patch.setattr(paramiko.SSHClient, "connect", watched_login)

    def at(self, name: str) -> Mishap | None:
        """Try what is wanted at this request; return the mishap to the child that lives through it."""
        self.seen.append((name, self.place.ask("revision")))
        if self.is_child:
            self._leave_if_as_undisturbed()
            return None
        for point in self.wanted.get(len(self.seen), ()):
            assert threading.current_thread() is threading.main_thread(), "no process is split elsewhere"
            branch = self.place.fork()
            here = Path.cwd()
            folder = here.with_name(f"{here.name}-{point.number}-{point.mishap.replace(' ', '-')}")
            shutil.copytree(here, folder)
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                self._be_child(branch, folder, here, point)
                return point.mishap
            _, status = os.waitpid(pid, 0)
            try:
                self.judge(folder, branch, point, status)
            finally:
                branch.end()
                shutil.rmtree(folder)
        return None

    def _leave_if_as_undisturbed(self) -> None:
        """End this process where it does what the undisturbed run did: its end is known.

        Not at every tenth request: that what was the same so far ends the same is to be seen there.
        """
        last = self.seen[-ALIKE:]
        if self._number % EVERY == 0 or not ALIKE <= len(self.seen) <= GIVEN_UP:
            return
        first = self._number - 1
        for at in range(first, first + len(self.seen)):
            if list(self.course[at : at + ALIKE]) == last:
                os._exit(WENT_ON)

    def _be_child(self, branch: Place, folder: Path, parents: Path, point: Key) -> None:
        """Part from the parent: another folder, other files, another lab, connections of its own."""
        import signal

        from tests.faults.harness.program import DEADLINE_SECONDS, die_with_parent, settle_in, take_outputs

        die_with_parent()
        self.is_child = True
        self.place = branch
        self.seen, self._number = [], point.number
        self.generation += 1
        signal.alarm(DEADLINE_SECONDS)
        os.chdir(folder)
        _reopen(parents, folder)
        take_outputs(folder)
        settle_in(branch)
        for pool in self._pools:
            _forget_connections(pool)
        branch.ask("arm", mishap=point.mishap, pid=os.getpid())


def _shorten_patience() -> None:
    """Give the exchange that is under way as little time as the server lets pass."""
    spent = transport._BUDGET.get()
    if spent is not None:
        spent.deadline = spent.now() + mishaps.SILENCE_SECONDS


def name_of(method: str, url: str, body: Any) -> str:
    """Name a request: its SOAP method, the esxcli command within, or what HTTP asks for."""
    found = _METHOD.search(body or b"")
    if found is None:
        return f"{method} {url.partition('?')[0]}"
    inner = _ESXCLI.search(body) if found[1] == b"ExecuteSoap" else None
    return f"esxcli {inner[1].decode().replace('.', ' ')}" if inner else found[1].decode()


def _reopen(parents: Path, folder: Path) -> None:
    """Let files that are open in the parent's folder be those of the copy."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            target = entry.readlink()
        except OSError:  # that of the listing itself
            continue
        if not target.is_relative_to(parents):
            continue
        number = int(entry.name)
        flags = _flags(number)
        file = os.open(folder / target.relative_to(parents), flags)
        os.lseek(file, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(file, number)
        os.close(file)


def _flags(number: int) -> int:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND)


def _forget_connections(pool: Any) -> None:
    """Empty a pool: its connections lead to the parent's lab, where the parent uses them."""
    if pool.pool is None:  # closed: of a session that has ended
        return
    while not pool.pool.empty():
        connection = pool.pool.get_nowait()
        if connection is not None:
            connection.close()
    for _ in range(pool.pool.maxsize):
        pool.pool.put_nowait(None)
