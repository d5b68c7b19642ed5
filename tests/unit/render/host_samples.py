"""Plans that prepare hosts, as the render tests show them: one reboot, a cold boot by hand, only checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.render import samples
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    RemediateHost,
    RestartService,
    SetClusterOption,
    SetImage,
    SetVCenterOption,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    PassthroughDevice,
    PassthroughWrite,
    ShellWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, HostRef, Impact, SettingTarget, Subject, VmRef
from vgpu_cfg.model.observed.gpu_use import GraphicsType

NIC = "0000:3c:00.0"
RIGHT = (
    SettingTarget(setting="assignment_policy", value="performance"),
    SettingTarget(setting="ecc", device=samples.GPUS[0], value="on"),
    SettingTarget(setting="scheduler", device=samples.GPUS[0], value="best_effort"),
)
GRAPHICS = SettingTarget(setting="graphics_type", value="sharedDirect", before="shared")
ATS = SettingTarget(setting="ats", value="TRUE", before="FALSE")
PASSED = SettingTarget(setting="nic_passthrough", device=NIC, value="passthrough", before="host")
FIRMWARE = SettingTarget(setting="nic_firmware", device=f"{NIC} ATS_ENABLED", value="True", before="False")
TITLES = {
    "graphics_type": "graphics type",
    "ats": "kernel atsSupport",
    "nic_passthrough": "NIC passthrough",
    "nic_firmware": "NIC firmware",
    "mig": "MIG mode",
    "bios_sriov": "SR-IOV in the BIOS",
}
WRITES: dict[str, HostWrite] = {
    "graphics_type": GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT),
    "ats": EsxcliWrite(
        command="system.settings.kernel.set", arguments=(("setting", "atsSupport"), ("value", "TRUE"))
    ),
    "nic_passthrough": PassthroughWrite(devices=(PassthroughDevice(pci_id=NIC, is_passthrough=True),)),
    "nic_firmware": ShellWrite(
        commands=(("/opt/mellanox/bin/mlxconfig", "-d", NIC, "-y", "set", "ATS_ENABLED=1"),)
    ),
    "mig": ShellWrite(commands=(("nvidia-smi", "-i", samples.GPUS[0], "-mig", "1"),)),
}


def ref(name: str) -> HostRef:
    return HostRef(name=name, moid=f"host-{name}")


def host_subject(name: str) -> Subject:
    return Subject(kind="host", name=name, moid=ref(name).moid)


def common(name: str) -> dict[str, Any]:
    return {
        "subject": host_subject(name),
        "host": ref(name),
        "host_moid": ref(name).moid,
        "wave": "domain-1",
    }


def enter(name: str, *moved: str, **fields: Any) -> EnterMaintenance:
    made: dict[str, Any] = {"reason": "sets graphics type, kernel atsSupport, NIC passthrough"}
    return EnterMaintenance(
        id=f"enter maintenance {name}",
        evacuates=moved,
        impact=Impact.HOST_MAINTENANCE,
        **(made | common(name) | fields),
    )


def edit_of(target: SettingTarget, **fields: Any) -> Edit:
    key = f"{TITLES.get(target.setting, target.setting)} {target.device}".rstrip()
    before = target.before if target.before != target.value else None
    return Edit(key=key, before=before, after=target.value, **fields)


def write(
    name: str, *targets: SettingTarget, impact: Impact = Impact.HOST_REBOOT, **fields: Any
) -> ChangeHost:
    made: dict[str, Any] = {
        "id": f"set {targets[0].id} on {name}",
        "write": WRITES.get(targets[0].setting, GraphicsWrite()),
        "settings": targets,
        "edits": tuple(edit_of(target) for target in targets),
    }
    return ChangeHost(impact=impact, **(made | common(name) | fields))


def reboot(name: str, *settles: SettingTarget) -> RebootHost:
    return RebootHost(id=f"reboot {name}", settles=settles, impact=Impact.HOST_REBOOT, **common(name))


def leave(name: str, *settles: SettingTarget, **fields: Any) -> ExitMaintenance:
    return ExitMaintenance(id=f"leave maintenance {name}", settles=settles, **(common(name) | fields))


def chained(*changes: Change, first: Sequence[str] = ()) -> tuple[Change, ...]:
    """Let each change need the one before it."""
    last = tuple(first)
    found = []
    for change in changes:
        found.append(change.model_copy(update={"needs": tuple(dict.fromkeys((*last, *change.needs)))}))
        last = (change.id,)
    return tuple(found)


def one_reboot(name: str, *moved: str, first: Sequence[str] = (), **fields: Any) -> tuple[Change, ...]:
    """Take one host from out of the box to ready with one reboot."""
    return chained(
        enter(name, *moved, **fields),
        write(name, GRAPHICS, edits=(edit_of(GRAPHICS, is_default=True, note="required by the VMs"),)),
        write(name, ATS),
        write(name, PASSED),
        reboot(name, GRAPHICS, ATS, PASSED),
        leave(name, GRAPHICS, ATS, PASSED, *RIGHT),
        first=first,
    )


def cold_boot_step(name: str) -> ManualStep:
    return ManualStep(
        id=f"cold boot {name}",
        subject=host_subject(name),
        text=(
            f"power {name} on manually; during startup, in its BIOS: Integrated Devices > "
            "SR-IOV Global Enable"
        ),
        proof="esxcli hardware pci list; nvidia-smi -q: Host VGPU Mode : SR-IOV",
        proves=(FIRMWARE, PASSED),
        impact=Impact.HOST_COLD_BOOT,
        host_moid=ref(name).moid,
    )


def by_hand_step(name: str) -> ManualStep:
    target = SettingTarget(setting="bios_sriov", value="on", before="off")
    return ManualStep(
        id=f"by hand {name}: bios_sriov",
        subject=host_subject(name),
        text=f"in the BIOS of {name}: Integrated Devices > SR-IOV Global Enable = Enabled",
        commands=("nvidia-smi -q | grep -i 'host vgpu mode'", "esxcli hardware pci list"),
        edits=(edit_of(target, note="this A100 needs virtual functions"),),
        impact=Impact.HOST_REBOOT,
        host_moid=ref(name).moid,
    )


def cold_boot(name: str, *moved: str, first: Sequence[str] = ()) -> tuple[Change, ...]:
    """Set a NIC's firmware before passthrough hides it; only switching the power off and on loads it."""
    return chained(
        enter(name, *moved),
        write(name, FIRMWARE, impact=Impact.HOST_COLD_BOOT),
        write(name, PASSED),
        ShutDownHost(id=f"shut down {name}", impact=Impact.HOST_COLD_BOOT, **common(name)),
        cold_boot_step(name),
        leave(name, FIRMWARE, PASSED, *RIGHT[:1]),
        first=first,
    )


