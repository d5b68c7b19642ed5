"""The questions to a single host, group by group, and the refusals that mean "there is none".

The round trips of each group, of a host that answers everything:

    OPTIONS   2, and 1 more from ESXi 9.0 on
    MODULES   3
    KERNEL    2, and 1 more before ESXi 7.0 U2
    SOFTWARE  1; where the account may not or the host does not, 1 more through esxcli (2 without KERNEL)
    OWNERS    1
    LICENCE   1

So all of them are 10 on ESXi 7.0 U2 to 8.0, and 11 on 9.0. A depot is one more: `read_depots`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import (
    CertificateRejected,
    LoginFailed,
    NotOffered,
    NotPermitted,
    NotRecorded,
    ReachError,
    Unreachable,
    VCenterError,
)
from vgpu_cfg.model.observed.host_facts import DepotLook, FactGroup, KernelSetting, SoftwarePackage
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.vsphere.host_facts import passes
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.esxcli import Esxcli
from vgpu_cfg.vsphere.wire.faults import fault_name, is_host_silent, is_not_offered, to_error
from vgpu_cfg.vsphere.wire.leaves import plain
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.versions import is_at_least

LOST = (Unreachable, LoginFailed, CertificateRejected, NotRecorded)
"""Errors that no other question would escape: they end the reading."""

_ESXI_9 = "9.0"
_KERNEL_LIST = "system settings kernel list"
_SOFTWARE_LIST = "software vib list"

Answer = Mapping[str, Any]


class HostSilent(VCenterError):
    """The host does not answer vCenter: every further question would wait in vain."""


class HostQuestions:
    """One host that is asked; answers are fields of `HostFacts`.

    A method raises VCenterError if its group cannot be read; parts that the host merely lacks (an option, a
    module, a boot setting) are left out of the answer.
    """

    def __init__(self, session: Session, item: Item, licences: Any, name: str) -> None:
        self._session = session
        self._item = item
        self._licences = licences
        self._name = name
        self._esxcli = Esxcli(session, item.moid, name)

    def options(self) -> Answer:
        """Read advanced options."""
        manager = self._manager("configManager.advancedOption", "advanced options")
        names = [passes.BOOT_OPTIONS, *passes.SINGLE_OPTIONS]
        version = self._item.get("summary.config.product.version", "")
        if not version or is_at_least(version, _ESXI_9):
            names += passes.SINGLE_OPTIONS_9
        found: dict[str, bool | int | str] = {}
        with self._asking("reading advanced options"):
            for name in names:
                try:
                    answer = manager.QueryOptions(name)
                except vim.fault.InvalidName:
                    continue
                found.update((option.key, plain(option.value)) for option in answer or ())
        return {"options": found}

    def modules(self) -> Answer:
        """Read the option strings of kernel modules; an unset one is an empty text."""
        manager = self._manager("configManager.kernelModuleSystem", "kernel modules")
        found: dict[str, str] = {}
        with self._asking("reading kernel module options"):
            for name in passes.MODULES:
                try:
                    found[name] = manager.QueryConfiguredModuleOptionString(name) or ""
                except vim.fault.NotFound:
                    continue
        return {"modules": found}

    def kernel(self) -> Answer:
        """Read whether ATS is on, under the name that this release has for it.

        Whether a host answers an unknown name with an empty list or with a failure is unproven, so
        both are taken for "no such setting", but for a failure of all names.
        """
        failures: list[VCenterError] = []
        for name in passes.KERNEL_SETTINGS:
            try:
                rows = parse_records(
                    f"esxcli {_KERNEL_LIST}", self._esxcli.call(_KERNEL_LIST, (("option", name),))
                )
            except (NotOffered, NotPermitted, *LOST):
                raise
            except VCenterError as error:
                self._raise_if_silent(error)
                failures.append(error)
                continue
            found = {
                row["Name"]: KernelSetting(
                    configured=row.get("Configured", ""),
                    runtime=row.get("Runtime", ""),
                    default=row.get("Default", ""),
                )
                for row in rows
                if row.get("Name") == name
            }
            if found:
                return {"kernel": found}
        if len(failures) == len(passes.KERNEL_SETTINGS):
            raise failures[0]
        return {"kernel": {}}

    def software(self) -> Answer:
        """Read the installed VIBs: through the API, or where that is refused through esxcli."""
        try:
            return {"software": self._packages()}
        except (HostSilent, *LOST):
            raise
        except VCenterError as refused:
            try:
                rows = parse_records(f"esxcli {_SOFTWARE_LIST}", self._esxcli.call(_SOFTWARE_LIST))
            except LOST:
                raise
            except ReachError as error:
                self._raise_if_silent(error)
                raise VCenterError(
                    f"{refused.message}; {error.message}", subject=self._name, remedy=refused.remedy
                ) from error
        packages = (
            SoftwarePackage(
                name=row.get("Name", ""), version=row.get("Version", ""), vendor=row.get("Vendor", "")
            )
            for row in rows
        )
        return {"software": tuple(packages)}

    def owners(self) -> Answer:
        """Read which host profiles are attached to the host: their moids, not yet their names."""
        return {"owners": associated_profiles(self._session, vim.HostSystem, self._item.moid, self._name)}

    def licence(self) -> Answer:
        """Read the name of the host's licence; its key is a secret and is not kept."""
        if self._licences is None:
            raise NotOffered("this vCenter does not report licenses", subject=self._name)
        with self._asking("reading the host's license"):
            assigned = self._licences.QueryAssignedLicenses(self._item.moid)
        names = dict.fromkeys(
            entry.assignedLicense.name for entry in assigned or () if entry.entityId == self._item.moid
        )
        return {"licence": ", ".join(names)}

    def _packages(self) -> tuple[SoftwarePackage, ...]:
        manager = self._manager("configManager.imageConfigManager", "installed software")
        with self._asking("reading installed software"):
            packages = manager.FetchSoftwarePackages()
        return tuple(
            SoftwarePackage(name=package.name, version=package.version, vendor=package.vendor or "")
            for package in packages or ()
        )

    def _manager(self, path: str, what: str) -> Any:
        manager = self._item.get(path)
        if manager is None:
            raise NotOffered(f"the host does not provide its {what}", subject=self._name)
        return manager

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        with asking(what, self._name):
            yield

    def _raise_if_silent(self, error: ReachError) -> None:
        if isinstance(error.__cause__, vmodl.MethodFault) and is_host_silent(error.__cause__):
            raise HostSilent(error.message, subject=self._name, remedy=error.remedy) from error


