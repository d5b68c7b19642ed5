"""A port with data center bridging, as Linux's mlx5 driver plays it for the real `dcb` of iproute2.

No test machine has such a port, and no virtual device of the kernel answers `dcb`. So the real program runs,
with its netlink socket taken to a thread here (netlink.c, preloaded). What it sends is taken apart by the
structures of include/uapi/linux/dcbnl.h, and answered as net/dcb/dcbnl.c does; what the driver makes of it is
that of mlx5/core/en_dcbnl.c: an entry for a DSCP makes the port trust DSCP, and the last one that goes makes
it trust PCP again; PFC gives its priority the second receive buffer, unless somebody sized the buffers; a
mode of DCBX that leaves the host out is refused unless it is 0, which hands the port to the firmware.
"""

from __future__ import annotations

import errno
import functools
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DCB = "/usr/sbin:/sbin:/usr/bin:/bin"

_SET, _GET, _DEL = 20, 21, 27
_SET_DCBX = 23
_IFNAME, _IEEE, _DCBX = 1, 13, 14
_ETS, _PFC, _APPS, _BUFFER = 1, 2, 3, 10
_APP = 1
_RTM_GETDCB = 78
_NLMSG_ERROR = 2
_NESTED = 0x8000
_DSCP = 5
HOST, LLD_MANAGED, IEEE = 0x01, 0x02, 0x08


