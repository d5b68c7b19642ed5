"""The key `guest`, for a VM's operating system: access, name, accounts, drivers, containers.

The models contain one layer's values (`defaults`, a line, an exception): consistency is checked
when the layers are merged.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import (
    Kept,
    OptionalText,
    Size,
    Stated,
    TakesEffect,
    Text,
    key,
    one_or_many_of,
)
from vgpu_cfg.model.plan_file.guest_values import (
    Containers,
    CudaVersion,
    Domain,
    Duration,
    FeatureType,
    HostName,
    Package,
    Port,
    PublicKeys,
    Sha256,
    Shell,
    TimeServers,
    Url,
    UserName,
    word_or_mapping,
)
from vgpu_cfg.model.plan_file.host_values import NamedSecret, SecretName, secret_use

IN_GUEST = TakesEffect.IN_GUEST
GUEST_RESTART = TakesEffect.GUEST_RESTART
FIRST_BOOT = TakesEffect.FIRST_BOOT
NEXT_RUN = TakesEffect.NEXT_RUN


class LoginEntry(Frozen):
    """An account of the template by which this tool gets into the guest, with sudo that asks nothing."""

    user: Annotated[UserName, Kept(str)] = key(
        "The account.", NEXT_RUN, "an account that vgpu-cfg creates, with the plan's key", value=""
    )
    password: Stated[NamedSecret] = key(
        "The secret with the account's password; required for guest operations.", NEXT_RUN
    )
    port: Port = key("The guest's SSH server port.", NEXT_RUN, value=22)
    # The last one: below it the function of its name is out of reach.
    key: Stated[NamedSecret] = key("The secret with a private key.", NEXT_RUN)


class UserEntry(Frozen):
    """An account for the guest."""

    name: UserName = Field(
        description="The account's name.", json_schema_extra={"x-takes-effect": IN_GUEST.value}
    )
    keys: PublicKeys = key("Public keys for login, one or a list.", IN_GUEST, "none", value=tuple)
    sudo: bool = key("Whether the account can use sudo without a password.", IN_GUEST, value=True)
    shell: Shell = key("The account's login shell.", IN_GUEST, value="/bin/bash")


class LicenceEntry(Frozen):
    """The client configuration token of the licence server; `secret` alone is short for `token`."""

    secret: Stated[SecretName] = key("A name under `secrets`: short for {token: {secret: NAME}}.", IN_GUEST)
    token: Stated[NamedSecret] = key("The secret with the token.", IN_GUEST)
    type: FeatureType = key(
        "FeatureType in gridd.conf: 1 vGPU, 2 RTX Virtual Workstation, 4 compute.", IN_GUEST, value=4
    )


class PackageEntry(Frozen):
    """A package: its location and its contents."""

    package: Package = key("An address, or a path in the guest.", GUEST_RESTART)
    sha256: Sha256 = key("Its checksum.", GUEST_RESTART, "not checked")


class OfedEntry(PackageEntry):
    """The RDMA stack, and its package where the template has it not."""

    stack: Literal["mlnx", "doca", "inbox"] = key(
        "MLNX_OFED, DOCA-OFED, or the distribution's inbox stack.", GUEST_RESTART, value="inbox"
    )


class CudaEntry(Frozen):
    """The CUDA Toolkit, for training without containers; text is short for {version: text}."""

    version: CudaVersion = Field(
        description='The release, for example "12.8".', json_schema_extra={"x-takes-effect": IN_GUEST.value}
    )
    package: Package = key(
        "A local repository's .deb or .rpm, or a .run file, by its address or path.",
        IN_GUEST,
        "from the repository",
    )
    sha256: Sha256 = key("Its checksum.", IN_GUEST, "not checked")
    repository: Url = key("The location of NVIDIA's packages or a mirror.", IN_GUEST, "NVIDIA's")
    keyring_sha256: Sha256 = key(
        "The checksum of the repository's cuda-keyring package, or of its rpm key without the Version line.",
        IN_GUEST,
        "NVIDIA's, for this distribution",
    )


GuestDriver = Annotated[
    Literal["template", "leave"] | PackageEntry,
    word_or_mapping("package", ("template", "leave"), Text | PackageEntry),
]
GuestOfed = Annotated[
    Literal["leave"] | OfedEntry,
    word_or_mapping("stack", ("leave",), Literal["mlnx", "doca", "inbox", "leave"] | OfedEntry),
]


GuestCuda = Annotated[CudaEntry, word_or_mapping("version", (), CudaVersion | CudaEntry)]
GuestUsers = Annotated[
    tuple[UserEntry, ...], one_or_many_of("name", Text | UserEntry | list[Text | UserEntry])
]
GuestLicence = Annotated[LicenceEntry, BeforeValidator(secret_use, json_schema_input_type=LicenceEntry)]


class GuestEntry(Frozen):
    """The setup of a VM's guest: the method and the contents."""

    by: Literal["cloud-init", "guest-operations", "ssh"] = key(
        "The method to try first when setting up the guest; if it fails, another one is tried.",
        NEXT_RUN,
        value="cloud-init",
    )
    spec: OptionalText = key(
        "For guests without cloud-init: the vCenter customization specification that sets the clone's host "
        "name and addresses at first power-on.",
        TakesEffect.AT_CREATION,
        "none",
    )
    secrets: Literal["follow", "exposed"] = key(
        "follow: secrets are delivered after the first boot, by guest operations or SSH; exposed: "
        "cloud-init delivers them, so anyone with read access to the VM's configuration in vCenter can see "
        "them.",
        NEXT_RUN,
        value="follow",
    )
    hostname: HostName = key("The host name, without a domain.", IN_GUEST, "the VM's name")
    domain: Domain = key("The domain of the fully qualified host name.", IN_GUEST, "none")
    login: LoginEntry = key(
        "The login for access to the guest after its first boot.", NEXT_RUN, value=LoginEntry
    )
    users: GuestUsers = key(
        "Accounts; text is short for {name: text}.", IN_GUEST, "only the template's", value=tuple
    )
    user_data: OptionalText = key(
        "A #cloud-config file to merge with vgpu-cfg's settings; its path is relative to the file that "
        "specifies it.",
        FIRST_BOOT,
        "none",
    )
    licence: Stated[GuestLicence] = key(
        "The vGPU license: {secret: NAME} for the token, or a mapping.", IN_GUEST
    )
    driver: Stated[GuestDriver] = key(
        "NVIDIA's guest driver: template (already in the template, only checked), the package's address or "
        "path, or a mapping; leave: not changed.",
        GUEST_RESTART,
        "template for training VMs with GPUs; otherwise, leave",
    )
    cuda: Stated[GuestCuda] = key(
        'The CUDA Toolkit, for training without containers: "12.8", or a mapping.', IN_GUEST, "none"
    )
    ofed: Stated[GuestOfed] = key(
        "The RDMA stack: mlnx, doca, inbox, or a mapping; leave: not changed.",
        GUEST_RESTART,
        "inbox if a NIC has rdma; otherwise, leave",
    )
    time: TimeServers = key(
        "The guest's NTP servers, one or a list; no others are used.", IN_GUEST, "the template's", value=tuple
    )
    containers: Stated[Containers] = key(
        "The container runtime, with the NVIDIA Container Toolkit if the VM has GPUs; leave: not changed.",
        IN_GUEST,
        "docker if training requires a runtime; otherwise, leave",
    )
    toolkit_repository: Url = key(
        "The location of the NVIDIA Container Toolkit packages or a mirror.", IN_GUEST, "NVIDIA's"
    )
    shared_memory: Stated[Size] = key("The size of /dev/shm, which containers share.", IN_GUEST, "unchanged")
    wait: Duration = key("The maximum duration of the guest's first boot.", NEXT_RUN, "30m", value=1800)
