"""Obstacles to staging one guest, and to a training as a whole.

Of a guest: its system, access, driver, license, disk, user data, and secrets and keys that are absent,
foreign, or to be revoked. Of a training: its workers, their connections, its image, its head.

Belief: reconfigured-event-is-readable, reconfigured-event-has-old-values, vmware-log-lists-guestinfo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from vgpu_cfg.catalog.version_pairs import (
    Effect,
    contents_of,
    impossible_tag,
    load_driver_branches,
    version_pair,
)
from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import DesiredDiskGrowth, DesiredPlan, DesiredTraining, DesiredVm, ScratchSource
from vgpu_cfg.model.guests.base import PLAN_KEYS, ModuleBase
from vgpu_cfg.model.guests.guest import OWN_VALUES
from vgpu_cfg.model.guests.modules import (
    DriverModule,
    HostNameModule,
    HostsModule,
    LicenceModule,
    branch_of_package,
    kind_of_package,
)
from vgpu_cfg.model.guests.training_modules import ImageModule, RegistryModule
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.model.wording import counted, gib, listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.compatibility import check_cuda, check_image
from vgpu_cfg.planning.guests.drivers import is_unknown, is_unproven
from vgpu_cfg.planning.guests.peers import Addresses, Team, meeting_network, planned_nics
from vgpu_cfg.planning.guests.plan_keys import KEYS, Held, KeysOfGuests, keys_in, marks_of
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

# Belief: system-needs-15-gib.
SYSTEM_GIB = 15
"""The size of a system with the NVIDIA driver and a container runtime (recalled)."""
DRIVER_GIB = 8
"""The size of a system that gets the NVIDIA driver's package, and its build tools (recalled)."""

_HOW_TO = "docs/how-to/share-a-plans-keys.md"


def check_system(resolved: ResolvedVm, findings: Findings) -> bool:
    """Whether a guest can be staged at all: there is a system in it, and it is a Linux."""
    vm = resolved.desired
    if isinstance(vm.source, ScratchSource) and resolved.existing is None:
        message = "the VM is created without an operating system, so its guest cannot be staged"
        remedy = (
            "clone a template; or remove `guest`, and its NICs' `ip` and `rdma`, until an operating system "
            "is installed"
        )
        findings.refuse_vm(Code.GUEST_NO_SYSTEM, vm, message, remedy)
        return False
    guest_id = resolved.base.guest_id
    if is_linux(guest_id) is False:
        message = f"its guest OS is {guest_id}, but only Linux guests can be staged"
        remedy = "clone a Linux template; or remove `guest`, and its NICs' `ip` and `rdma`"
        findings.refuse_vm(Code.GUEST_NOT_LINUX, vm, message, remedy)
        return False
    return True


