"""Which management controller (BMC) switches a host on, as the plan file names it."""

from __future__ import annotations

from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost


def bmc_of(entry: DesiredHosts, host_name: str) -> BmcRef | None:
    """Return the BMC of a host, None where the plan file names none for it."""
    bmc = entry.access.bmc
    address = _of(bmc.addresses, host_name)
    if address is None:
        return None
    return BmcRef(
        address=address,
        user=bmc.user,
        password=bmc.password,
        thumbprint=_of(bmc.thumbprints, host_name),
        system=bmc.system or "",
    )


def check_bmc(resolved: ResolvedHost, *, boots_cold: bool, findings: Findings) -> None:
    """Say of a host that boots cold that its entry names BMCs, and none for it."""
    bmc = resolved.entry.access.bmc
    if not boots_cold or not bmc.addresses or bmc_of(resolved.entry, resolved.name) is not None:
        return
    message = f"a cold boot is planned, and `bmc` names no address for it: {listed(bmc.addresses, shown=4)}"
    remedy = f"write `addresses: {{{resolved.name}: …}}`, or switch it on by hand"
    findings.add(Code.BMC_UNNAMED, resolved.subject, message, remedy)


def _of(by_host: dict[str, str], host_name: str) -> str | None:
    folded = {name.casefold(): value for name, value in by_host.items()}
    return folded.get(host_name.casefold())
