"""What `guest` says of a VM's operating system: how it is reached, its name, accounts, drivers, containers.

The models hold one layer's own words (`defaults`, a line, an exception): what must go together is checked
where the layers are merged.
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
        "The account.", NEXT_RUN, "one that is made, with a key of the plan's own", value=""
    )
    password: Stated[NamedSecret] = key(
        "The secret that holds its password; guest operations need one.", NEXT_RUN
    )
    port: Port = key("The port of the guest's ssh server.", NEXT_RUN, value=22)
    # The last one: below it the function of its name is out of reach.
    key: Stated[NamedSecret] = key("The secret that holds a private key.", NEXT_RUN)


class UserEntry(Frozen):
    """An account that the guest shall have."""

    name: UserName = Field(
        description="The account's name.", json_schema_extra={"x-takes-effect": IN_GUEST.value}
    )
    keys: PublicKeys = key("Public keys that may log in, one or a list.", IN_GUEST, "none", value=tuple)
    sudo: bool = key("Whether it may do everything, without a password.", IN_GUEST, value=True)
    shell: Shell = key("Its shell.", IN_GUEST, value="/bin/bash")


class LicenceEntry(Frozen):
    """The client configuration token of the licence server; `secret` alone is short for `token`."""

    secret: Stated[SecretName] = key(
        "A name that stands under `secrets`: short for {token: {secret: NAME}}.", IN_GUEST
    )
    token: Stated[NamedSecret] = key("The secret that holds the token.", IN_GUEST)
    type: FeatureType = key(
        "FeatureType of gridd.conf: 1 vGPU, 2 RTX Virtual Workstation, 4 compute.", IN_GUEST, value=4
    )


class PackageEntry(Frozen):
    """A package: where it is, and what is in it."""

    package: Package = key("An address, or a path in the guest.", GUEST_RESTART)
    sha256: Sha256 = key("Its checksum.", GUEST_RESTART, "not checked")


class OfedEntry(PackageEntry):
    """The RDMA stack, and its package where the template has it not."""

    stack: Literal["mlnx", "doca", "inbox"] = key(
        "MLNX_OFED, DOCA-OFED, or what the distribution has.", GUEST_RESTART, value="inbox"
    )


class CudaEntry(Frozen):
    """The CUDA Toolkit, for training without containers; text is short for {version: text}."""

    version: CudaVersion = Field(
        description='The release, as in "12.8".', json_schema_extra={"x-takes-effect": IN_GUEST.value}
    )
    package: Package = key(
        "A local repository's .deb or .rpm, or a .run file, by its address or path.",
        IN_GUEST,
        "from the repository",
    )
    sha256: Sha256 = key("Its checksum.", IN_GUEST, "not checked")
    repository: Url = key("Where NVIDIA's packages are; a mirror of NVIDIA's.", IN_GUEST, "NVIDIA's")
    keyring_sha256: Sha256 = key(
        "The checksum of the repository's cuda-keyring package.", IN_GUEST, "NVIDIA's of this distribution"
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
    """How a VM's guest is set up: by whom, and what it shall have."""

    by: Literal["cloud-init", "guest-operations", "ssh"] = key(
        "How what belongs into the guest comes there first; another way is tried after it.",
        NEXT_RUN,
        value="cloud-init",
    )
    spec: OptionalText = key(
        "For guests without cloud-init: the customisation specification in vCenter by which a clone gets its "
        "host name and addresses at its first start.",
        TakesEffect.AT_CREATION,
        "none",
    )
    secrets: Literal["follow", "exposed"] = key(
        "follow: what is secret comes after the first boot, by guest operations or ssh; exposed: cloud-init "
        "brings it, and whoever may read the VM's configuration in vCenter can read it there.",
        NEXT_RUN,
        value="follow",
    )
    hostname: HostName = key("The host name, one label.", IN_GUEST, "the VM's name")
    domain: Domain = key("The domain that makes the host name a full one.", IN_GUEST, "none")
    login: LoginEntry = key(
        "How this tool gets into the guest after its first boot.", NEXT_RUN, value=LoginEntry
    )
    users: GuestUsers = key(
        "Accounts; text is short for {name: text}.", IN_GUEST, "none besides the template's", value=tuple
    )
    user_data: OptionalText = key(
        "A #cloud-config file that is merged under what this tool writes; the path counts from the file "
        "that names it.",
        FIRST_BOOT,
        "none",
    )
    licence: Stated[GuestLicence] = key(
        "The vGPU licence: {secret: NAME} of the token, or a mapping.", IN_GUEST
    )
    driver: Stated[GuestDriver] = key(
        "NVIDIA's guest driver: template (it is there, and checked), the package's address or path, or a "
        "mapping; leave: nothing is done.",
        GUEST_RESTART,
        "template where a VM with GPUs trains, else leave",
    )
    cuda: Stated[GuestCuda] = key(
        'The CUDA Toolkit, for those who train without containers: "12.8", or a mapping.', IN_GUEST, "none"
    )
    ofed: Stated[GuestOfed] = key(
        "The RDMA stack: mlnx, doca, inbox, or a mapping; leave: nothing is done.",
        GUEST_RESTART,
        "inbox where a NIC has rdma, else leave",
    )
    time: TimeServers = key(
        "The NTP servers of the guest's clock, one or a list; these and no others.",
        IN_GUEST,
        "as the template has it",
        value=tuple,
    )
    containers: Stated[Containers] = key(
        "The container runtime, with NVIDIA's container toolkit where the VM has GPUs; leave: nothing is "
        "done.",
        IN_GUEST,
        "docker where training needs one, else leave",
    )
    toolkit_repository: Url = key(
        "Where the packages of NVIDIA's container toolkit are; a mirror of NVIDIA's.", IN_GUEST, "NVIDIA's"
    )
    shared_memory: Stated[Size] = key("The size of /dev/shm, which containers share.", IN_GUEST, "as it is")
    wait: Duration = key("How long the guest's first boot may take.", NEXT_RUN, "30m", value=1800)
