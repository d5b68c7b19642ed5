"""The contents of depots, as each host that would install from them sees them; nothing is changed.

`esxcli software sources vib list` lists the VIBs of a depot (ESXi Installation and Setup 7.0). It reaches the
same as the host: its own datastores, and addresses that its firewall lets it open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.errors import NotOffered, NotPermitted, VCenterError
from vgpu_cfg.model.observed.host_facts import DepotLook, SoftwarePackage
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.vsphere.host_facts.questions import LOST
from vgpu_cfg.vsphere.wire.esxcli import Esxcli
from vgpu_cfg.vsphere.wire.session import Session

_LIST = "software sources vib list"


def read_depots(
    session: Session, wanted: Mapping[str, Sequence[str]]
) -> Mapping[str, Mapping[str, DepotLook]]:
    """Return by host (moid) the content of each of its depots, or the error; raises LOST errors."""

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