@dataclass
class DcbPort:
    """What the port has. `refuses` names by attribute what the driver does not support, with its errno."""

    name: str = "ens192"
    apps: list[tuple[int, int, int]] = field(default_factory=list)
    """Selector, priority, protocol; a DSCP's selector is 5."""
    pfc: int = 0
    prio_tc: list[int] = field(default_factory=lambda: list(range(8)))
    dcbx: int = HOST | IEEE
    prio2buffer: list[int] = field(default_factory=lambda: [0] * 8)
    buffers: list[int] = field(default_factory=lambda: [262016, 0, 0, 0, 0, 0, 0, 0])
    total: int = 262016
    has_buffers: bool = True
    is_manual: bool = False
    refuses: dict[str, int] = field(default_factory=dict)
    link_toggles: int = 0

    @property
    def trust(self) -> str:
        """What the port trusts, as the driver has it: DSCP while there is an entry for one."""
        return "dscp" if any(selector == _DSCP for selector, _, _ in self.apps) else "pcp"

    @property
    def protected(self) -> set[int]:
        """The priorities that PFC protects."""
        return {number for number in range(8) if self.pfc >> number & 1}

    def priority_of(self, dscp: int) -> set[int]:
        """The priorities that entries give a DSCP."""
        return {priority for selector, priority, number in self.apps if (selector, number) == (_DSCP, dscp)}

    # ------------------------------------------------------------ what the kernel does

    def answer(self, request: bytes) -> bytes:
        """Answer one netlink message."""
        _, _, _, sequence, _ = struct.unpack_from("=IHHII", request)
        family, command = struct.unpack_from("BB", request, 16)
        attributes = dict(_attributes(request[20:]))
        if attributes.get(_IFNAME, b"").rstrip(b"\0").decode() != self.name:
            return _error(sequence, errno.ENODEV, request)
        if "dcb" in self.refuses:
            return _error(sequence, self.refuses["dcb"], request)
        name = _attribute(_IFNAME, attributes[_IFNAME])
        head = struct.pack("BBH", family, command, 0)
        if command == _GET:
            shown = _attribute(_IEEE | _NESTED, self._shown()) + _attribute(_DCBX, bytes([self.dcbx]))
            return _message(sequence, head + name + shown)
        if command == _SET_DCBX:
            return _message(sequence, head + _attribute(_DCBX, bytes([self._set_dcbx(attributes[_DCBX][0])])))
        status = 0
        for kind, value in _attributes(attributes.get(_IEEE, attributes.get(_IEEE | _NESTED, b""))):
            status = status or self._change(command, kind & ~_NESTED, value)
        return _message(sequence, head + _attribute(_IEEE, bytes([-status & 0xFF])))

    def _shown(self) -> bytes:
        ets = bytes([0, 8, 0]) + bytes(16) + bytes([255] * 8) + bytes(self.prio_tc) + bytes(24)
        pfc = struct.pack("=BBBxH2x", 8, self.pfc, 0, 0) + bytes(128)
        apps = b"".join(_attribute(_APP, struct.pack("=BBH", *app)) for app in sorted(self.apps))
        shown = b""
        if "ets" not in self.refuses:
            shown += _attribute(_ETS, ets)
        if self.has_buffers:
            sizes = struct.pack("=8I", *self.buffers) + struct.pack("=I", self.total)
            shown += _attribute(_BUFFER, bytes(self.prio2buffer) + sizes)
        if "pfc" not in self.refuses:
            shown += _attribute(_PFC, pfc)
        return shown + _attribute(_APPS | _NESTED, apps)

    def _change(self, command: int, kind: int, value: bytes) -> int:
        if kind == _APPS:
            changed = (self._app(command, *struct.unpack("=BBH", app)) for _, app in _attributes(value))
            return next((status for status in changed if status), 0)
        if kind == _PFC:
            return self._set_pfc(value[1])
        if kind == _ETS:
            if "set ets" in self.refuses:
                return self.refuses["set ets"]
            self.prio_tc = list(value[27:35])
            return 0
        if kind == _BUFFER and self.has_buffers:
            sizes = struct.unpack_from("=9I", value, 8)
            if sum(sizes[:8]) > self.total or "set buffer" in self.refuses:
                return self.refuses.get("set buffer", errno.EINVAL)
            self.prio2buffer, self.buffers, self.is_manual = list(value[:8]), list(sizes[:8]), True
            return 0
        return errno.EOPNOTSUPP

    def _app(self, command: int, selector: int, priority: int, number: int) -> int:
        if "app" in self.refuses:
            return self.refuses["app"]
        if selector != _DSCP or number > 63:
            return errno.EINVAL
        entry = (selector, priority, number)
        if command == _DEL:
            if entry not in self.apps:
                return errno.ENOENT
            self.apps.remove(entry)
            return 0
        # The driver itself takes out the entry that gave this DSCP another priority.
        self.apps = [app for app in self.apps if (app[0], app[2]) != (selector, number)]
        self.apps.append(entry)
        return 0

    def _set_pfc(self, enabled: int) -> int:
        if "pfc" in self.refuses or "set pfc" in self.refuses:
            return self.refuses.get("set pfc") or self.refuses["pfc"]
        if enabled != self.pfc:
            self.link_toggles += 1
        self.pfc = enabled
        if not self.is_manual:
            self.prio2buffer = [enabled >> number & 1 for number in range(8)]
            half = self.total // 2
            self.buffers = [half, half, *[0] * 6] if enabled else [self.total, *[0] * 7]
        return 0

    def _set_dcbx(self, mode: int) -> int:
        if mode & LLD_MANAGED or (mode and not mode & HOST) or "dcbx" in self.refuses:
            return 1
        self.dcbx = mode
        return 0


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _attributes(text: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(text):
        length, kind = struct.unpack_from("=HH", text, at)
        yield kind & ~_NESTED, text[at + 4 : at + length]
        at += (length + 3) & ~3


def _message(sequence: int, body: bytes, kind: int = _RTM_GETDCB) -> bytes:
    return struct.pack("=IHHII", len(body) + 16, kind, 0, sequence, 0) + body


def _error(sequence: int, status: int, request: bytes) -> bytes:
    return _message(sequence, struct.pack("=i", -status) + request[:16], _NLMSG_ERROR)


# ---------------------------------------------------------------- how the real program meets it


@functools.cache
def _preloaded() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is here: install the package gcc")
    made = Path(tempfile.mkdtemp(prefix="dcb-")) / "netlink.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "netlink.c"), "-ldl"]
    subprocess.run(words, check=True, timeout=120)
    return made


@dataclass(frozen=True)
class RealDcb:
    """The real program with its kernel. `environment` is what it must be started with."""

    program: str
    environment: dict[str, str]

    def wrapper(self) -> str:
        """Return a script's body that starts it."""
        words = " ".join(f"{name}='{value}'" for name, value in self.environment.items())
        return f'{words} exec {self.program} "$@"'

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        line = [self.program, *words]
        return subprocess.run(
            line, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )


@contextmanager
def real_dcb(port: DcbPort, folder: Path) -> Iterator[RealDcb]:
    """Give the real `dcb` a kernel with one port; the test is skipped where the program is not here."""
    program = shutil.which("dcb", path=DCB)
    if program is None:
        pytest.skip("dcb is not here: install the package iproute2")
    path = folder / "dcb-kernel"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(path))
    listening.listen()
    thread = threading.Thread(target=_serve, args=(listening, port), daemon=True)
    thread.start()
    try:
        yield RealDcb(program, {"LD_PRELOAD": str(_preloaded()), "DCB_KERNEL": str(path)})
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        listening.close()


def _serve(listening: socket.socket, port: DcbPort) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            while request := connection.recv(65536):
                connection.send(port.answer(request))
