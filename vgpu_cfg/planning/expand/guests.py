"""Turn `guest` into the wanted state of a VM's guest, and find conflicts of its keys.

A VM without `guest` gets one if a NIC of it has `ip` or `rdma`, which only the guest can carry out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.documents import Loc
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredGuest, DesiredLicence
from vgpu_cfg.model.guests.guest import clashes
from vgpu_cfg.model.plan_file import (
    CudaEntry,
    GuestEntry,
    LicenceEntry,
    OfedEntry,
    PackageEntry,
    Scratch,
    UserEntry,
    VmKeys,
    host_name_of,
)
from vgpu_cfg.model.plan_file.guest_values import CUDA_PACKAGES, DRIVER_PACKAGES, OFED_PACKAGES, package_kind
from vgpu_cfg.planning.expand.merging import Layers
from vgpu_cfg.planning.expand.site import VmContext, value_of

MACHINE_USER = "vgpu-cfg"
"""The account that this tool makes for itself."""


def stated_in(keys: VmKeys) -> frozenset[str]:
    """Return the keys of a VM's `guest` that have a value."""
    entry = value_of(keys, "guest")
    if not isinstance(entry, GuestEntry):
        return frozenset()
    return frozenset(name for name in entry.model_fields_set if getattr(entry, name) is not None)


def make_guest(name: str, keys: VmKeys, user_data: str = "") -> DesiredGuest | None:
    """Make a VM's guest; None where nothing is asked of it. `user_data` is the file's text.

    `check_guest` must have found nothing. The host name is "" where the VM's name gives none.
    """
    entry: GuestEntry | None = value_of(keys, "guest")
    nics = keys.nics or ()
    has_rdma = any("rdma" in nic.model_fields_set for nic in nics)
    if entry is None and not has_rdma and not any(nic.ip for nic in nics):
        return None
    entry = entry or GuestEntry()
    return DesiredGuest(
        by=entry.by,
        spec=entry.spec or "",
        host_name=host_name(name, keys),
        domain=entry.domain or "",
        login=entry.login,
        users=entry.users,
        user_data=user_data,
        licence=_licence(entry.licence) if entry.licence is not None else None,
        driver=_driver(entry.driver),
        cuda=entry.cuda,
        ofed=_ofed(entry.ofed or (OfedEntry() if has_rdma else "leave")),
        runtime=entry.containers if entry.containers != "leave" else None,
        toolkit_repository=entry.toolkit_repository,
        shared_memory=f"{entry.shared_memory}m" if entry.shared_memory is not None else "",
        time=entry.time,
        wait_seconds=entry.wait,
        is_exposed=entry.secrets == "exposed",
    )


def host_name(name: str, keys: VmKeys) -> str:
    """Return the host name of a VM's guest: the stated one, else that which follows from the VM's name."""
    entry: GuestEntry | None = value_of(keys, "guest")
    return (entry.hostname if entry is not None else "") or host_name_of(name)


def _licence(entry: LicenceEntry) -> DesiredLicence:
    return DesiredLicence(token=entry.secret or entry.token or "", feature_type=entry.type)


def _driver(entry: PackageEntry | str | None) -> PackageEntry | None:
    if isinstance(entry, PackageEntry):
        return entry
    return PackageEntry() if entry == "template" else None


def _ofed(entry: OfedEntry | str) -> OfedEntry | None:
    return entry if isinstance(entry, OfedEntry) else None


