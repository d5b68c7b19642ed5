"""What only a check can say of hosts: drivers that differ, owners, maintenance by others, NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.plan.change import Severity, Subject
from vgpu_cfg.model.plan_words import Disruption, NicUse
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.wording import listed
from vgpu_cfg.planning.host_settings.case import Gap, HostCase
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts
from vgpu_cfg.planning.host_settings.match import nic_rules
from vgpu_cfg.planning.host_settings.select import clusters_of
from vgpu_cfg.planning.hosts.stretches import Stretches
from vgpu_cfg.planning.hosts.window import parse_window


def check_reachable(case: HostCase, plan: str, findings: Findings) -> bool:
    """Whether the host answers; one that this plan took down comes back by itself, or waits for a hand."""
    host, mark = case.view.host, case.view.facts.mark
    if host.connection is Connection.CONNECTED:
        return True
    case.is_blocked = True
    if mark is not None and mark.maintenance and mark.plan == plan:
        if mark.restart == "reboot":
            message = "it reboots for this plan, and comes back by itself"
            findings.add(Code.HOST_SILENT, case.subject, message, "apply waits for it", Severity.WARNING)
        return False
    if mark is not None and mark.maintenance:
        message = f"it is {host.connection.value}, and was taken down by the plan {mark.plan}"
        findings.add(Code.HOST_SILENT, case.subject, message, f"let {mark.plan} come to its end first")
        return False
    message = f"it is {host.connection.value}, so nothing is known of it"
    findings.add(Code.HOST_SILENT, case.subject, message, "bring it back, then plan again")
    return False


def check_owners(case: HostCase, findings: Findings) -> None:
    """Refuse to write what a host profile or a configuration profile would write back."""
    owners = list(case.view.facts.owners)
    if case.view.cluster_facts.config_managed and case.view.cluster is not None:
        owners.append(f"the configuration profile of cluster {case.view.cluster.name}")
    if not owners or not case.gaps or case.is_checked_only:
        return
    message = f"{listed(owners)} owns its settings; what is set here would not stay"
    remedy = "set it there, or give this entry `mode: check`"
    findings.add(Code.SETTING_OWNED, case.subject, message, remedy)
    case.is_blocked = True


def check_driver_owner(case: HostCase, gaps: Iterable[Gap], findings: Findings) -> None:
    """Refuse to install a driver by esxcli on hosts whose cluster is managed by an image."""
    driver = case.entry.driver
    if driver is None or driver.by != "esxcli" or not case.view.cluster_facts.image_managed:
        return
    if any(gap.setting.key == "driver" for gap in gaps) and case.view.cluster is not None:
        message = (
            f"the image of cluster {case.view.cluster.name} owns its software, so esxcli must not install"
        )
        remedy = "add the driver's component to the image and remediate; here `driver: {by: lifecycle}`"
        findings.add(Code.SETTING_OWNED, case.subject, message, remedy)
        case.is_blocked = True


def check_other_plan(case: HostCase, plan: str, findings: Findings) -> None:
    """Refuse to work on a host that another plan's mark is on: it works there, or broke off there."""
    mark = case.view.facts.mark
    if mark is None or mark.plan == plan or not case.gaps:
        return
    message = f"the plan {mark.plan} is at work there since {mark.since:%Y-%m-%d %H:%M}"
    message = f"{message}: {mark.reason}" if mark.reason else message
    remedy = f"let {mark.plan} come to its end: `vgpu-cfg apply` of it goes on where it broke off"
    findings.add(Code.OTHERS_MAINTENANCE, case.subject, message, remedy, Severity.ERROR)
    case.is_blocked = True


def check_maintenance(case: HostCase, findings: Findings) -> bool:
    """Whether somebody else holds the host in maintenance mode; it is prepared there and left there."""
    mark = case.view.facts.mark
    if not case.view.host.is_in_maintenance_mode or (mark is not None and mark.maintenance):
        return False
    if case.gaps and not case.is_checked_only:
        message = "it is in maintenance mode, and not by this tool: it is prepared and left in it"
        findings.add(Code.OTHERS_MAINTENANCE, case.subject, message, "take it out when the plan is done")
    return True


def check_disruption(case: HostCase, stretches: Stretches, findings: Findings) -> bool:
    """Whether the plan file allows what preparing the host takes."""
    allowed = case.entry.disruption.allow
    needed = []
    if stretches.needs_empty_host:
        needed.append(Disruption.MAINTENANCE)
    if stretches.restarts > sum(stretches.cold):
        needed.append(Disruption.REBOOT)
    if any(stretches.cold):
        needed.append(Disruption.COLD_BOOT)
    lacking = [one for one in needed if one not in allowed]
    if not lacking:
        return True
    reasons = listed(
        dict.fromkeys(
            gap.setting.title for gap in stretches.everything if gap.impact.value.startswith("host")
        ),
        shown=6,
    )
    words = " and ".join(one.value.replace("_", " ") for one in lacking)
    message = f"it takes {words} ({reasons}), which `disruption.allow` does not name"
    findings.add(Code.DISRUPTION_NOT_ALLOWED, case.subject, message, "allow it, or leave these settings out")
    return False