def by_its_bmc(name: str) -> ColdBootHost:
    """A cold boot without a hand."""
    bmc = BmcRef(address=f"bmc-{name}", user="operator", password="bmc")
    return ColdBootHost(
        id=f"cold boot {name}", bmc=bmc, settles=(FIRMWARE,), impact=Impact.HOST_COLD_BOOT, **common(name)
    )


def by_image(name: str) -> tuple[Change, ...]:
    """A driver that comes with the image of the host's cluster."""
    component = Edit(key="NVD-AIE_ESXi_8.0.0_Driver", before="570.158.02", after="580.95.02")
    edited = SetImage(
        id="set image of gpu",
        subject=Subject(kind="cluster", name="gpu", moid="domain-1"),
        edits=(component,),
        cluster_moid="domain-1",
        components={component.key: "580.95.02"},
        hosts=(ref(name).moid,),
        message="vgpu-cfg: plan horovod-a100",
        leaves=("esx-09",),
    )
    remediated = RemediateHost(
        id=f"remediate {name}",
        cluster_moid="domain-1",
        cluster_name="gpu",
        settles=(SettingTarget(setting="driver", value="nvd-aie 580.95.02", before="nvd-aie 570.158.02"),),
        also=("tools: 12.3 -> 12.4",),
        compliance="non-compliant, reboot required",
        edits=(Edit(key="NVIDIA host driver", before="nvd-aie 570.158.02", after="nvd-aie 580.95.02"),),
        impact=Impact.HOST_REBOOT,
        **common(name),
    )
    return chained(edited, enter(name), remediated, leave(name))


def two_with_one_reboot() -> Plan:
    """Two hosts alike, one after the other, each with one reboot."""
    return samples.plan_of(
        *one_reboot("esx-01", "jump-01", "ntp-02", "wiki-01"),
        *one_reboot("esx-02", "syslog-03"),
        hosts_in_sync=("esx-03", "esx-04"),
        untouched_hosts=12,
    )


def with_cold_boot() -> Plan:
    """A cold boot by hand, a step that nothing proves, a plan's own VM switched off, and a window."""
    off = PowerOffVm(
        id="power off hvd-03",
        subject=samples.vm_subject("hvd-03"),
        vm=VmRef(name="hvd-03", moid="vm-13"),
        impact=Impact.POWER_CYCLE,
        host_moid=ref("esx-02").moid,
    )
    back = PowerOnVm(
        id="power on hvd-03",
        subject=samples.vm_subject("hvd-03"),
        vm=off.vm,
        needs=("leave maintenance esx-02",),
        host_moid=ref("esx-02").moid,
    )
    return samples.plan_of(
        by_hand_step("esx-01"),
        *one_reboot("esx-01", first=("by hand esx-01: bios_sriov",), window="Sat 22:00-04:00 Europe/Berlin"),
        off,
        *cold_boot("esx-02", "syslog-03", first=(off.id,)),
        back,
    )


