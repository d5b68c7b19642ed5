"""Shown is run, for plans made at random. SHOWN_AND_RUN_EXAMPLES=200 tries so many instead of a few.

A case that breaks the law is told as it was drawn: to shrink it would take a run of the lab for each try.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings

from tests.cli.command_line import CommandLine
from tests.extent import examples
from tests.properties.shown_and_run.comparison import faults_of
from tests.properties.shown_and_run.plans import CUSTOMIZED, ESTATE, OTHER, POLICIES, Case, cases
from tests.properties.shown_and_run.reviewed import run_reviewed
from vgpu_cfg.lab.state.inventory import LabState

SECRETS = {"ESXI_PASSWORD": "lab", "LICENCE_KEY": "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"}


def few(count: int, many: int) -> settings:
    """Return how many cases are tried, and that none is shrunk."""
    return settings(
        max_examples=int(os.environ.get("SHOWN_AND_RUN_EXAMPLES", examples(count, many))),
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )


def touched_beyond(state: LabState) -> list[str]:
    """Name what is changed or new in the datacenter that no plan names."""
    found = [(state.datacenter_of(thing), thing) for thing in state.objects.values()]
    return [thing.name for center, thing in found if thing.revision and center and center.name == OTHER]


def faults_in(case: Case, *, of_vms: bool) -> list[str]:
    """Run a case's plans one after the other, up to the first that has nothing to run."""
    faults: list[str] = []
    count = 0
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        for key, value in SECRETS.items():
            patch.setenv(key, value)
        vgpu_cfg = CommandLine(Path(folder), patch)
        vgpu_cfg.write(ESTATE, json.dumps(case.estate))
        for plan in case.plans:
            path = vgpu_cfg.write("plan.yaml", json.dumps(plan))
            run = run_reviewed(vgpu_cfg, patch, path, ESTATE, "--allow-power-cycle")
            if run is None:
                break
            count += 1
            faults += faults_of(run, of_vms=of_vms)
            faults += [f"{name} is touched" for name in touched_beyond(vgpu_cfg.lab(ESTATE).state)]
    assume(count)
    return faults


@few(1, 2)
@given(cases(of_hosts=True))
def test_what_is_sent_to_hosts_clusters_and_networks_was_shown(case: Case) -> None:
    faults = faults_in(case, of_vms=False)
    assert not faults, "\n".join(faults)


@few(2, 8)
@example(POLICIES)
@example(CUSTOMIZED)
@given(cases(of_hosts=False))
def test_what_is_sent_to_vms_was_shown(case: Case) -> None:
    faults = faults_in(case, of_vms=True)
    assert not faults, "\n".join(faults)
