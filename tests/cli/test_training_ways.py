"""Trainings of other shapes, from bare hosts on: virtual functions, PVRDMA, other container runtimes."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.team import ALONE, ESTATE, SECRETS, WORKERS, guest_in

RDMA_ESTATE = "estates/rdma.yaml"
WHOLE = "{network: roce-111, type: passthrough, near: gpu, ip: pool, rdma: gpudirect}"
HOSTS = """\
hosts:
- cluster: gpu
  access: {ssh: open-and-close, user: root, password: {secret: esxi}}
  disruption: {max_hosts_down: 1, allow: [maintenance, reboot, cold_boot]}
"""
FUNCTIONS = """\
  nics: {match: {vmnic: vmnic2}, use: sriov, vfs: 4, firmware: {SRIOV_EN: true, NUM_OF_VFS: 4}}
"""
VMKNICS = """\
  vmknics:
    network: roce-vmk
    addresses: {esx-rdma-01.lab: 10.111.0.101/24, esx-rdma-02.lab: 10.111.0.102/24}
"""


LATER = pytest.mark.exhaustive("RDMA by other kinds of NIC, from the hosts to the training: tests/cli")


def on_the_switch(nic: str, of_hosts: str) -> str:
    """Return the plan with RDMA NICs of another kind, on a distributed switch."""
    text = WORKERS.replace(ESTATE, RDMA_ESTATE).replace(WHOLE, nic)
    text = text.replace("roce-111, physical: true,", "roce-111, switch: dvs-roce, vlan: 111,")
    return text.replace("networks:\n", f"{HOSTS}{of_hosts}networks:\n")


@LATER
def test_virtual_functions_are_cut_marked_and_given_to_workers(vgpu_cfg: CommandLine) -> None:
    nic = "{network: roce-111, type: sriov, near: gpu, ip: pool, rdma: gpudirect}"
    plan = vgpu_cfg.write("plan.yaml", on_the_switch(nic, FUNCTIONS))
    planned = vgpu_cfg.done("plan", plan, **SECRETS)
    # The driver's own settings were asked for, since the VMs need them: nobody writes them down.
    assert "nmlx5_core PFC and trust mode" in planned.told
    vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    before = vgpu_cfg.look(RDMA_ESTATE).tasks
    vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert vgpu_cfg.look(RDMA_ESTATE).tasks == before
    assert vgpu_cfg("plan", plan, "--open-shell", "--exit-code", **SECRETS).code == 0
    verified = vgpu_cfg.done("verify", plan, "-v", **SECRETS)
    assert "virtual functions do not report ATS" in verified.told


@LATER
def test_pvrdma_comes_about_and_holds(vgpu_cfg: CommandLine) -> None:
    nic = "{network: roce-111, type: pvrdma, ip: pool, rdma: host}"
    plan = vgpu_cfg.write("plan.yaml", on_the_switch(nic, VMKNICS))
    vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert vgpu_cfg("plan", plan, "--exit-code", **SECRETS).code == 0
    vgpu_cfg.done("verify", plan, **SECRETS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("runtime", ["containerd", "apptainer"])
def test_another_runtime_is_staged_and_verified(runtime: str, vgpu_cfg: CommandLine) -> None:
    text = ALONE.replace("guest: {", f"guest: {{containers: {runtime}, ")
    plan = vgpu_cfg.write("plan.yaml", text)
    vgpu_cfg.done("apply", plan, "--yes", **SECRETS)
    assert runtime in guest_in(vgpu_cfg, "hvd-01").toolkit
    assert vgpu_cfg("plan", plan, "--exit-code", **SECRETS).code == 0
    vgpu_cfg.done("verify", plan, **SECRETS)
