"""Compatibility of the CUDA Toolkit that a guest requests with its driver.

Source: NVIDIA, CUDA Toolkit release notes 13.2, "CUDA Toolkit and Corresponding Driver Versions" (Linux
x86_64, the first driver of each release), and CUDA Compatibility, "Minor Version Compatibility", table 1.

Belief: new-drivers-run-old-cuda.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.guests.modules import CudaModule, DriverModule, branch_of_package
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

LEAST_OF_MAJOR: Mapping[int, int] = {11: 450, 12: 525, 13: 580}
"""By major release the driver branch below which nothing of it runs."""

OWN_DRIVER: Mapping[str, int] = {
    "11.8": 520,
    "12.0": 525,
    "12.1": 530,
    "12.2": 535,
    "12.3": 545,
    "12.4": 550,
    "12.5": 555,
    "12.6": 560,
    "12.8": 570,
    "12.9": 575,
    "13.0": 580,
    "13.1": 590,
    "13.2": 595,
}
"""By release the driver branch that it came with. There is no 12.7."""


def check_cuda(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Compare the toolkit with the guest's driver, or with the newest that its host takes."""
    cuda, driver = update.spec.get(CudaModule), update.spec.get(DriverModule)
    if cuda is None:
        return
    vm, version = resolved.desired, cuda.version
    branch, who = _branch_of(driver)
    least, own = LEAST_OF_MAJOR.get(int(version.partition(".")[0])), OWN_DRIVER.get(version)
    if branch is not None and least is not None and branch < least:
        message = f"CUDA {version} requires driver branch {least} or later, but {who} is {branch}"
        remedy = "use an earlier toolkit release in `guest.cuda`, or a later driver in `guest.driver`"
        findings.refuse_vm(Code.CUDA_DRIVER_OLD, vm, message, remedy)
    elif own is None:
        message = f"the driver that CUDA {version} requires is unknown: the release is not in the catalog"
        remedy = (
            f"check whether the package cuda-toolkit-{version.replace('.', '-')} exists, and which driver "
            "it requires"
        )
        findings.add_vm(Code.CUDA_DRIVER_UNPROVEN, vm, message, remedy)
    elif branch is not None and branch < own:
        message = (
            f"CUDA {version} was released with driver {own}, but {who} is {branch}: code compiled for the "
            "GPU runs, but PTX code from this release does not"
        )
        remedy = f"compile for the GPU's own architecture, or use a release up to {_newest(branch)}"
        findings.add_vm(Code.CUDA_DRIVER_UNPROVEN, vm, message, remedy)


def release_before(version: str) -> str:
    """Return the newest release of an older major one, "" where none is known."""
    major = int(version.partition(".")[0])
    older = [one for one in OWN_DRIVER if int(one.partition(".")[0]) < major]
    return older[-1] if older else ""


def _branch_of(driver: DriverModule | None) -> tuple[int | None, str]:
    """Return the branch that the guest's driver has at best, and what that is; None if it is not known."""
    if driver is None:
        return None, ""
    named = branch_of_package(driver.package)
    if named:
        return int(named), "the guest's driver"
    taken = [int(one) for one in driver.branches if one.isdecimal()]
    return (max(taken), "the newest branch that its host supports") if taken else (None, "")


def _newest(branch: int) -> str:
    """Return the newest release whose own driver is no newer than a branch."""
    return [version for version, own in OWN_DRIVER.items() if own <= branch][-1]
