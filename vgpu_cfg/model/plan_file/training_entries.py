"""The key `training`: the VMs that train together, their image, network and supporting services."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import (
    Count,
    Kept,
    OptionalText,
    Stated,
    TakesEffect,
    Text,
    Texts,
    key,
    mapping_or_text,
)
from vgpu_cfg.model.plan_file.guest_values import (
    SHELL_VARIABLES,
    Duration,
    Elastic,
    Image,
    Mounts,
    NeededImage,
    Package,
    Port,
    Rate,
    Registry,
    RegistryUser,
    Sha256,
    SharedPath,
    ShellVariable,
    VariableValue,
    flag_or_mapping,
)
from vgpu_cfg.model.plan_file.host_values import NamedSecret, SecretName, secret_use

IN_GUEST = TakesEffect.IN_GUEST
NEXT_RUN = TakesEffect.NEXT_RUN

Framework = Literal["torchrun", "horovod", "mpi", "none"]
"""The launcher of a training's processes; "none" starts the command itself, once on each worker."""

Restarts = Annotated[int, Field(ge=0, le=100)]

MonitoringPart = Literal["dcgm-exporter", "node-exporter", "prometheus", "grafana"]


class RegistryEntry(Frozen):
    """A login at a container registry; `secret` alone is short for `password`, at the image's registry."""

    secret: Stated[SecretName] = key(
        "A name under `secrets`: short for {password: {secret: NAME}}.", IN_GUEST
    )
    server: Registry = key("The registry's address, without https://.", IN_GUEST, "the image's registry")
    user: RegistryUser = key("The user.", IN_GUEST, "$oauthtoken for nvcr.io; otherwise, required")
    password: Stated[NamedSecret] = key("The secret with the password or API key.", IN_GUEST)


class SharedFolderEntry(Frozen):
    """A folder that the head exports over NFS, and the workers mount at the same path."""

    path: SharedPath = key("Its path.", IN_GUEST, value="/srv/training")


class MonitoringEntry(Frozen):
    """GPU metrics of the workers, Prometheus and Grafana on the head."""

    exporter: Literal["dcgm", "nvidia-smi"] = key(
        "The metrics exporter: NVIDIA's DCGM exporter, or nvidia-smi with the node exporter.",
        IN_GUEST,
        value="dcgm",
    )
    images: dict[MonitoringPart, NeededImage] = key(
        "Images to use instead of this release's, by component.",
        IN_GUEST,
        "pinned by this release",
        value=dict,
    )
    grafana_password: Stated[NamedSecret] = key(
        "The secret with the password for Grafana's admin user.", IN_GUEST, "Grafana is read-only"
    )


class TrafficEntry(Frozen):
    """Traffic classes on the management NIC: data loading may borrow, and starves nothing."""

    link: Annotated[Rate, Kept(int)] = key("The NIC's total bandwidth, for example 10Gbps.", IN_GUEST)
    control: Annotated[Rate, Kept(int)] = key(
        "The bandwidth reserved for ssh and the launcher, for example 200Mbps.", IN_GUEST
    )


class TrainingRoceEntry(Frozen):
    """How RDMA packets are marked, and the priority that is kept lossless."""

    dscp: Annotated[int, Field(ge=0, le=63)] = key("The DSCP of RDMA packets.", IN_GUEST, value=26)
    priority: Annotated[int, Field(ge=0, le=7)] = key(
        "The priority for which flow control (PFC) prevents packet loss.", IN_GUEST, value=3
    )


class CheckpointEntry(Frozen):
    """How a running training is asked to save before its workers are changed."""

    before: Text = Field(
        description="The shell command that saves a checkpoint. It runs on every worker, in the training "
        "job's container and folder, and must not return success before the checkpoint is "
        "complete.",
        json_schema_extra={"x-takes-effect": NEXT_RUN.value},
    )
    timeout: Annotated[Duration, Kept(int)] = key("The time limit for saving.", NEXT_RUN, "10m", value=600)
    resume: Literal["automatic", "manual"] = key(
        "How training continues after the changes. manual: use `train --resume`.",
        NEXT_RUN,
        value="automatic",
    )


