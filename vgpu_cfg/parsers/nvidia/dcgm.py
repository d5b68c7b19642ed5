"""The output of `dcgmi health -c -j`: the overall health, and errors by GPU and system.

Source: NVIDIA/DCGM, dcgmi/Health.cpp and DcgmiOutput.cpp, 2.4 to 4.6. Belief: dcgmi-health-json.
"""

from __future__ import annotations

import json

from vgpu_cfg.parsers.text import UnreadableOutput


def parse_dcgm_health(text: str) -> tuple[tuple[str, str], ...]:
    """Return each trouble: "Failure" or "Warning", and its place and cause in DCGM's words.

    Raises UnreadableOutput if no health is reported: without health watches, or without a host engine.
    """
    try:
        body = json.loads(text)["body"]
        overall = body.pop("Overall Health")["value"]
        found = [
            (seen["value"], f"{kind} {number}, {system}: {' '.join(seen['overflow'])}")
            for kind, group in body.items()
            for number, entity in group["children"].items()
            for system, seen in entity["children"]["Errors"]["children"].items()
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableOutput("dcgmi health", "no health is reported", line=text) from error
    unnamed = overall != "Healthy" and overall not in (health for health, _ in found)
    return (*found, *([(overall, f"Overall Health: {overall}")] if unnamed else []))
