"""In which phase of a run a request is sent, by its name."""

from __future__ import annotations

import re

PHASES = {
    "login and reading": (
        r"Login|Logout|Retrieve\w*|GET /sdk/.*|CreateContainerView|CreatePropertyCollector|CreateFilter|"
        r"DestroyView|DestroyPropertyCollector|DestroyFilter|Query\w+|Find\w+|HasPrivilege\w+|Fetch\w*|fetch\w+|CreateCollectorForEvents|ReadNextEvents|"
        r"DestroyCollector|GetAlarm|CurrentTime|DestroyPropertyFilter"
    ),
    "locks and alarms": r"CreateAlarm|ReconfigureAlarm|RemoveAlarm",
    "entry of the run in vCenter's events": r"LogUserEvent",
    "making VMs": r"CloneVM_Task|CreateVM_Task|CreateFolder",
    "changing VMs": (
        r"ReconfigVM_Task|UpgradeVM_Task|RelocateVM_Task|ReconfigureComputeResource_Task|Rename_Task|"
        r"MoveIntoFolder_Task"
    ),
    "switching VMs on and off": r"PowerO(n|ff)VM_Task|ShutdownGuest",
    "deleting VMs": r"Destroy_Task|UnregisterVM",
    "waiting for tasks and hosts": r"WaitForUpdatesEx|(Create|Modify)ListView",
    "commands in a guest's shell": r"guest\$ .*",
    "marks on hosts": r"SetField|AddCustomFieldDef",
    "maintenance mode and reboots": r"(Enter|Exit)MaintenanceMode_Task|RebootHost_Task|ShutdownHost_Task",
    "settings of hosts": r"Update\w+|\w+DVPortgroup_Task|\w+Dvs\w*_Task|Enable\w+|esxcli .*",
    "the SSH service": r"(Start|Stop)Service",
    "commands in a host's shell": r"\$ .*",
}
"""Each phase, and the names of the requests that are sent in it."""


def phase_of(request: str) -> str:
    """Return the phase of a request. Raises ValueError for one that no phase names."""
    for phase, names in PHASES.items():
        if re.fullmatch(names, request, re.DOTALL):
            return phase
    raise ValueError(f"in which phase is {request!r} sent? tests/faults/harness/phases.py does not say")