class UpdateEntry(Frozen):
    """How workers are changed while a training runs on them."""

    max_unavailable: Count = key(
        "The number of workers to change at the same time; workers on the same host count as one if the "
        "host is taken down.",
        NEXT_RUN,
        value=1,
    )
    checkpoint: Stated[CheckpointEntry] = key(
        "Whether to pause training at a checkpoint first and resume it afterward.",
        NEXT_RUN,
        "training is not paused",
    )


class TrainingEntry(Frozen):
    """Which VMs of the plan train together, and with what."""

    framework: Framework = key(
        "The launcher that `train` uses to start one process per GPU: torchrun, horovod (horovodrun) or "
        "mpi (mpirun); the image must include it. none: run the command once on every worker.",
        IN_GUEST,
        value="horovod",
    )
    image: Image = key(
        "The container image that training runs in.", IN_GUEST, "none: training runs in the guest itself"
    )
    archive: Package = key(
        "An alternative source for the image: an address, or a path in the guest.",
        IN_GUEST,
        "pulled from the registry",
    )
    archive_sha256: Sha256 = key("The checksum of `archive`.", IN_GUEST, "not checked")
    workers: Texts = Field(
        description="The VMs to train on: a name or glob, or a list, in the plan's order.",
        json_schema_extra={"x-takes-effect": IN_GUEST.value},
    )
    head: OptionalText = key(
        "The VM in this plan that starts training, if it is not a worker.", IN_GUEST, "the first worker"
    )
    slots: Stated[Count] = key("The number of processes per worker.", IN_GUEST, "one per GPU")
    rdma_network: OptionalText = key(
        "The network for training traffic; every worker must have a NIC with `rdma` on it.",
        IN_GUEST,
        "the network of each worker's first NIC",
    )
    registry: Stated[
        Annotated[RegistryEntry, BeforeValidator(secret_use, json_schema_input_type=RegistryEntry)]
    ] = key("The login for the image's registry: {secret: NAME}, or a mapping.", IN_GUEST, "no login")
    max_restarts: Restarts = key(
        "The number of times that `train` restarts all processes after one fails.", IN_GUEST, value=0
    )
    elastic: Elastic = key(
        "The minimum and maximum number of workers, for example 2:4; for torchrun and horovod.",
        IN_GUEST,
        "always all workers",
    )
    port: Port = key("The SSH server port in the containers.", IN_GUEST, value=2222)
    keys: Stated[NamedSecret] = key(
        "The secret, at least 32 bytes long, from which all of the plan's SSH keys are derived.",
        IN_GUEST,
        "created and stored on this machine",
    )
    mounts: Mounts = key(
        "Guest folders to mount in the container, for example /srv/data:/data.", IN_GUEST, "none", value=tuple
    )
    environment: dict[ShellVariable, VariableValue] = key(
        "Environment variables for training.", IN_GUEST, "none", value=dict, propertyNames=SHELL_VARIABLES
    )
    shared_folder: Annotated[
        SharedFolderEntry | None,
        mapping_or_text("path", bool | Text | SharedFolderEntry),
        flag_or_mapping(bool | Text | SharedFolderEntry),
    ] = key("A folder that the head exports over NFS: true, its path, or a mapping.", IN_GUEST, "none")
    monitoring: Annotated[MonitoringEntry | None, flag_or_mapping(bool | MonitoringEntry)] = key(
        "GPU metrics, with a dashboard: true, or a mapping.", IN_GUEST, "none"
    )
    traffic: Stated[TrafficEntry] = key("Bandwidth limits for the management NIC.", IN_GUEST, "not limited")
    update: Stated[UpdateEntry] = key(
        "Change the workers one at a time.", NEXT_RUN, "in parallel, while training is running"
    )
    roce: TrainingRoceEntry = key("Marking of RDMA packets.", IN_GUEST, value=TrainingRoceEntry)