QUESTIONS: Mapping[FactGroup, Callable[[HostQuestions], Answer]] = {
    FactGroup.OPTIONS: HostQuestions.options,
    FactGroup.MODULES: HostQuestions.modules,
    FactGroup.KERNEL: HostQuestions.kernel,
    FactGroup.SOFTWARE: HostQuestions.software,
    FactGroup.OWNERS: HostQuestions.owners,
    FactGroup.LICENCE: HostQuestions.licence,
}
"""How each group is asked, in the order of asking."""


def associated_profiles(session: Session, kind: Any, moid: str, name: str) -> tuple[str, ...]:
    """Return the moids of the host profiles that are attached to a host or a cluster. One round trip."""
    manager = session.service_content.hostProfileManager
    if manager is None:
        raise NotOffered("this vCenter does not report host profiles", subject=name)
    with asking("reading host profiles", name):
        found = manager.FindAssociatedProfile(kind(moid, session.stub))
    return tuple(str(profile._moId) for profile in found or ())


@contextmanager
def asking(what: str, subject: str) -> Iterator[None]:
    """Let faults out of the block as HostSilent, NotOffered, or what `to_error` makes of them."""
    try:
        yield
    except vmodl.MethodFault as fault:
        if is_host_silent(fault):
            raise HostSilent(
                f"{what}: the host is not responding ({fault_name(fault)})",
                subject=subject,
                remedy="check whether the host is connected",
            ) from fault
        if is_not_offered(fault):
            raise NotOffered(
                f"{what}: not available on this vCenter or host ({fault_name(fault)})",
                subject=subject,
                remedy="read it in the host's shell",
            ) from fault
        raise to_error(fault, what, subject) from fault


_LIST = "software sources vib list"


def read_depots(
    session: Session, wanted: Mapping[str, Sequence[str]]
) -> Mapping[str, Mapping[str, DepotLook]]:
    """Return by host (moid) the content of each of its depots, or the error; raises LOST errors.

    `esxcli software sources vib list` lists the VIBs of a depot (ESXi Installation and Setup 7.0) and changes
    nothing. It has the reach of the host: its own datastores, and addresses that its firewall permits.
    """

    def looked(moid: str) -> Mapping[str, DepotLook]:
        esxcli = Esxcli(session, moid)
        return {depot: _look(esxcli, depot) for depot in wanted[moid]}

    return dict(session.each(looked, wanted))


def _look(esxcli: Esxcli, depot: str) -> DepotLook:
    try:
        rows = parse_records(f"esxcli {_LIST}", esxcli.call(_LIST, (("depot", depot),)))
    except LOST:
        raise
    except (NotOffered, NotPermitted, UnreadableOutput) as error:
        return DepotLook(unread=error.message)
    except VCenterError as error:
        return DepotLook(refused=error.message)
    packages = (SoftwarePackage(name=row.get("Name", ""), version=row.get("Version", "")) for row in rows)
    unsigned = (row.get("Name", "") for row in rows if row.get("AcceptanceLevel") == "CommunitySupported")
    return DepotLook(packages=tuple(packages), unsigned=tuple(unsigned))
