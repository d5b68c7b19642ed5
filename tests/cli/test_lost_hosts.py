"""A host dies and comes back: what commands say of the plan's VMs on it, what `apply` does meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine

ESTATE = "estates/three-hosts.yaml"
PLAN = """
version: 1
name: pair
vcenter: lab:estates/three-hosts.yaml
defaults: {{template: ubuntu-22.04-efi, cluster: gpu, folder: training, datastore: vsan}}
vms:
- {{name: "w-{{01..{count:02}}}", cpus: 8, memory: 64GiB, gpus: grid_a100-40c, nics: [vm-network]}}
"""
LOST = "esx-02.lab"


@pytest.fixture(name="pair")
def _pair(vgpu_cfg: CommandLine) -> CommandLine:
    """Two VMs run, on the first two of three hosts."""
    vgpu_cfg.write("pair.yaml", PLAN.format(count=2))
    vgpu_cfg.done("apply", "pair.yaml", "--yes")
    return vgpu_cfg


def told(pair: CommandLine, *words: str, code: int = 0) -> dict[str, Any]:
    """Run a command, and return what it prints as JSON."""
    ran = pair(*words, "--output", "json")
    assert ran.code == code, f"{ran.out}{ran.err}"
    document: dict[str, Any] = json.loads(ran.out)
    return document


def hand(pair: CommandLine, what: str) -> None:
    pair.done("lab", "hand", ESTATE, LOST, what)


def test_every_command_says_that_a_host_does_not_respond(pair: CommandLine) -> None:
    hand(pair, "--cut-off")
    (lost,) = told(pair, "plan", "pair.yaml", "--exit-code", code=10)["plan"]["lost_hosts"]
    assert (lost["host"]["name"], lost["connection"]) == (LOST, "notResponding")
    (vm,) = lost["vms"]
    assert (vm["name"], vm["power_state"], vm["could_start_on"]) == ("w-02", "poweredOn", "esx-03.lab")

    status = told(pair, "status", "pair.yaml")
    assert not status["is_in_sync"]
    assert [row["state"] for row in status["vms"]] == ["poweredOn", "disconnected"]
    assert pair("status", "pair.yaml", "--exit-code").code == 10

    verified = told(pair, "verify", "pair.yaml", code=8)
    failed = [one for one in verified["results"] if one["state"] == "failed"]
    assert [(one["code"], one["subject"]["name"]) for one in failed] == [("VG684", LOST)]
    fit = told(pair, "fit", "--plan", "pair.yaml")
    assert (fit["lost_hosts"], fit["left_out"], fit["total"]) == ([lost], [LOST], 1)
    assert f"bring back {LOST}" in pair.done("runbook", "pair.yaml").out

    drained = pair("drain", LOST, "--server", f"lab:{ESTATE}")
    assert drained.code == 4
    assert "does not respond" in drained.err
    assert told(pair, "hand-over", "pair.yaml", "--format", "mpi")["lost"] == ["w-02"]

    hand(pair, "--reconnect")
    assert told(pair, "status", "pair.yaml", "--exit-code")["is_in_sync"]


def test_apply_goes_on_with_the_others_and_ends_with_a_step_by_hand(pair: CommandLine) -> None:
    hand(pair, "--fail")
    pair.write("pair.yaml", PLAN.format(count=3))
    ran = pair("apply", "pair.yaml", "--yes")
    assert ran.code == 7, ran.err
    assert pair.look(ESTATE).vms == {"w-01", "w-02", "w-03"}
    (lost,) = told(pair, "plan", "pair.yaml")["plan"]["lost_hosts"]
    assert "w-03" in lost["vms"][0]["why_not"]

    hand(pair, "--power-on")
    assert "power on w-02" in {change["id"] for change in told(pair, "plan", "pair.yaml")["plan"]["changes"]}
    pair.done("apply", "pair.yaml", "--yes")
    assert told(pair, "status", "pair.yaml")["is_in_sync"]


def test_destroy_leaves_what_is_on_a_lost_host(pair: CommandLine) -> None:
    hand(pair, "--fail")
    assert pair("destroy", "pair.yaml", "--yes").code == 7
    assert pair.look(ESTATE).vms == {"w-02"}
    hand(pair, "--power-on")
    pair.done("destroy", "pair.yaml", "--yes")
    assert not pair.look(ESTATE).vms


def test_what_is_on_a_lost_host_is_neither_given_up_nor_taken_in_nor_written_down(pair: CommandLine) -> None:
    hand(pair, "--fail")
    shown = pair("export", "--update", "pair.yaml", "--vm", "w-*", "--dry-run")
    assert shown.code == 10
    assert f"w-02 VM: {LOST} does not respond" in shown.told
    ran = pair("forget", "pair.yaml", "--yes")
    assert ran.code == 7, ran.told
    assert "vgpu-cfg still manages the VM" in ran.told
    hand(pair, "--power-on")
    pair.done("forget", "pair.yaml", "--yes")
    hand(pair, "--fail")
    ran = pair("import", "pair.yaml", "--yes")
    assert ran.code == 7, ran.told
    hand(pair, "--power-on")
    pair.done("import", "pair.yaml", "--yes")
    pair.done("apply", "pair.yaml", "--yes")
    assert told(pair, "status", "pair.yaml")["is_in_sync"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--reconnect",), "is connected"),
        (("--power-on",), "is on"),
        ((), "nothing to do: specify --bios, --p"),
    ],
)
def test_a_hand_does_what_fits_the_host(vgpu_cfg: CommandLine, words: tuple[str, ...], says: str) -> None:
    ran = vgpu_cfg("lab", "hand", ESTATE, LOST, *words)
    assert ran.code in (2, 4)
    assert says in " ".join(ran.err.split())
