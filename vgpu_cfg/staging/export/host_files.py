"""Host files of Horovod and of Open MPI: a line for each worker, with its slots.

Both read `NAME slots=N`. Horovod takes the first word and what follows the first `=`, so nothing else may
stand on a line (horovod/runner/common/util/hosts.py, parse_host_files, 0.28.1); Open MPI takes comments
too, which are left out for that reason (docs.open-mpi.org, "Scheduling processes across hosts").
"""

from __future__ import annotations

from vgpu_cfg.model.host_list import HandOver
from vgpu_cfg.staging.export.parts import Handed, HandOverOptions


def write_horovod(hand_over: HandOver, _options: HandOverOptions) -> Handed:
    """Write the host file for `horovodrun --hostfile`."""
    port = f" -p {hand_over.mesh_port}" if hand_over.mesh_port is not None else ""
    command = f"horovodrun -np {hand_over.processes} --hostfile hostfile{port} python train.py"
    return Handed({"hostfile": _lines(hand_over)}, (f"it goes with: {command}",))


def write_mpi(hand_over: HandOver, _options: HandOverOptions) -> Handed:
    """Write the host file for `mpirun --hostfile`."""
    port = f" -mca plm_rsh_args '-p {hand_over.mesh_port}'" if hand_over.mesh_port is not None else ""
    command = f"mpirun -np {hand_over.processes} --hostfile hostfile{port} python train.py"
    return Handed({"hostfile": _lines(hand_over)}, (f"it goes with: {command}",))


def _lines(hand_over: HandOver) -> str:
    return "".join(f"{host.host_name} slots={host.slots}\n" for host in hand_over.workers)