def many_hosts(count: int) -> Plan:
    """Many hosts alike but for who is moved away, two at a time; some were configured otherwise."""
    changes: list[Change] = []
    for number in range(1, count + 1):
        chain = one_reboot(f"esx-{number:02}", f"app-{number:02}", max_down=2)
        if number % 5 == 0:
            other = GRAPHICS.model_copy(update={"before": "basic"})
            chain = (chain[0], write(f"esx-{number:02}", other), *chain[2:])
        changes += chain
    return samples.plan_of(*changes)


def everything() -> Plan:
    """Options, networks, a service restart without maintenance mode, a host that others hold."""
    mig = SettingTarget(setting="mig", device=samples.GPUS[0], value="on", before="off")
    dvs = Subject(kind="network", name="dvs-roce")
    return samples.plan_of(
        SetVCenterOption(
            id="set vgpu.hotmigrate.enabled on vc01",
            subject=Subject(kind="plan", name="horovod-a100"),
            edits=(Edit(key="vgpu.hotmigrate.enabled", before="false", after="true"),),
            option="vgpu.hotmigrate.enabled",
            value=True,
        ),
        SetClusterOption(
            id="set VgpuMMAutomationTimeoutSecs on gpu",
            subject=Subject(kind="cluster", name="gpu", moid="domain-1"),
            edits=(Edit(key="VgpuMMAutomationTimeoutSecs", after="-1"),),
            cluster_moid="domain-1",
            option="VgpuMMAutomationTimeoutSecs",
            value="-1",
        ),
        ChangeNetwork(
            id="make switch dvs-roce",
            subject=dvs,
            edits=(Edit(key="switch", after="dvs-roce"), Edit(key="MTU", after="9000")),
            network=MakeSwitch(datacenter_moid="datacenter-1", name="dvs-roce", mtu=9000),
        ),
        ChangeNetwork(
            id="switch dvs-roce",
            subject=dvs,
            needs=("make switch dvs-roce",),
            edits=(Edit(key="esx-05", after="vmnic4"),),
            network=EditSwitch(switch_name="dvs-roce", members={ref("esx-05").moid: ("vmnic4",)}),
        ),
        ChangeNetwork(
            id="network roce 111",
            subject=Subject(kind="network", name="roce 111"),
            needs=("switch dvs-roce",),
            edits=(Edit(key="portgroup", after="roce 111 on dvs-roce"), Edit(key="VLAN", after="111")),
            network=SetPortgroup(switch_name="dvs-roce", name="roce 111", vlan=111),
        ),
        *chained(
            write("esx-05", GRAPHICS, impact=Impact.SERVICE_RESTART),
            RestartService(
                id="restart xorg esx-05",
                service="xorg",
                settles=(GRAPHICS,),
                impact=Impact.SERVICE_RESTART,
                **common("esx-05"),
            ),
        ),
        *chained(
            enter("esx-06", is_held=True),
            write("esx-06", mig),
            reboot("esx-06", mig),
            write(
                "esx-06",
                mig,
                impact=Impact.NONE,
                id="set mig on esx-06 after restart 1",
                edits=(edit_of(mig, note="set again because a reboot resets it"),),
            ),
            leave("esx-06", mig, is_held=True),
        ),
    )


def vms_after_hosts() -> Plan:
    """New VMs that wait until their hosts are ready."""
    hosts = (*one_reboot("esx-01", "jump-01"), *cold_boot("esx-02"))
    made: list[Change] = []
    for number, host in ((1, "esx-01"), (2, "esx-02")):
        created = samples.new_vm(number, host=host, needs=(f"leave maintenance {host}",))
        made += [created, samples.switch_on(number, host=host)]
    return samples.plan_of(
        *hosts,
        *made,
        placements=tuple(
            samples.placement(number, host=host) for number, host in ((1, "esx-01"), (2, "esx-02"))
        ),
    )


def finding(code: str, name: str, message: str, remedy: str = "") -> Diagnostic:
    return Diagnostic(
        code=code,
        severity=Severity.WARNING,
        subject=host_subject(name),
        message=message,
        remedy=remedy,
    )


def checked_only() -> Plan:
    """Two hosts with `mode: check`: one right, one that differs."""
    remedy = "to change it, set `mode: enforce` in the entry"
    return samples.plan_of(
        hosts_in_sync=("esx-01",),
        diagnostics=(
            finding("VG508", "esx-02", "graphics type is shared, but the plan requires sharedDirect", remedy),
            finding("VG508", "esx-02", "kernel atsSupport is FALSE, but the plan requires TRUE", remedy),
        ),
    )


def left_standing() -> Plan:
    """A host that an earlier run left in maintenance mode, with what is still to do."""
    since = "in maintenance mode for plan horovod-a100 since 2026-03-02 20:11: ats waits for a cold boot"
    return samples.plan_of(
        *chained(enter("esx-02"), write("esx-02", ATS), reboot("esx-02", ATS), leave("esx-02", ATS)),
        hosts_in_sync=("esx-01",),
        diagnostics=(finding("VG531", "esx-02", since, "apply continues from here"),),
    )
