"""RDMA settings of a guest's NIC: `mlnx_qos`, the traffic class in sysfs, and the port's rate.

Sources: MLNX_OFED documentation, "Quality of Service", and public outputs of `mlnx_qos -i` (the columns of
priorities are apart by blanks, "buffer" follows "enabled" since MLNX_OFED 4.3); `tc/1/traffic_class`
reads `Global tclass=106` (NVIDIA documentation); `ports/1/rate` reads `100 Gb/sec (4X EDR)` (kernel ABI,
sysfs-class-infiniband). `dcb -j` prints what iproute2's dcb/dcb_pfc.c, dcb_app.c and dcb_buffer.c say, and
what dcb 6.1 printed of a port that a test played for it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput, lines_with_content

MLNX_QOS = "mlnx_qos -i"
DCB = "dcb -j"
TRAFFIC_CLASS = "traffic_class"
RATE = "ports/1/rate"

_PRIORITIES = 8
_CLASS = re.compile(r"(?:Global )?tclass=(-?\d{1,4})")
_RATE = re.compile(r"(?P<rate>\d{1,6}(?:\.\d+)?) Gb/sec(?: \((?P<kind>.*)\))?")
_FLAGS = re.compile(r"enabled\s+((?:[01]\s*){8})")


class PortQos(Frozen):
    """The values of `mlnx_qos`: the port's trust mode ("dscp", "pcp"), the priorities that PFC protects.

    `priority_of` maps a DSCP to its priority; empty where the port does not trust DSCP.
    """

    trust: str
    protected: frozenset[int]
    priority_of: dict[int, int]


def parse_qos(text: str) -> PortQos:
    """Read `mlnx_qos -i INTERFACE`.

    Raises ToolFailed for other output, UnreadableOutput if trust or PFC are missing.
    """
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(MLNX_QOS, "printed nothing")
    trust, protected = "", None
    priority_of: dict[int, int] = {}
    for line in lines:
        words = line.text.strip()
        if words.startswith("Priority trust state:"):
            trust = words.partition(":")[2].strip()
        elif (mapped := re.fullmatch(r"prio:([0-7])\s+dscp:([0-9,]*)", words)) is not None:
            priority_of |= {int(dscp): int(mapped[1]) for dscp in mapped[2].split(",") if 0 < len(dscp) <= 2}
        elif protected is None and (flags := _FLAGS.fullmatch(words + " ")) is not None:
            protected = frozenset(place for place, flag in enumerate(flags[1].split()) if flag == "1")
    if not trust or protected is None:
        if lines[0].text.strip().startswith(("Netdevice", "Traceback", "Error", "usage", "Interface")):
            raise ToolFailed(MLNX_QOS, line=lines[-1].text, number=lines[-1].number)
        missing = "no trust state" if not trust else "no PFC configuration"
        raise UnreadableOutput(MLNX_QOS, missing, line=lines[0].text, number=lines[0].number)
    return PortQos(trust=trust, protected=protected, priority_of=priority_of)


def parse_dcb(pfc: str, app: str) -> PortQos:
    """Read `dcb -j pfc show` and `dcb -j app show`: mlx5 trusts DSCP while one of them has a priority.

    Raises UnreadableOutput for any other text.
    """
    flags = _told(pfc, "prio_pfc")
    if len(flags) != _PRIORITIES or not all(isinstance(flag, bool) for flag in flags):
        raise UnreadableOutput(DCB, "no PFC state for eight priorities", line=pfc.strip()[:200])
    entries = _told(app, "dscp_prio", may_lack=True)
    if not all(_is_entry(entry) for entry in entries):
        raise UnreadableOutput(DCB, "no DSCP priorities", line=app.strip()[:200])
    return PortQos(
        trust="dscp" if entries else "pcp",
        protected=frozenset(place for place, flag in enumerate(flags) if flag),
        priority_of={entry[0]: entry[1] for entry in entries},
    )


def parse_dcb_buffers(text: str, priority: int) -> tuple[frozenset[int], int]:
    """Read `dcb -j buffer show`: which other priorities have the priority's receive buffer, and its bytes.

    Raises UnreadableOutput if it has no buffers.
    """
    owners, sizes = _told(text, "prio_buffer"), _told(text, "buffer_size")
    if (
        len(owners) != _PRIORITIES
        or not all(type(one) is int for one in [*owners, *sizes])
        or not 0 <= owners[priority] < len(sizes)
    ):
        raise UnreadableOutput(DCB, "no buffers for eight priorities", line=text.strip()[:200])
    own = owners[priority]
    return frozenset(at for at, one in enumerate(owners) if one == own and at != priority), sizes[own]


def _told(text: str, key: str, *, may_lack: bool = False) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableOutput(DCB, "not JSON", line=text.strip()[:200]) from error
    value = found.get(key, [] if may_lack else None) if isinstance(found, dict) else None
    if not isinstance(value, list):
        raise UnreadableOutput(DCB, f"no {key}", line=text.strip()[:200])
    return value


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(type(one) is int for one in entry)


def parse_traffic_class(text: str) -> int | None:
    """Read the type-of-service byte that the device gives to all its traffic; None where none is set.

    Raises UnreadableOutput for any other line.
    """
    for line in lines_with_content(text):
        found = _CLASS.fullmatch(line.text.strip())
        if found is None:
            continue
        value = int(found[1])
        return value if value >= 0 else None
    if text.strip():
        raise UnreadableOutput(TRAFFIC_CLASS, "no traffic class", line=text.strip().splitlines()[0])
    return None


def parse_rate(text: str) -> float:
    """Read a port's rate in Gb/s. Raises UnreadableOutput for other text."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise UnreadableOutput(RATE, "no rate", line=text.strip()[:200])
    return float(found["rate"])
