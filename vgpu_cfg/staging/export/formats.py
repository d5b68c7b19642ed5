"""The formats by the names that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.staging.export.ansible import write_ansible
from vgpu_cfg.staging.export.dstack import write_dstack
from vgpu_cfg.staging.export.host_files import write_horovod, write_mpi
from vgpu_cfg.staging.export.kubernetes import write_kubernetes
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, refuse_unnamed
from vgpu_cfg.staging.export.skypilot import write_skypilot
from vgpu_cfg.staging.export.slurm import write_slurm
from vgpu_cfg.staging.export.tf_config import write_tf_config
from vgpu_cfg.staging.export.torchrun import write_torchrun


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, and what writes it."""

    name: str
    make: Callable[[HostList, ExportOptions], Exported]

    def write(self, host_list: HostList, options: ExportOptions) -> Exported:
        """Write a list of hosts. Raises DoesNotFit where it cannot be said."""
        refuse_unnamed(host_list)
        return self.make(host_list, options)


FORMATS = {
    one.name: one
    for one in (
        Format("horovod", write_horovod),
        Format("mpi", write_mpi),
        Format("torchrun", write_torchrun),
        Format("tf-config", write_tf_config),
        Format("slurm", write_slurm),
        Format("kubernetes", write_kubernetes),
        Format("ansible", write_ansible),
        Format("skypilot", write_skypilot),
        Format("dstack", write_dstack),
    )
}
