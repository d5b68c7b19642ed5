"""nvidia-smi's nesting of `key : value` lines by indentation, and its output on failure.

`-q`, `vgpu -s -v`, `vgpu -c -v` and `vgpu -q` share the form: GPU blocks that begin with
`GPU <address>`, sections without a value, and values that have children.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vgpu_cfg.parsers.text import (
    Line,
    ToolFailed,
    UnreadableOutput,
    int_or_error,
    lines_with_content,
    pci_id_of,
    value_or_none,
)

_KEY_VALUE = re.compile(r"(?P<key>\S.*?)\s*:(?:\s+(?P<value>.*))?")
_GPU = re.compile(r"GPU\s+(?P<address>[0-9A-Fa-f:.]+)")
_FAILURES = (
    "NVIDIA-SMI has failed",
    "Failed to",
    "Unable to determine",
    "No devices were found",
    "No devices found",
    "Insufficient Permissions",
    "Invalid combination of input arguments",
    "Invalid argument",
    "ERROR:",
    "Field ",
    "sh:",
)
"""How nvidia-smi begins its own errors, and ESXi's shell its own, as far as either was seen in public."""

_NO_LICENCE = re.compile(r"N/A(?:\s*\(Expiry:\s*N/A\))?", re.IGNORECASE)
"""The values of R550 and later for a GPU without a guest driver, and for one that needs no license."""

NO_DRIVER = "NVIDIA-SMI has failed"
NO_GPUS = "No devices were found"


@dataclass(slots=True)
class Node:
    """A line of the tree. `value` is None for a section; `children` are the lines further in."""

    key: str
    value: str | None
    line: Line
    children: list[Node] = field(default_factory=list)

    def find(self, *path: str) -> Node | None:
        """Return the first descendant along keys, whatever their case."""
        node = self
        for key in path:
            found = next(node.all(key), None)
            if found is None:
                return None
            node = found
        return node

    def all(self, key: str) -> Iterator[Node]:
        """Yield the children of one key."""
        wanted = key.casefold()
        return (child for child in self.children if child.key.casefold() == wanted)

    def text(self, *path: str) -> str | None:
        """Return the value along keys; None where it is absent or N/A."""
        found = self.find(*path)
        return value_or_none(found.value) if found is not None and found.value is not None else None

    def licence(self, *path: str) -> str | None:
        """Return the state of a licence along keys; None where it is absent or N/A, whatever its expiry."""
        found = self.text(*path)
        return None if found is None or _NO_LICENCE.fullmatch(found) else found

    def number(self, tool: str, *path: str) -> int | None:
        """Return the number along keys, without a unit that follows it; None where absent or N/A."""
        found = self.find(*path)
        value = self.text(*path)
        if found is None or value is None:
            return None
        return int_or_error(tool, value.split()[0], found.line)

    def switch(self, tool: str, *path: str) -> bool | None:
        """Return whether a value along keys is on; None where absent or N/A.

        Raises UnreadableOutput where it is another word than Enabled, Disabled, True, False, Yes, No,
        Supported or Not Supported.
        """
        found = self.find(*path)
        value = self.text(*path)
        if found is None or value is None:
            return None
        word = value.casefold()
        if word in ("enabled", "true", "yes", "supported"):
            return True
        if word in ("disabled", "false", "no", "not supported"):
            return False
        raise UnreadableOutput(tool, "not on or off", line=found.line.text, number=found.line.number)


def tree_of(tool: str, text: str) -> Node:
    """Read nested lines under one root.

    Raises ToolFailed where nvidia-smi says that it failed, UnreadableOutput where there is nothing.
    """
    lines = lines_with_content(text)
    raise_failure(tool, lines)
    root = Node(key="", value=None, line=lines[0])
    open_nodes: list[tuple[int, Node]] = [(-1, root)]
    for line in lines:
        node = _node(line)
        while open_nodes[-1][0] >= line.indent:
            open_nodes.pop()
        open_nodes[-1][1].children.append(node)
        open_nodes.append((line.indent, node))
    return root


def gpu_blocks(tool: str, root: Node) -> tuple[tuple[str, Node], ...]:
    """Return the GPU blocks with their addresses.

    Raises UnreadableOutput where there is none, or two of one address.
    """
    blocks: dict[str, Node] = {}
    for node in root.children:
        found = _GPU.fullmatch(node.line.text.strip())
        if found is None:
            continue
        address = pci_id_of(found["address"])
        if address is None or address in blocks:
            why = "not a PCI address" if address is None else "duplicate GPU"
            raise UnreadableOutput(tool, why, line=node.line.text, number=node.line.number)
        blocks[address] = node
    if not blocks:
        raise UnreadableOutput(tool, "no GPU section", line=root.line.text, number=root.line.number)
    return tuple(blocks.items())


def raise_failure(tool: str, lines: Iterable[Line]) -> None:
    """Raise ToolFailed where output begins with an error of the tool, UnreadableOutput where it is empty."""
    first = next(iter(lines), None)
    if first is None:
        raise UnreadableOutput(tool, "printed nothing")
    said = first.text.strip()
    if said.startswith(_FAILURES):
        remedy = ""
        if said.startswith(NO_DRIVER):
            remedy = "install the NVIDIA host driver and reboot; then check `vmkload_mod -l | grep nvidia`"
        elif said.startswith(NO_GPUS):
            remedy = "check whether the GPUs are passed through, and whether the correct driver is installed"
        raise ToolFailed(tool, line=said, number=first.number, remedy=remedy)


def _node(line: Line) -> Node:
    stripped = line.text.strip()
    # An address has colons too, but no blank after them.
    found = _KEY_VALUE.fullmatch(stripped) if _GPU.fullmatch(stripped) is None else None
    if found is None:
        return Node(key=stripped, value=None, line=line)
    return Node(key=found["key"], value=(found["value"] or "").strip(), line=line)