def check_taken_back(case: HostCase, findings: Findings) -> None:
    """Warn where a device is taken back from VMs, and what some VM of the host holds was not read."""
    unread = case.view.holders.get("", ())
    for gap in case.gaps if unread else ():
        now = case.view.device(gap.wish.device)
        then = gap.setting.show(case.view.host, gap.wish).device(gap.wish.device)
        if now is None or then is None or then.passthrough_enabled:
            continue
        if now.passthrough_enabled or now.passthrough_active:
            names = listed(unread, shown=6)
            message = f"{gap.wish.id}: whether {names} needs the device was not read, and it is taken back"
            findings.add(Code.HOLDER_UNKNOWN, case.subject, message, "see that the account may read the VM")


def check_window(cases: Sequence[HostCase], observed: Inventory, findings: Findings) -> None:
    """Say that no host will be taken down now; apply refuses then."""
    for text in dict.fromkeys(case.entry.disruption.window for case in cases):
        if not text or parse_window(text).is_open(observed.read_at):
            continue
        concerned = [case for case in cases if case.entry.disruption.window == text]
        message = f"the window is {text}: no host is taken down now"
        subject = Subject(kind="host", name=listed(case.name for case in concerned))
        findings.add(Code.OUTSIDE_WINDOW, subject, message, "apply within the window")


def check_drivers(cases: Sequence[HostCase], findings: Findings) -> None:
    """Compare the host drivers within each cluster, and see that the GPU management daemon is there."""
    for group in clusters_of(cases).values():
        versions: dict[str, list[str]] = {}
        for case in group:
            if FactGroup.SOFTWARE not in case.view.facts.groups or not case.view.host.gpus:
                continue
            facts = driver_facts(case.view.facts.software)
            if facts.kind is None:
                continue
            # What follows the first dash says for which ESXi the VIB was built.
            version = (facts.version or "").partition("-")[0]
            versions.setdefault(f"{facts.kind} {version}", []).append(case.name)
            if not facts.daemon:
                message = "the GPU management daemon is not installed, so there are no device groups"
                remedy = "install the component nvd-gpu-mgmt-daemon of the same release"
                findings.add(Code.GPU_DAEMON_ABSENT, case.subject, message, remedy)
        if len(versions) > 1 and group[0].view.cluster is not None:
            told = "; ".join(f"{version} on {listed(names)}" for version, names in sorted(versions.items()))
            subject = Subject(kind="cluster", name=group[0].view.cluster.name)
            remedy = "bring all hosts to one version: vGPU VMs move only between equal ones"
            findings.add(Code.DRIVERS_DIFFER, subject, told, remedy)


def check_nodes(case: HostCase, findings: Findings) -> None:
    """Warn of a NIC to be handed to VMs that shares no NUMA node with any GPU."""
    nodes = {gpu.numa_node for gpu in case.view.host.gpus if gpu.numa_node is not None}
    if not nodes:
        return
    for nic, rule in nic_rules(case.entry, case.view):
        if rule.use not in (NicUse.PASSTHROUGH, NicUse.SRIOV) or nic.numa_node is None:
            continue
        if nic.numa_node not in nodes:
            where = ", ".join(str(node) for node in sorted(nodes))
            name = nic.device or nic.pci_id
            message = f"{name} is on NUMA node {nic.numa_node}, the GPUs on {where}"
            remedy = "use a NIC on a GPU's node, or move the card to another slot"
            findings.add(Code.GPU_NIC_APART, case.subject, message, remedy)


def check_standing(case: HostCase, plan: str, findings: Findings) -> None:
    """Tell of a host that stands in maintenance mode for this plan, and why."""
    host, mark = case.view.host, case.view.facts.mark
    if mark is None or mark.plan != plan:
        return
    if mark.opened_ssh and case.view.facts.is_ssh_running:
        message = f"its SSH service was started for this plan at {mark.since:%Y-%m-%d %H:%M}, and still runs"
        remedy = "apply stops it"
        findings.add(Code.SHELL_LEFT_OPEN, case.subject, message, remedy)
    if not mark.maintenance:
        return
    if host.connection is Connection.CONNECTED and not host.is_in_maintenance_mode:
        return  # somebody has taken it out; only the mark is left
    since = f"{mark.since:%Y-%m-%d %H:%M}"
    message = f"in maintenance mode for plan {mark.plan} since {since}: {mark.reason or 'no reason was kept'}"
    findings.add(Code.STANDS_WAITING, case.subject, message, "apply goes on from here")