def check_guest(keys: VmKeys, layers: Layers, context: VmContext) -> Iterator[DocumentFault]:
    """Yield the conflicts between the keys of `guest`, once all layers are merged."""
    entry = keys.guest
    yield from _check_spec(keys, entry, layers)
    yield from _check_login(entry, layers)
    yield from _check_users(entry, layers)
    yield from _check_packages(entry, layers)
    if entry.licence is not None and len({"secret", "token"} & entry.licence.model_fields_set) != 1:
        hint = "example: licence: {secret: lic}, or {token: {secret: lic}, type: 4}"
        yield layers.fault(("guest", "licence"), "a license requires either `token` or `secret`", hint)
    for loc, secret in _secrets(entry):
        if unknown := context.unknown_secret(secret):
            yield layers.fault(("guest", *loc), *unknown)
    if entry.user_data and entry.by != "cloud-init":
        message = f"`user_data` is for cloud-init, but this guest uses {entry.by}"
        yield layers.fault(("guest", "user_data"), message, "remove one of them")
    elif entry.user_data:
        yield from _check_user_data(layers, entry.user_data, entry.users, context)


_OF_SPECS = frozenset({"spec", "hostname", "domain", "wait"})
"""The keys of `guest` that a customization specification accepts; everything else is staged."""


def _check_spec(keys: VmKeys, entry: GuestEntry, layers: Layers) -> Iterator[DocumentFault]:
    """Yield the keys that a guest customized by a specification cannot have."""
    if not entry.spec:
        return
    given = entry.model_fields_set
    ssh = "set by: ssh or by: guest-operations, with a `login` from the template"
    if entry.by == "cloud-init" and "by" in given:
        message = "`spec` is for guests without cloud-init, but this guest uses cloud-init"
        yield layers.fault(("guest", "by"), message, "remove one of them")
    elif entry.by == "cloud-init":
        for name in sorted(stated_in(keys) - _OF_SPECS):
            message = f"a customization specification sets only the host name and addresses, not `{name}`"
            yield layers.fault(("guest", name), message, f"{ssh}; or remove it")
    if "template" in keys.model_fields_set and isinstance(keys.template, Scratch):
        message = "only clones of a template can be customized, but this VM is created from scratch"
        yield layers.fault(("guest", "spec"), message, "specify a template, or remove `spec`")
    for index, nic in enumerate(keys.nics or ()):
        has_rdma = "rdma" in nic.model_fields_set
        if nic.kind == "passthrough" and (nic.ip or has_rdma) and entry.by == "cloud-init":
            message = "a customization specification cannot configure a passthrough NIC"
            yield layers.fault(("nics", index), message, f"{ssh}; or remove its `ip` and `rdma`")
        elif nic.kind != "passthrough" and has_rdma:
            message = "RDMA requires adapter settings that a customization specification cannot provide"
            yield layers.fault(("nics", index, "rdma"), message, "remove it, or remove `guest.spec`")


def _check_login(entry: GuestEntry, layers: Layers) -> Iterator[DocumentFault]:
    loc: Loc = ("guest", "login")
    login, by = entry.login, entry.by
    if "login" not in entry.model_fields_set:
        if by != "cloud-init":
            hint = "example: login: {user: ubuntu, password: {secret: guest}}, an account in the template"
            yield layers.fault(("guest", "by"), f"`by: {by}` requires a `login`", hint)
        return
    has_key, has_password = (key in login.model_fields_set for key in ("key", "password"))
    if login.user and not (has_key or has_password):
        message = f"the login of {login.user!r} has neither `password` nor `key`"
        yield layers.fault(loc, message, "example: password: {secret: guest}")
    if not login.user and (has_key or has_password):
        yield layers.fault(loc, "this login does not specify a `user`", "specify its account")
    if by == "guest-operations" and not has_password:
        message = "guest operations require a password, but this login has none"
        yield layers.fault(loc, message, "add password: {secret: NAME}, or set by: ssh")
    if by == "ssh" and not login.user and not (has_key or has_password):
        yield layers.fault(
            loc, "`by: ssh` requires the `user` of an existing account", "example: user: ubuntu"
        )


def _check_users(entry: GuestEntry, layers: Layers) -> Iterator[DocumentFault]:
    names = [user.name for user in entry.users]
    for index, name in enumerate(names):
        if name == MACHINE_USER:
            message = f"the account {MACHINE_USER!r} is reserved for vgpu-cfg"
            yield layers.fault(("guest", "users", index), message, "use another name")
        if name in names[:index]:
            message = f"the account {name!r} is listed twice"
            yield layers.fault(("guest", "users", index), message, "keep only one")


