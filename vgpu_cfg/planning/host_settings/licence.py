"""The licence of a host, known by its name alone, since neither plan nor reading ever holds a key.

The plan file names the secret that holds the key, and the plan knows no more than that name; vCenter reports
the license by its name. So any license on a host is right but the one of the first 60 days, and the key is
fetched only when it is assigned. A host with a license under another key is left alone: a changed key must be
assigned manually. An empty name removes the license, which is a manual step: the API only puts another one in
its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.kinds.change_host import LicenceWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading

KEY = "licence"

NONE = "none"
_EVALUATION = "evaluation"
"""Part of the name that vCenter gives to the licence of the first 60 days ("Evaluation Mode")."""


def _desired_settings(entry: DesiredHosts, _view: HostView) -> Iterator[DesiredSetting]:
    if entry.licence is not None:
        yield DesiredSetting(KEY, f"from secret {entry.licence}" if entry.licence else NONE)


def _read(view: HostView, _device: str) -> Reading:
    facts = view.facts
    if FactGroup.LICENCE not in facts.groups:
        return Reading(unread=facts.unread.get(FactGroup.LICENCE, "the host's license was not read"))
    return Reading(configured=facts.licence or NONE)


def is_evaluation(name: str) -> bool:
    """Whether a license is the one of the first 60 days."""
    return _EVALUATION in name.casefold()


def _is_licensed(wanted: str, found: str) -> bool:
    """Whether a host's licence is one that was assigned to it, as is wanted; which one is not compared."""
    is_assigned = found != NONE and not is_evaluation(found)
    return is_assigned == (wanted != NONE)


def _secret(desired: DesiredSetting) -> str:
    return desired.value.removeprefix("from secret ")


def _by_hand(view: HostView, desired: DesiredSetting) -> str:
    """Describe its assignment if it is known to be missing: an unread one is no step."""
    if _read(view, "").unread:
        return ""
    licence = (
        "another license, or the evaluation license"
        if desired.value == NONE
        else f"the license {desired.value}"
    )
    return f"in the vSphere Client, under Administration > Licenses, assign {licence}"


def _how(_view: HostView, desired: DesiredSetting) -> Instructions:
    return Instructions(
        why=(
            "Distributed switches, vGPU and DRS require specific licenses; the evaluation ends after 60 days."
        ),
        client="Administration > Licenses > Assets > Hosts > {host} > Assign License",
        commands=()
        if desired.value == NONE
        else (f"govc license.assign -host {{host}} <the key in the secret {_secret(desired)}>",),
        expected="the license's name and usage",
        verify=("govc license.assigned.ls",),
        undo=("in the vSphere Client, assign the previous license: {before}",),
    )


LICENCE = HostSetting(
    key=KEY,
    title="licence",
    source=(
        "vSphere API, LicenseAssignmentManager.UpdateAssignedLicense; the name of the evaluation license is "
        "from memory"
    ),
    desired_settings=_desired_settings,
    read=_read,
    write=lambda _view, desired_settings: [
        LicenceWrite(secret=_secret(desired)) for desired in desired_settings if desired.value != NONE
    ],
    impact=lambda _view, _desired: Impact.NONE,
    how=_how,
    group=KEY,
    in_file="a license key is a secret",
    remembered=None,
    facts=frozenset({FactGroup.LICENCE}),
    same=_is_licensed,
    by_hand=_by_hand,
    is_tried_first=True,
    stays=lambda before: f"the previous license's key ({before}) is unknown",
)
