"""A session with a DRS host group, which no command of ours makes; its transcript is beside this file."""

from __future__ import annotations

import os
from pathlib import Path

from pyVmomi import vim

from tests.cli.command_line import CommandLine
from tests.cli.transcript import commands_of, comment_of, play
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.state.inventory import Cluster
from vgpu_cfg.ports import TaskState
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

TRANSCRIPT = Path(__file__).with_name("host-group.txt")


def make_host_group(run: CommandLine, name: str) -> None:
    """Make a group of all hosts of the lab's cluster, as somebody would in the vSphere Client."""
    lab = run.lab("two-a100")
    (cluster,) = lab.state.all(Cluster)
    hosts = [vim.HostSystem(moid) for moid in cluster.hosts]
    info = vim.cluster.HostGroup(name=name, host=hosts)
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=info)])
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        entity = vim.ClusterComputeResource(cluster.moid, session.stub)
        task = str(entity.ReconfigureComputeResource_Task(spec, True)._moId)
        writer, state = VCenterWriter(session), TaskState.RUNNING
        while not state.is_over:
            state = writer.wait_for_tasks([task], 60)[-1].state
    assert state is TaskState.SUCCESS


def test_it_reads_as_its_transcript(vgpu_cfg: CommandLine) -> None:
    make_host_group(vgpu_cfg, "a100-even")
    expected = TRANSCRIPT.read_text(encoding="utf-8")
    happened = play(comment_of(expected), commands_of(expected), vgpu_cfg)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        TRANSCRIPT.write_text(happened, encoding="utf-8")
    assert happened == TRANSCRIPT.read_text(encoding="utf-8")
    (cluster,) = vgpu_cfg.lab("two-a100").state.all(Cluster)
    assert ([group.name for group in cluster.groups], cluster.rules) == (["a100-even"], [])
