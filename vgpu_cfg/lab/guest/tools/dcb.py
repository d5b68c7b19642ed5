"""iproute2's `dcb` in a guest, for a port of mlx5's that the guest has whole.

Its output, refusals and statuses are those of dcb 6.1, which was run against a kernel of its own; a port
trusts DSCP while one of its DSCPs has a priority.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell.session import Result, Session
from vgpu_cfg.lab.guest.system.nics import find_nic, nics_of_guest
from vgpu_cfg.lab.guest.system.rdma import has_dcb
from vgpu_cfg.lab.guest.tools.base import fail, out
from vgpu_cfg.lab.state.guest import RoceSetting

BUFFER_BYTES = 262016
NUMERIC, JSON = "-N", "-j"


def dcb(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show a port's values."""
    if not has_dcb(session.guest):
        return Result(127, err=b"sh: 1: dcb: not found\n")
    words = [word for word in arguments if word not in (NUMERIC, JSON)]
    match words:
        case [kind, "show", "dev", name, *fields]:
            pass
        case [kind, *_] if kind not in ("pfc", "app", "ets", "buffer", "dcbx"):
            return fail(f'Object "{kind}" is unknown', status=1)
        case _:
            return fail("the lab's dcb shows a port, and sets none", status=1)
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=name)
    if nic is None:
        return fail("Attribute read: No such device", status=1)
    if not nic.is_whole:
        return fail("Attribute read: Operation not supported", status=1)
    shown = _shown(kind, session.guest.roce.get(nic.mac, RoceSetting()))
    unknown = next((field for field in fields if field.replace("-", "_") not in shown), None)
    if unknown is not None:
        return fail(f'What is "{unknown}"?', status=1)
    chosen = {key: value for key, value in shown.items() if not fields or key.replace("_", "-") in fields}
    if JSON in arguments:
        return out(json.dumps(chosen, separators=(",", ":")))
    return out(*(_line(key, value) for key, value in chosen.items()))


def _shown(kind: str, now: RoceSetting) -> dict[str, object]:
    protected = [number == now.priority for number in range(8)]
    match kind:
        case "pfc":
            return {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": protected}
        case "app":
            return {"dscp_prio": [[now.dscp, now.priority]]} if now.trust == "dscp" else {}
        case "ets":
            return {"willing": False, "ets_cap": 8, "prio_tc": list(range(8))}
        case "buffer":
            half = BUFFER_BYTES // 2 if any(protected) else 0
            sizes = [BUFFER_BYTES - half, half, *[0] * 6]
            return {
                "prio_buffer": [int(flag) for flag in protected],
                "buffer_size": sizes,
                "total_size": BUFFER_BYTES,
            }
        case _:
            return {"host": True, "ieee": True}


def _line(key: str, value: object) -> str:
    name = key.replace("_", "-")
    if isinstance(value, list):
        pairs = value if value and isinstance(value[0], list) else list(enumerate(value))
        return f"{name} " + "".join(f"{at}:{_word(one)} " for at, one in pairs)
    return f"{name} {_word(value)} "


def _word(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
