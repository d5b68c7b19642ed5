"""NCCL's own reader of topologies, called in its library where there is no GPU: a process of its own.

`python -m tests.unit.staging.nccl_reader LIBRARY FILE` prints what NCCL says. The functions are internal ones
(src/graph/xml.cc, topo.cc, paths.cc of NCCL); NVIDIA's wheels name them in their symbol table.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

_SYMBOL_TABLE = 2
_ROOM = 64 << 20
"""More than `struct ncclXml` takes with so many nodes, in any version."""
_NODES = 1024


def symbols(library: Path) -> dict[str, int]:
    """Return the addresses of all symbols of an ELF file for 64 bits."""
    found: dict[str, int] = {}
    with library.open("rb") as file:
        head = file.read(64)
        (sections_at,) = struct.unpack_from("<Q", head, 40)
        (count,) = struct.unpack_from("<H", head, 60)
        file.seek(sections_at)
        sections = [struct.unpack("<IIQQQQIIQQ", file.read(64)) for _ in range(count)]
        for section in sections:
            if section[1] != _SYMBOL_TABLE:
                continue
            texts_of = sections[section[6]]
            file.seek(texts_of[4])
            texts = file.read(texts_of[5])
            file.seek(section[4])
            for name, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", file.read(section[5])):
                found[texts[name : texts.index(b"\0", name)].decode()] = value
    return found


class Library:
    """One version of NCCL."""

    def __init__(self, path: Path) -> None:
        self._symbols = symbols(path)
        self._library = ctypes.CDLL(str(path))
        at = ctypes.cast(self._library.ncclGetVersion, ctypes.c_void_p).value or 0
        self._base = at - self._symbols["ncclGetVersion"]

    def function(self, name: str, *types: type) -> Callable[..., int]:
        """Return a function of C++ by its mangled name's beginning."""
        found = next(one for one in self._symbols if one.startswith(name) and ".cold" not in one)
        made: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._base + self._symbols[found])
        return made


def main(path: str, file: str) -> int:
    """Read a file, make NCCL's system of it, and print the ways from each device to each other."""
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="GRAPH")
    library, pointer = Library(Path(path)), ctypes.c_void_p
    room = ctypes.create_string_buffer(_ROOM)
    # Since 2.19 the numbers of nodes stand first; before that the reader clears what stands there.
    struct.pack_into("<ii", room, 0, 0, _NODES)
    load = library.function("_Z22ncclTopoGetXmlFromFile", ctypes.c_char_p, pointer, ctypes.c_int)
    if status := load(file.encode(), room, 1):
        return status
    system = pointer()
    # The third parameter came with 2.21; whoever has two does not look at it.
    make = library.function("_Z24ncclTopoGetSystemFromXml", pointer, pointer, ctypes.c_uint64)
    if status := make(room, ctypes.byref(system), 0):
        return status
    if status := library.function("_Z20ncclTopoComputePaths", pointer, pointer)(system, None):
        return status
    return library.function("_Z18ncclTopoPrintPaths", pointer)(system)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
