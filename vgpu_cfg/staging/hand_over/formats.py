"""The formats by the names that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vgpu_cfg.model.hand_over import HandOver
from vgpu_cfg.staging.hand_over.ansible import write_ansible
from vgpu_cfg.staging.hand_over.dstack import write_dstack
from vgpu_cfg.staging.hand_over.host_files import write_horovod, write_mpi
from vgpu_cfg.staging.hand_over.kubernetes import write_kubernetes
from vgpu_cfg.staging.hand_over.parts import Handed, HandOverOptions, refuse_unnamed
from vgpu_cfg.staging.hand_over.skypilot import write_skypilot
from vgpu_cfg.staging.hand_over.slurm import write_slurm
from vgpu_cfg.staging.hand_over.tf_config import write_tf_config
from vgpu_cfg.staging.hand_over.torchrun import write_torchrun


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what it is for, and what writes it."""

    name: str
    purpose: str
    make: Callable[[HandOver, HandOverOptions], Handed]

    def write(self, hand_over: HandOver, options: HandOverOptions) -> Handed:
        """Write a list of hosts. Raises DoesNotFit where it cannot be said."""
        refuse_unnamed(hand_over)
        return self.make(hand_over, options)


FORMATS = {
    one.name: one
    for one in (
        Format("horovod", "host file for horovodrun", write_horovod),
        Format("mpi", "host file for Open MPI's mpirun", write_mpi),
        Format("torchrun", "a command for each worker, PyTorch", write_torchrun),
        Format("tf-config", "TF_CONFIG for each worker, TensorFlow", write_tf_config),
        Format("slurm", "node lines for slurm.conf and gres.conf", write_slurm),
        Format("kubernetes", "node labels, by kubectl", write_kubernetes),
        Format("ansible", "inventory in YAML", write_ansible),
        Format("skypilot", "SSH node pool", write_skypilot),
        Format("dstack", "SSH fleet", write_dstack),
    )
}