def check_way_in(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> bool:
    """Whether a guest without a login can be reached: only a first boot with cloud-init makes one."""
    vm, spec, login = resolved.desired, update.spec, update.spec.login
    if spec.by != "cloud-init":
        return True
    if login.user:
        made = {user.name for user in vm.guest.users} if vm.guest is not None else set()
        if made and login.user not in made and update.is_new:
            message = f"`guest.login` uses the account {login.user!r}, which is not in `guest.users`"
            remedy = "add it to `guest.users`, or make sure the template has this account"
            findings.add_vm(Code.GUEST_NO_WAY_IN, vm, message, remedy, Severity.WARNING)
        return True
    if update.is_new and update.will_run:
        message = (
            "cloud-init is the only way to access the guest; if the template does not include "
            "cloud-init, the run "
            f"stops after waiting {spec.wait_seconds // 60} min"
        )
        remedy = "make sure the template includes cloud-init, or set `guest.login` for another access method"
        findings.add_vm(Code.ONLY_CLOUD_INIT, vm, message, remedy)
    elif update.will_run and not update.known.is_marked and (update.is_silent or not update.known.is_seeded):
        minutes = update.spec.wait_seconds // 60
        message = (
            f"cloud-init has not reported in the {minutes} min since the first boot, and no other access "
            f"method is configured"
            if update.known.is_seeded
            else "the VM was created without `guest` and has already booted, so cloud-init does not "
            "run again, "
            "and no other access method is configured"
        )
        remedy = "set guest: {login: {user: …, key: {secret: …}}}, or recreate the VM"
        findings.refuse_vm(Code.GUEST_NO_WAY_IN, vm, message, remedy)
        return False
    return True


def check_guest(resolved: ResolvedVm, update: GuestUpdate, host_branch: str, findings: Findings) -> None:
    """Check the modules to stage against the VM's hardware and its host's driver."""
    _check_driver(resolved, update, host_branch, findings)
    check_cuda(resolved, update, host_branch, findings)
    check_image(resolved, update, host_branch, findings)
    vm = resolved.desired
    has_vgpu = any(gpu.kind == "vgpu" for gpu in resolved.gpus)
    if has_vgpu and update.spec.get(DriverModule) is not None and update.spec.get(LicenceModule) is None:
        message = "no license is specified for its vGPUs; 20 minutes after startup, performance is reduced"
        remedy = "set guest: {licence: {secret: …}}, unless the template has a token"
        findings.add_vm(Code.GUEST_LICENCE_ABSENT, vm, message, remedy)
    _check_disk(resolved, update, findings)
    if update.spec.user_data and update.is_new:
        _check_user_data(resolved, update, findings)


def check_secrets(
    resolved: ResolvedVm, update: GuestUpdate, fingerprints: Mapping[str, str], findings: Findings
) -> None:
    """Report secrets that were not there to compare: they are assumed to be unchanged."""
    staged = [one for one in update.spec.modules if one.kind in update.known.mark]
    unseen = {name for one in staged for name in one.secrets if name not in fingerprints} - {PLAN_KEYS}
    if not unseen:
        return
    words = sorted(f"`{name}`" for name in unseen)
    message = (
        f"these secrets cannot be read on this machine, so they are not compared with the staged ones: "
        f"{listed(words, shown=6)}"
    )
    findings.add_vm(
        Code.GUEST_NOT_COMPARED,
        resolved.desired,
        message,
        "run `plan` on a machine that can read the secrets",
    )


def check_expired(
    vm: DesiredVm, brought: Iterable[ModuleBase], expired: Mapping[str, datetime], findings: Findings
) -> None:
    """Refuse to bring a token that has expired: what rests on it would fail once all else is done."""
    for name in dict.fromkeys(name for module in brought for name in module.secrets if name in expired):
        message = f"the token in the secret `{name}` expired on {expired[name]:%Y-%m-%d}"
        # Belief: token-file-is-a-jwt.
        findings.add_vm(Code.BROUGHT_EXPIRED, vm, message, "store a new token in that secret")


def check_pinned(
    resolved: ResolvedVm,
    update: GuestUpdate,
    changes: Sequence[StageGuest],
    desired: DesiredPlan,
    findings: Findings,
) -> None:
    """Refuse to fetch root's code without a checksum, unless the plan file has `unpinned`; then report it.

    Modules that are staged already are not fetched again.
    """
    staged = {name for change in changes for name in change.modules}
    for module in update.spec.modules:
        if module.kind not in staged:
            continue
        if isinstance(module, DriverModule) and module.package:
            _check_signed(resolved, findings)
        if not module.unpinned:
            continue
        message = f"{module.kind}: root would run {module.unpinned}, which is downloaded without a checksum"
        key = "archive_sha256" if isinstance(module, ImageModule) else "sha256"
        remedy = f"add its `{key}` (use sha256sum), or `unpinned: true`, to the plan file"
        severity = Severity.WARNING if desired.unpinned else None
        findings.add_vm(Code.NOT_PINNED, resolved.desired, message, remedy, severity)


def _check_signed(resolved: ResolvedVm, findings: Findings) -> None:
    """Check that Secure Boot allows the guest to load modules built in it; the enrolled keys are unknown."""
    stated = resolved.desired.secure_boot
    if resolved.base.options.get("secure_boot") if stated is None else stated:
        message = (
            "with `secure_boot`, the guest does not load the NVIDIA driver, which is built in the "
            "guest and unsigned"
        )
        remedy = (
            "set `secure_boot: false`, or use a template with a signed driver and `driver: template`; if the "
            f"signing key is enrolled in its firmware, set checks: {{{Code.UNSIGNED_MODULE}: warning}}"
        )
        findings.add_vm(Code.UNSIGNED_MODULE, resolved.desired, message, remedy)


def _check_driver(resolved: ResolvedVm, update: GuestUpdate, host_branch: str, findings: Findings) -> None:
    module = update.spec.get(DriverModule)
    if module is None:
        return
    has_vgpu = any(gpu.kind == "vgpu" for gpu in resolved.gpus)
    if _is_other_kind(resolved, update, module.package, findings, has_vgpu=has_vgpu) or not has_vgpu:
        return
    branch = branch_of_package(module.package)
    host = resolved.host.name if resolved.host is not None else "its host"
    if branch and not is_unknown(branch) and is_unproven(host_branch, branch):
        message = (
            f"the guest's driver is from branch {branch}, which {host} (branch {host_branch}) may not "
            f"support; if it does not, the vGPU does not load"
        )
        remedy = f"use a package from branch {host_branch} in `guest.driver`, or test with one VM"
        findings.add_vm(Code.GUEST_DRIVER_UNPROVEN, resolved.desired, message, remedy)
    if branch and host_branch and is_unknown(branch) and branch != host_branch:
        message = (
            f"the guest's driver is from branch {branch}, which is not a documented vGPU software branch "
            f"({load_driver_branches().rule}); it is unknown whether {host} (branch {host_branch}) "
            f"supports it"
        )
        remedy = f"check the release notes for the host's release, or use a package from branch {host_branch}"
        findings.add_vm(Code.GUEST_DRIVER_UNKNOWN, resolved.desired, message, remedy)
        return
    if not branch or not module.branches or branch in module.branches:
        return
    message = (
        f"the guest's driver is from branch {branch}, but {host} (branch {host_branch}) supports only "
        f"{', '.join(module.branches)}; the vGPU would not load"
    )
    remedy = f"use a package from branch {module.branches[0]} in `guest.driver`"
    findings.add_vm(Code.GUEST_DRIVER_BRANCH, resolved.desired, message, remedy)


def _is_other_kind(
    resolved: ResolvedVm, update: GuestUpdate, package: str, findings: Findings, *, has_vgpu: bool
) -> bool:
    """Whether a package's name shows that it is not for this guest's GPUs, which is reported.

    A GPU that is passed through also runs with the vGPU guest driver, which then needs a license
    (Virtual GPU Software User Guide, "Using GPU Pass-Through").
    """
    kind, name = kind_of_package(package), package.rpartition("/")[2]
    other = "NVIDIA's data center driver, such as NVIDIA-Linux-x86_64-VERSION.run"
    severity = None
    if has_vgpu and kind == "data center":
        message = f"{name} is NVIDIA's data center driver, which does not support vGPUs"
    elif kind == "host":
        message = f"{name} is the vGPU manager for hosts, not a guest driver"
    elif kind == "guest" and resolved.gpus and not has_vgpu and update.spec.get(LicenceModule) is None:
        message = (
            f"{name} is the vGPU guest driver, which requires a license, but the VM's GPUs are passed through"
        )
        other += ", or set guest: {licence: {secret: …}}"
        severity = Severity.WARNING
    else:
        return False
    own = "the guest package of your vGPU release, with `-grid` in its name"
    remedy = f"use {own if has_vgpu else other}"
    findings.add_vm(Code.GUEST_DRIVER_BRANCH, resolved.desired, message, remedy, severity)
    return True


def _check_disk(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Compare the first disk of a new VM, as it will be, with what system and image need."""
    image, driver = update.spec.get(ImageModule), update.spec.get(DriverModule)
    if resolved.existing is not None or not resolved.base.disks:
        return
    if image is None:
        if driver is None or not driver.package:
            return
        needed, what, who = DRIVER_GIB * 1024, "the system and driver", "the driver"
    else:
        needed, what, who = (image.minimum_free_gib + SYSTEM_GIB) * 1024, "the system and image", "the image"
    first = min(resolved.base.disks, key=lambda disk: disk.key).capacity_mib
    grown = [disk.size_mib for disk in resolved.desired.disks if isinstance(disk, DesiredDiskGrowth)]
    size = max([first, *grown])
    if size < needed:
        message = f"the system disk is {gib(size)}, but {what} need about {gib(needed)}; {who} may not fit"
        remedy = f"set disks: [{{grow: {gib(needed).replace(' ', '')}}}]"
        findings.add_vm(Code.GUEST_DISK_SMALL, resolved.desired, message, remedy)


def _check_user_data(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Refuse keys of the user's #cloud-config that the plan decides otherwise: only one can hold."""
    theirs = _read(update.spec.user_data)
    name = update.spec.get(HostNameModule)
    ours: dict[str, object] = dict(OWN_VALUES)
    if name is not None:
        ours["hostname"] = name.host_name
        if name.domain:
            ours["fqdn"] = f"{name.host_name}.{name.domain}"
    if update.spec.get(HostsModule) is not None:
        ours["manage_etc_hosts"] = False
    clashes = sorted(key for key, value in ours.items() if key in theirs and theirs[key] != value)
    if clashes:
        keys = ", ".join(f"`{key}`" for key in clashes)
        message = f"its `user_data` conflicts with the plan's settings for {keys}"
        findings.refuse_vm(
            Code.USER_DATA_CLASHES, resolved.desired, message, "remove these keys from the user data"
        )


def _read(user_data: str) -> Mapping[str, object]:
    """Read a user's #cloud-config; invalid YAML has no keys here, and staging reports it."""
    try:
        return read_foreign(user_data, "user_data")
    except DocumentError:
        return {}


def keys_home(desired: DesiredPlan) -> str:
    """Say in a few words where the keys of a plan are kept."""
    name = desired.training.keys if desired.training is not None else None
    return f"the secret `{name}`" if name is not None else "keys/ in the state folder"


def is_printed_by_command(desired: DesiredPlan) -> bool:
    """Whether the keys of a plan are printed by a command, which read-only commands never run."""
    name = desired.training.keys if desired.training is not None else None
    return name is not None and name in desired.secrets and desired.secrets[name].kind == "command"


def remedy_absent(desired: DesiredPlan) -> str:
    """Say what to do where the keys that guests have are not here."""
    home = keys_home(desired)
    if is_printed_by_command(desired):
        return f"none; `apply` runs {home}'s command after you confirm"
    if desired.training is not None and desired.training.keys is not None:
        return f"make {home} readable on this machine: {_HOW_TO}"
    return f"copy {home} from the machine that applied the plan, or share the keys: {_HOW_TO}"


def remedy_foreign(desired: DesiredPlan, *, is_former: bool) -> str:
    """Return the remedy for guests with other keys; `is_former` are those after the new ones."""
    if is_former:
        return "to replace them in the guests, use `--rotate keys`"
    return (
        f"copy the guest's original keys to {keys_home(desired)}; to replace the keys, or if they are "
        f"lost, use `--rotate keys`"
    )


def check_keys(
    resolved: ResolvedVm,
    update: GuestUpdate,
    held: Held,
    keys: KeysOfGuests,
    desired: DesiredPlan,
    findings: Findings,
) -> None:
    """Say where a guest has keys that cannot be seen here, or others, and where the tool cannot get in."""
    vm, mark = resolved.desired, update.known.mark_text
    if held is Held.UNSEEN:
        message = (
            "the guest has the plan's keys, but they are not on this machine; its secrets are not compared"
        )
        message += "" if is_printed_by_command(desired) else ", so apply rejects the plan"
        findings.add_vm(Code.KEYS_ABSENT, vm, message, remedy_absent(desired))
    elif held is Held.FOREIGN:
        message = "the guest was set up with keys that differ from the plan's keys on this machine"
        remedy = remedy_foreign(desired, is_former=keys.reaches(mark))
        findings.add_vm(Code.KEYS_FOREIGN, vm, message, remedy)
    elif held is Held.FORMER and update.will_run and not (keys.reaches(mark) or update.spec.login.user):
        message = (
            "the guest's keys cannot be replaced because the key that vgpu-cfg logs in with no longer exists"
        )
        remedy = f"append its current seed after the new one in {keys_home(desired)}, or set `guest.login`"
        findings.add_vm(Code.KEYS_NOT_ROTATED, vm, message, remedy)


def check_rotation(
    desired: DesiredPlan, observed: Inventory, keys: KeysOfGuests, rotate: Collection[str], findings: Findings
) -> None:
    """Report missing new keys, and former ones that no guest needs."""
    if not keys.is_taken:
        return
    subject = Subject(kind="plan", name=desired.name)
    home = keys_home(desired)
    marks = marks_of(desired.identity, observed).values()
    if keys.former and keys.is_over(marks):
        message = f"every guest has the new keys, but {home} still contains the old ones"
        findings.add(Code.STAYS_VALID, subject, message, f"remove all seeds except the first from {home}")
    elif KEYS in rotate and not keys.former and all(keys_in(one) <= {keys.now} for one in marks):
        message = f"`--rotate keys`: every guest already has the keys in {home}"
        remedy = (
            "insert a new seed before the old one (`openssl rand -hex 32`), and run the same command again"
        )
        findings.add(Code.KEYS_NOT_ROTATED, subject, message, remedy)


def check_replaced(
    resolved: ResolvedVm,
    update: GuestUpdate,
    changes: Sequence[StageGuest],
    rotate: Collection[str],
    findings: Findings,
) -> None:
    """Report the remaining work at the issuer once a token or a registry's key is replaced."""
    brought = {name for change in changes for name in change.modules} & set(rotate) & update.known.mark.keys()
    for module in update.spec.modules:
        if module.kind not in brought:
            continue
        match module:
            case LicenceModule():
                what, where = "license token", "the license server's portal"
            case RegistryModule():
                what, where = f"password for {module.server}", module.server
            case _:
                continue
        message = f"the current {what} remains valid until you revoke it"
        findings.add_vm(Code.STAYS_VALID, resolved.desired, message, f"revoke the old one at {where}")


_ELASTIC = frozenset({"torchrun", "horovod"})
"""The elastic launchers: torchrun --nnodes=MIN:MAX, horovodrun --min-np and --max-np."""
_TENSORFLOW = re.compile(r"^nvcr\.io/nvidia/tensorflow(:|@|$)")
_OF_ONE_MACHINE = {
    "NCCL_SOCKET_IFNAME": "interfaces",
    "GLOO_SOCKET_IFNAME": "interfaces",
    "HOROVOD_GLOO_IFACE": "interfaces",
    "OMPI_MCA_btl_tcp_if_include": "interfaces",
    "NCCL_IB_HCA": "RDMA devices",
    "UCX_NET_DEVICES": "RDMA devices",
    "NCCL_IB_GID_INDEX": "GID indexes",
}
"""Variables with a value that may differ from worker to worker, and the kind of names in it."""
_ONE_NAME = re.compile(r"(^|[=,])[^^,=/]*\d(:\d+)?($|,)")
"""A name that ends in a number, as devices and indexes do; prefixes, networks, and exclusions do not."""
_WITHOUT_RDMA = {("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "socket")}
_PYTORCH = re.compile(r"^nvcr\.io/nvidia/pytorch(:|@|$)")


def check_training(desired: DesiredPlan, team: Team, addresses: Addresses, findings: Findings) -> None:
    """Check the plan's training."""
    training = team.training
    subject = Subject(kind="plan", name=desired.name)
    _check_workers(team, subject, findings)
    _check_addresses(team, addresses, subject, findings)
    _check_image(training, subject, findings)
    _check_elastic(team, subject, findings)
    _check_head(training, subject, findings)
    _check_environment(team, subject, findings)


def _check_environment(team: Team, subject: Subject, findings: Findings) -> None:
    """Report variables that override what each worker's start script finds for itself."""
    if len(team.workers) < 2:
        return
    has_rdma = any(nic.rdma for worker in team.workers for nic in worker.vm.nics)
    for name, value in team.training.environment.items():
        kind = _OF_ONE_MACHINE.get(name)
        objection, remedy = "", f"remove {name}"
        if kind == "interfaces" and set(value.removeprefix("=").split(",")) == {"lo"}:
            objection = ", but no other worker can be reached over the loopback interface"
        elif kind is not None and not value.startswith("^") and _ONE_NAME.search(value):
            objection = f" for all workers, but their {kind} may differ"
            remedy += (
                f": each worker detects its own {kind}; if they are the same on all workers, ignore "
                "this finding"
            )
        elif has_rdma and (name, value.casefold()) in _WITHOUT_RDMA:
            objection = ", but the workers have RDMA NICs; training would use TCP"
        if objection:
            message = f"`environment` sets {name}={value}{objection}"
            findings.add(Code.VARIABLE_OF_ONE_MACHINE, subject, message, remedy)


def _check_workers(team: Team, subject: Subject, findings: Findings) -> None:
    if len(team.workers) == 1:
        message = "training has only one worker; the components for several workers are staged but not used"
        findings.add(Code.ONE_WORKER, subject, message, "add workers, or ignore this finding")
    kinds: dict[str, list[str]] = {}
    for one in team.workers:
        kinds.setdefault(_gpus_of(one.vm), []).append(one.vm.name)
    if len(kinds) > 1:
        words = "; ".join(f"{listed(names)}: {words}" for words, names in kinds.items())
        message = (
            f"the workers have different GPUs ({words}), so every training step waits for the slowest one"
        )
        findings.add(Code.WORKERS_UNEQUAL, subject, message, "use the same GPUs for all workers")


def _gpus_of(vm: DesiredVm) -> str:
    words = [_gpu_text(gpu) for gpu in vm.gpus]
    kinds = dict.fromkeys(words)
    return " and ".join(f"{words.count(one)} x {one}" for one in kinds) or "none"


def _gpu_text(gpu: GpuEntry) -> str:
    if gpu.memory is not None:
        return f"{gib(gpu.memory)} of GPU memory"
    return str(gpu.profile[0]) if gpu.kind == "vgpu" else "an entire GPU"


def _check_addresses(team: Team, addresses: Addresses, subject: Subject, findings: Findings) -> None:
    members = team.everyone
    if len(members) < 2:
        return
    nics = [planned_nics(one.vm, addresses) for one in members]
    if meeting_network(team.training, nics) is not None:
        _check_rendezvous(team, subject, findings)
        return
    unknown = [one.vm.name for one in members if not one.address]
    if unknown:
        message = f"the plan does not specify an address at which the other VMs can reach {listed(unknown)}"
    else:
        message = "no network in the plan assigns addresses to all training VMs"
    remedy = (
        "add a network with `subnet` and `pool` to `networks`, and `nics: [{network: NAME, ip: pool}]` to "
        "each worker; DHCP addresses are not known in advance"
    )
    findings.add(Code.NO_MEETING_NETWORK, subject, message, remedy)


def _check_rendezvous(team: Team, subject: Subject, findings: Findings) -> None:
    """Report processes that will not meet by an address on the network of the training."""
    unknown = [one.vm.name for one in team.workers if not one.training_address]
    if not unknown or len(team.workers) < 2 or not team.training.rdma_network:
        return
    network = team.training.rdma_network
    message = (
        f"the plan does not specify an address for {listed(unknown)} on {network}; processes use the "
        f"workers' names, which resolve to another network"
    )
    remedy = (
        f"set `ip: pool` or a fixed `ip` on the NIC on {network}; DHCP addresses are not known in advance"
    )
    findings.add(Code.RENDEZVOUS_ELSEWHERE, subject, message, remedy)


def _check_image(training: DesiredTraining, subject: Subject, findings: Findings) -> None:
    if why := impossible_tag(training.image or ""):
        message, remedy = f"{training.image} does not exist: {why}", "select a tag that the registry lists"
        findings.add(Code.IMAGE_TAG, subject, message, remedy)
    if training.framework == "horovod" and _PYTORCH.search(training.image or ""):
        message = f"{training.image} is NVIDIA's PyTorch image, which does not include Horovod"
        remedy = "use your own image or a TensorFlow image with Horovod, or set `framework: torchrun`"
        findings.add(Code.IMAGE_WITHOUT_HOROVOD, subject, message, remedy)
    torch = contents_of(training.image or "").torch
    if training.framework == "horovod" and torch:
        message = f"{training.image} is PyTorch's own image, which does not include Horovod"
        row = version_pair("PyTorch", Effect.EXCLUDES, "Horovod").at(torch)
        if row is not None:
            message += f"; Horovod {row.needs_until} does not compile with PyTorch {row.since} and later"
        findings.add(
            Code.IMAGE_WITHOUT_HOROVOD, subject, message, "use your own image, or `framework: torchrun`"
        )
    if training.framework == "torchrun" and _TENSORFLOW.search(training.image or ""):
        message = f"{training.image} is NVIDIA's TensorFlow image, which does not include PyTorch"
        remedy = "use a PyTorch image such as nvcr.io/nvidia/pytorch, or another `framework`"
        findings.add(Code.IMAGE_WITHOUT_TORCH, subject, message, remedy)


def _check_elastic(team: Team, subject: Subject, findings: Findings) -> None:
    training = team.training
    if not training.elastic:
        return
    if training.framework not in _ELASTIC:
        message = f"`elastic: {training.elastic}` is not supported by `framework: {training.framework}`"
        remedy = "set framework: torchrun or horovod, or remove `elastic`"
        findings.add(Code.NOT_ELASTIC, subject, message, remedy)
        return
    _, most = parse_elastic(training.elastic)
    if most > len(team.workers):
        there = counted(len(team.workers), "worker")
        message = (
            f"`elastic` allows {most} workers, but the plan has only {there}; torchrun waits 30 seconds for "
            f"more"
        )
        remedy = f"set the maximum to {len(team.workers)} or less, or add workers"
        findings.add(Code.ELASTIC_BEYOND, subject, message, remedy)


def _check_head(training: DesiredTraining, subject: Subject, findings: Findings) -> None:
    wanted: Sequence[str] = [
        *(["shared_folder"] if training.shared_folder is not None else []),
        *(["monitoring"] if training.monitoring is not None else []),
    ]
    if wanted and training.head is None:
        keys = " and ".join(f"`{key}`" for key in wanted)
        message = f"training with {keys} requires a head VM, but `training.head` is not set"
        remedy = "set `training.head` to a VM, or remove these keys"
        findings.add(Code.HEAD_ABSENT, subject, message, remedy)
    elif training.head is not None and training.shared_folder is None and not training.mounts:
        count = counted(len(training.workers), "worker")
        message = f"without a shared or mounted folder, you must copy data and code to each of the {count}"
        remedy = "set training: {shared_folder: {}}, or mount a shared folder with `mounts`"
        findings.add(Code.NO_SHARED_FOLDER, subject, message, remedy)