def _check_packages(entry: GuestEntry, layers: Layers) -> Iterator[DocumentFault]:
    if isinstance(entry.driver, PackageEntry) and not entry.driver.package:
        message = "the driver location is missing"
        yield layers.fault(("guest", "driver"), message, "set `package`, or driver: template")
    elif isinstance(entry.driver, PackageEntry):
        yield from _check_kind(("guest", "driver"), entry.driver, DRIVER_PACKAGES, "the driver", layers)
    if entry.cuda is not None:
        yield from _check_cuda(entry.cuda, layers)
    if not isinstance(entry.ofed, OfedEntry):
        return
    if entry.ofed.package and entry.ofed.stack == "inbox":
        message = "`package` installs MLNX_OFED or DOCA-OFED, but `stack` is the distribution's inbox stack"
        yield layers.fault(("guest", "ofed", "package"), message, "set stack: mlnx or doca, or remove it")
    elif entry.ofed.package:
        kinds, what = OFED_PACKAGES[entry.ofed.stack], f"the stack {entry.ofed.stack}"
        yield from _check_kind(("guest", "ofed", "package"), entry.ofed, kinds, what, layers)
    if entry.ofed.sha256 and not entry.ofed.package:
        message = "`sha256` requires a `package`"
        yield layers.fault(("guest", "ofed", "sha256"), message, "remove it")


def _check_cuda(entry: CudaEntry, layers: Layers) -> Iterator[DocumentFault]:
    loc: Loc = ("guest", "cuda")
    if entry.package:
        yield from _check_kind((*loc, "package"), entry, CUDA_PACKAGES, "the CUDA Toolkit", layers)
    elif entry.sha256:
        message = "`sha256` requires a `package`"
        yield layers.fault((*loc, "sha256"), message, "remove it")
    if entry.package and entry.repository:
        message = "set either `package` or `repository` for the toolkit, not both"
        yield layers.fault((*loc, "repository"), message, "remove one of them")


def _check_kind(
    loc: Loc, entry: PackageEntry | CudaEntry, kinds: Sequence[str], what: str, layers: Layers
) -> Iterator[DocumentFault]:
    """Yield a fault where a package is none that its installer takes."""
    if package_kind(entry.package or "") not in kinds:
        message = f"{entry.package!r} is not a valid package for {what}"
        yield layers.fault(loc, message, f"specify a file with the extension {' or '.join(kinds)}")


def _secrets(entry: GuestEntry) -> Iterator[tuple[Loc, str]]:
    if entry.licence is not None and entry.licence.secret is not None:
        yield ("licence", "secret"), entry.licence.secret
    if entry.licence is not None and entry.licence.token is not None:
        yield ("licence", "token", "secret"), entry.licence.token
    if entry.login.password is not None:
        yield ("login", "password", "secret"), entry.login.password
    if entry.login.key is not None:
        yield ("login", "key", "secret"), entry.login.key


def _check_user_data(
    layers: Layers, path: str, users: Sequence[UserEntry], context: VmContext
) -> Iterator[DocumentFault]:
    loc: Loc = ("guest", "user_data")
    try:
        theirs = read_foreign(read_user_data(layers, path, context), path)
    except DocumentError as error:
        yield from error.faults
    except ValueError as error:
        message, _, hint = str(error).partition("\n")
        yield layers.fault(loc, message, hint)
    else:
        for clash in clashes(theirs, {"users": [{"name": user.name} for user in users]}):
            yield layers.fault(loc, f"the user data cannot be merged: {clash.message}", clash.remedy)


def read_user_data(layers: Layers, path: str, context: VmContext) -> str:
    """Return the text of the file; its path counts from the document whose layer names it."""
    return context.read_text(layers.holder(("guest", "user_data")).document.name, path)
