"""The JSON of checks of guests and hardware: verifications, driver branches, and watches as metrics, too."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.knowledge.health_rules import BY_KEY
from vgpu_cfg.model.guest_looks import BranchPlan
from vgpu_cfg.model.verification import CheckState, Verification, Watch, Watched
from vgpu_cfg.render.data.format import FORMAT
from vgpu_cfg.render.views.verification import advice, needs_action

SIGN, WATCHED, UNREAD = "vgpu_cfg_watch_sign", "vgpu_cfg_watch_timestamp_seconds", "vgpu_cfg_watch_unread"


def verification_data(found: Verification) -> dict[str, Any]:
    """Return the results with their questions."""
    return {
        "kind": "verify",
        "format": FORMAT,
        **found.model_dump(mode="json"),
        "passes": found.passes,
        "counts": {state.value: len(found.in_state(state)) for state in CheckState},
    }


def branch_plan_data(found: BranchPlan) -> dict[str, Any]:
    """Return each VM's stack next to the branch; unknown values are marked."""
    return {
        "kind": "target-branch",
        "format": FORMAT,
        **found.model_dump(mode="json"),
        "fits": not found.lacks,
    }


def watch_data(watch: Watch) -> dict[str, Any]:
    """Return a watch; `do` lists commands and steps for a person."""
    return {
        "kind": "watch",
        "format": FORMAT,
        "plan": watch.plan,
        "server": watch.server,
        "at": watch.at.isoformat(),
        "signs": [_sign(one, watch) for one in watch.due],
        "pending": [_sign(one, watch) for one in watch.pending],
        "ended": [_sign(one, watch) for one in watch.gone],
        "unread": list(watch.unread),
        "needs_action": needs_action(watch),
    }


def _sign(one: Watched, watch: Watch) -> dict[str, Any]:
    rule, sign = BY_KEY[one.sign.rule], one.sign
    return {
        "rule": rule.key,
        "title": rule.title,
        "urgency": rule.urgency.value,
        "host": sign.host,
        "vm": sign.vm,
        "gpu": sign.gpu,
        "since": one.since.isoformat(),
        "is_new": not one.is_told,
        "is_now": sign.is_now,
        "words": list(sign.words),
        "do": list(advice(one, watch)),
        "done": watch.cordoned.get(sign.target, ""),
        "source": rule.source,
    }


def watch_metrics(watch: Watch) -> str:
    """Return the metrics in Prometheus' text format; a sign has a sample as long as it lasts."""
    lines = [
        f"# HELP {SIGN} 1 for each sign of failing hardware that `verify --watch` reports.",
        f"# TYPE {SIGN} gauge",
    ]
    for one in watch.due:
        rule, sign = BY_KEY[one.sign.rule], one.sign
        labels = {"plan": watch.plan, "rule": rule.key, "urgency": rule.urgency.value}
        labels |= {"host": sign.host, "vm": sign.vm, "gpu": sign.gpu}
        lines.append(f"{SIGN}{{{_labels(labels)}}} 1")
    plan = _labels({"plan": watch.plan})
    lines += [
        f"# HELP {WATCHED} Time of the last watch.",
        f"# TYPE {WATCHED} gauge",
        f"{WATCHED}{{{plan}}} {watch.at.timestamp():.0f}",
        f"# HELP {UNREAD} VMs whose guests were not checked.",
        f"# TYPE {UNREAD} gauge",
        f"{UNREAD}{{{plan}}} {len(watch.unread)}",
    ]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
