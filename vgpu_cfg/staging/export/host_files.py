"""Host files of Horovod and of Open MPI: a line for each worker, with its slots.

Both read `NAME slots=N`. Horovod takes the first word and what follows the first `=`, so nothing else may
stand on a line (horovod/runner/common/util/hosts.py, parse_host_files, 0.28.1); Open MPI takes comments
too, which are left out for that reason (docs.open-mpi.org, "Scheduling processes across hosts").
"""

from __future__ import annotations

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.staging.export.parts import Exported, ExportOptions


def write_horovod(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write the host file for `horovodrun --hostfile`."""
    port = f" -p {host_list.mesh_port}" if host_list.mesh_port is not None else ""
    command = f"horovodrun -np {host_list.processes} --hostfile hostfile{port} python train.py"
    return Exported({"hostfile": _lines(host_list)}, (f"it goes with: {command}",))


def write_mpi(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write the host file for `mpirun --hostfile`."""
    port = f" --mca plm_rsh_args '-p {host_list.mesh_port}'" if host_list.mesh_port is not None else ""
    command = f"mpirun -np {host_list.processes} --hostfile hostfile{port} python train.py"
    return Exported({"hostfile": _lines(host_list)}, (f"it goes with: {command}",))


def _lines(host_list: HostList) -> str:
    return "".join(f"{host.host_name} slots={host.slots}\n" for host in host_list.workers)
