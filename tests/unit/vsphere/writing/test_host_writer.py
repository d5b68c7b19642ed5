"""Which calls each write to a host makes, how many round trips, and what becomes of refusals."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.vsphere.scripted import content, item, no_method, reading, session_on, typed
from vgpu_cfg.changes.change import EnterMaintenance, SetClusterOption, SetVCenterOption
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughDevice,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
)
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, StalePlan, VCenterError, VersionTooOld
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.vsphere.writing.host_writer import VSAN_ACTIONS, VCenterHostWriter

HOST = vim.HostSystem("host-1")
MANAGERS: dict[str, Any] = {
    "advancedOption": vim.option.OptionManager,
    "firewallSystem": vim.host.FirewallSystem,
    "graphicsManager": vim.host.GraphicsManager,
    "kernelModuleSystem": vim.host.KernelModuleSystem,
    "networkSystem": vim.host.NetworkSystem,
    "pciPassthruSystem": vim.host.PciPassthruSystem,
    "serviceSystem": vim.host.ServiceSystem,
}
"""Properties of vim `HostConfigManager` that the writer uses, and their types."""
GPU = "0000:af:00.0"
TASK = vim.Task("task-7")
GRAPHICS = vim.host.GraphicsConfig(
    hostDefaultGraphicsType="shared", sharedPassthruAssignmentPolicy="performance"
)
PCI = typed(
    "vim.host.PciPassthruInfo",
    vim.host.PciPassthruInfo(
        id=GPU, dependentDevice=GPU, passthruEnabled=False, passthruCapable=True, passthruActive=False
    ),
)
MODE = GraphicsWrite(vgpu_modes={GPU: VgpuMode.MIXED_SIZE})
LABEL = PassthroughWrite(devices=(PassthroughDevice(pci_id=GPU, label="roce"),))


def host(version: str | None = "8.0.3.0", *, managers: bool = True) -> Any:
    """Make what is read of a host that has everything, or nothing but its name."""
    properties: dict[str, Any] = {"name": "esx-01"}
    if version is not None:
        properties["config.product.apiVersion"] = version
    if managers:
        properties |= {f"configManager.{name}": kind(f"{name}-1") for name, kind in MANAGERS.items()}
        properties |= {"config.graphicsConfig": GRAPHICS, "config.pciPassthruInfo": PCI}
    return reading(item(HOST, properties))


WRITES: list[tuple[HostWrite, str, tuple[str, ...]]] = [
    (
        GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT),
        "UpdateGraphicsConfig",
        ("<hostDefaultGraphicsType>sharedDirect<", 'type="HostGraphicsManager">graphicsManager-1<'),
    ),
    (MODE, "UpdateGraphicsConfig", ("<vgpuMode>mixedSize<",)),
    (LABEL, "UpdatePassthruConfig", ("<hardwareLabel>roce<", "<passthruEnabled>false<")),
    (
        OptionWrite(options={"VMkernel.Boot.atsSupport": True, "Net.PVRDMAVmknic": "vmk1"}),
        "UpdateOptions",
        ('<value xsi:type="xsd:boolean">true<', '<value xsi:type="xsd:string">vmk1<'),
    ),
    (RulesetWrite(ruleset="pvrdma", is_enabled=True), "EnableRuleset", ("<id>pvrdma<",)),
    (RulesetWrite(ruleset="pvrdma", is_enabled=False), "DisableRuleset", ("<id>pvrdma<",)),
]


@pytest.mark.parametrize(("write", "method", "words"), WRITES, ids=lambda value: getattr(value, "kind", None))
def test_a_write_reads_the_host_and_makes_one_call(
    write: HostWrite, method: str, words: tuple[str, ...]
) -> None:
    with session_on({"RetrievePropertiesEx": host(), method: None}) as (session, vcenter):
        before = session.round_trips
        assert VCenterHostWriter(session).write_host("host-1", write, {}) is None
        assert session.round_trips - before == 2
        assert vcenter.methods == ["RetrievePropertiesEx", method]
        for word in words:
            assert word in vcenter.sent(method)


@pytest.mark.parametrize(("write", "method", "words"), WRITES, ids=lambda value: getattr(value, "kind", None))
def test_what_the_host_lacks_is_not_offered(write: HostWrite, method: str, words: tuple[str, ...]) -> None:
    gone = vmodl.fault.ManagedObjectNotFound(obj=vim.host.GraphicsManager("graphicsManager-1"))
    for fault in (gone, no_method(method), vmodl.fault.NotSupported()):
        with session_on({"RetrievePropertiesEx": host(), method: fault}) as (session, _):
            with pytest.raises(NotOffered) as caught:
                VCenterHostWriter(session).write_host("host-1", write, {})
            assert caught.value.subject == "esx-01"
            assert caught.value.remedy
    bare = {"RetrievePropertiesEx": host(managers=False)}
    with session_on(bare) as (session, vcenter), pytest.raises(NotOffered):
        VCenterHostWriter(session).write_host("host-1", write, {})
    assert vcenter.methods == ["RetrievePropertiesEx"]


@pytest.mark.parametrize(("write", "method", "words"), WRITES, ids=lambda value: getattr(value, "kind", None))
def test_a_refusal_is_no_absence(write: HostWrite, method: str, words: tuple[str, ...]) -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Host.Config.Settings")
    with (
        session_on({"RetrievePropertiesEx": host(), method: lacks}) as (session, _),
        pytest.raises(NotPermitted, match=r"Host\.Config\.Settings"),
    ):
        VCenterHostWriter(session).write_host("host-1", write, {})
    failed = vim.fault.HostConfigFault(msg="It did not work.")
    with session_on({"RetrievePropertiesEx": host(), method: failed}) as (session, _):
        with pytest.raises(VCenterError, match="It did not work") as caught:
            VCenterHostWriter(session).write_host("host-1", write, {})
        assert type(caught.value) is VCenterError


@pytest.mark.parametrize(
    ("write", "method", "fault"),
    [
        (OptionWrite(options={"No.such": True}), "UpdateOptions", vim.fault.InvalidName(name="No.such")),
        (ModuleWrite(module="nosuch", options=""), "UpdateModuleOptionString", vim.fault.NotFound()),
        (RulesetWrite(ruleset="nosuch", is_enabled=True), "EnableRuleset", vim.fault.NotFound()),
    ],
)
def test_an_unknown_name_is_not_offered(write: HostWrite, method: str, fault: Any) -> None:
    with (
        session_on({"RetrievePropertiesEx": host(), method: fault}) as (session, _),
        pytest.raises(NotOffered, match=r"[Nn]o.?such"),
    ):
        VCenterHostWriter(session).write_host("host-1", write, {})


def test_a_host_that_has_gone_is_said_so() -> None:
    with session_on({"RetrievePropertiesEx": reading()}) as (session, _), pytest.raises(NotFound):
        VCenterHostWriter(session).write_host("host-1", MODE, {})


def test_what_may_not_be_read_is_no_absence() -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="System.Read")
    told = {"name": "esx-01", "config.product.apiVersion": "8.0.3.0"}
    hidden = reading(item(HOST, {**told, "config.graphicsConfig": lacks}))
    with (
        session_on({"RetrievePropertiesEx": hidden}) as (session, _),
        pytest.raises(NotPermitted, match=r"System\.Read"),
    ):
        VCenterHostWriter(session).write_host("host-1", MODE, {})


@pytest.mark.parametrize(("write", "since"), [(MODE, "8.0.3.0"), (LABEL, "7.0.2.0")])
def test_what_would_be_dropped_on_the_way_is_refused(write: HostWrite, since: str) -> None:
    method = "UpdateGraphicsConfig" if write is MODE else "UpdatePassthruConfig"
    for ours, theirs in (("6.7.3", "8.0.3.0"), ("8.0.3.0", "6.7.3"), ("8.0.3.0", None)):
        answers = {"RetrievePropertiesEx": host(theirs), method: None}
        with session_on(answers, version=ours) as (session, vcenter):
            with pytest.raises(VersionTooOld, match=since):
                VCenterHostWriter(session).write_host("host-1", write, {})
            assert method not in vcenter.methods


@pytest.mark.parametrize("version", ["6.7.3", "8.0.3.0"])
def test_what_every_version_knows_is_written(version: str) -> None:
    write = GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT)
    answers = {"RetrievePropertiesEx": host("6.7.3"), "UpdateGraphicsConfig": None}
    with session_on(answers, version=version) as (session, vcenter):
        VCenterHostWriter(session).write_host("host-1", write, {})
        assert "UpdateGraphicsConfig" in vcenter.methods


def options(**values: Any) -> Any:
    return typed(
        "vim.option.OptionValue",
        *[vim.option.OptionValue(key=key.replace("_", "."), value=value) for key, value in values.items()],
    )


@pytest.mark.parametrize(
    ("written", "asked", "sent"),
    [
        ({"A.long": 5}, "<name>A.long</name>", 1),
        ({"A.long": 5, "A.other": 6}, "QueryOptions", 2),
    ],
)
def test_a_number_takes_the_type_that_the_option_has(written: dict[str, int], asked: str, sent: int) -> None:
    long: Any = VmomiSupport.vmodlTypes["long"]
    answers = {
        "RetrievePropertiesEx": host(),
        "QueryOptions": options(A_long=long(1), A_other=long(2)),
        "UpdateOptions": None,
    }
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        VCenterHostWriter(session).write_host("host-1", OptionWrite(options={**written, "A.flag": True}), {})
        assert session.round_trips - before == 3
        assert asked in vcenter.sent("QueryOptions")
        assert ("<name>" in vcenter.sent("QueryOptions")) == (sent == 1)
        assert vcenter.sent("UpdateOptions").count("xsd:long") == sent
        assert vcenter.sent("UpdateOptions").count("xsd:boolean") == 1


def test_a_number_of_an_unknown_option_is_not_offered() -> None:
    answers = {"RetrievePropertiesEx": host(), "QueryOptions": vim.fault.InvalidName(name="A.long")}
    with session_on(answers) as (session, _), pytest.raises(NotOffered, match=r"A\.long"):
        VCenterHostWriter(session).write_host("host-1", OptionWrite(options={"A.long": 5}), {})


def licences(*, offered: bool = True) -> Any:
    manager = {"licenseAssignmentManager": vim.LicenseAssignmentManager("lam")} if offered else {}
    return reading(item(vim.LicenseManager("LicenseManager"), manager))


KEY = "AAAAA-BBBBB-CCCCC-DDDDD-EEEEE"


def test_a_licence_is_assigned_by_its_secret() -> None:
    info = vim.LicenseManager.LicenseInfo(licenseKey=KEY, editionKey="e", name="n", total=1)
    with session_on({"RetrievePropertiesEx": licences(), "UpdateAssignedLicense": info}) as (
        session,
        vcenter,
    ):
        before = session.round_trips
        VCenterHostWriter(session).write_host("host-1", LicenceWrite(secret="esxi"), {"esxi": KEY})
        assert session.round_trips - before == 2
        assert f"<entity>host-1</entity><licenseKey>{KEY}<" in vcenter.sent("UpdateAssignedLicense")


def test_a_licence_key_stands_in_no_error() -> None:
    said = vmodl.fault.InvalidArgument(msg=f"{KEY} is no key.", invalidProperty="licenseKey")
    with (
        session_on({"RetrievePropertiesEx": licences(), "UpdateAssignedLicense": said}) as (session, _),
        pytest.raises(VCenterError) as caught,
    ):
        VCenterHostWriter(session).write_host("host-1", LicenceWrite(secret="esxi"), {"esxi": KEY})
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "the license from secret esxi: *** is no key." in caught.value.message


def test_a_licence_without_a_key_or_without_a_manager_is_not_assigned() -> None:
    with session_on({"RetrievePropertiesEx": licences()}) as (session, vcenter):
        with pytest.raises(VCenterError, match="esxi does not contain a license key"):
            VCenterHostWriter(session).write_host("host-1", LicenceWrite(secret="esxi"), {})
        assert vcenter.methods == []
    with (
        session_on({"RetrievePropertiesEx": licences(offered=False)}) as (session, _),
        pytest.raises(NotOffered),
    ):
        VCenterHostWriter(session).write_host("host-1", LicenceWrite(secret="esxi"), {"esxi": KEY})


def test_esxcli_goes_the_way_of_esxcli() -> None:
    write = EsxcliWrite(
        command="system.settings.kernel.set", arguments=(("setting", "atsSupport"), ("value", "TRUE"))
    )
    with session_on({}) as (session, vcenter):
        with pytest.raises(NotOffered, match="system settings kernel set"):
            VCenterHostWriter(session).write_host("host-1", write, {})
        assert vcenter.methods == ["RetrieveManagedMethodExecuter"]


def test_a_write_to_the_shell_is_none_of_vcenters() -> None:
    with session_on({}) as (session, vcenter):
        with pytest.raises(ValueError, match="shell"):
            VCenterHostWriter(session).write_host("host-1", ShellWrite(commands=(("true",),)), {})
        assert vcenter.methods == []


def test_maintenance_and_power_are_one_call_each_and_nothing_is_forced() -> None:
    names = ("EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task", "RebootHost_Task", "ShutdownHost_Task")
    with session_on(dict.fromkeys(names, TASK)) as (session, vcenter):
        writer = VCenterHostWriter(session)
        before = session.round_trips
        tasks = [
            writer.enter_maintenance("host-1", None, 1800),
            writer.exit_maintenance("host-1", 600),
            writer.reboot_host("host-1"),
            writer.shut_down_host("host-1"),
        ]
        assert session.round_trips - before == 4
    assert tasks == ["task-7"] * 4
    entered = vcenter.sent("EnterMaintenanceMode_Task")
    assert "<timeout>1800</timeout><evacuatePoweredOffVms>false<" in entered
    assert "maintenanceSpec" not in entered
    assert "<timeout>600<" in vcenter.sent("ExitMaintenanceMode_Task")
    assert "<force>false<" in vcenter.sent("RebootHost_Task")
    assert "<force>false<" in vcenter.sent("ShutdownHost_Task")


def test_what_vsan_shall_do_is_said_where_it_is_given() -> None:
    with session_on({"EnterMaintenanceMode_Task": TASK}) as (session, vcenter):
        VCenterHostWriter(session).enter_maintenance("host-1", "ensureAccessibility", 60)
    assert "<objectAction>ensureObjectAccessibility<" in vcenter.sent("EnterMaintenanceMode_Task")


def test_every_word_for_vsan_is_one_that_the_api_knows_and_no_other_goes_out() -> None:
    words = get_args(get_args(EnterMaintenance.model_fields["vsan"].annotation)[0])
    assert set(words) == set(VSAN_ACTIONS)
    assert set(VSAN_ACTIONS.values()) == {"noAction", "ensureObjectAccessibility", "evacuateAllData"}
    with session_on({"EnterMaintenanceMode_Task": TASK}) as (session, vcenter):
        with pytest.raises(KeyError):
            VCenterHostWriter(session).enter_maintenance("host-1", "evacuateSome", 60)
        VCenterHostWriter(session).enter_maintenance("host-1", None, 60)
        assert "objectAction" not in vcenter.sent("EnterMaintenanceMode_Task")


@pytest.mark.parametrize(
    ("action", "method"), [("start", "StartService"), ("stop", "StopService"), ("restart", "RestartService")]
)
def test_a_service_is_controlled_by_its_key(action: Any, method: str) -> None:
    with session_on({"RetrievePropertiesEx": host(), method: None}) as (session, vcenter):
        before = session.round_trips
        VCenterHostWriter(session).control_service("host-1", "xorg", action)
        assert session.round_trips - before == 2
        assert "<id>xorg<" in vcenter.sent(method)
    absent = {"RetrievePropertiesEx": host(), method: vim.fault.NotFound()}
    with session_on(absent) as (session, _), pytest.raises(NotOffered, match="xorg"):
        VCenterHostWriter(session).control_service("host-1", "xorg", action)


CLUSTER = vim.ClusterComputeResource("domain-c1")


def cluster(**values: str) -> Any:
    config = vim.cluster.ConfigInfoEx(
        vmSwapPlacement="vmDirectory",
        dasConfig=vim.cluster.DasConfigInfo(enabled=False),
        drsConfig=vim.cluster.DrsConfigInfo(enabled=True, option=options(**values)),
    )
    return reading(item(CLUSTER, {"configurationEx": config}))


def set_option(session: Any, value: str | None) -> str:
    change = SetClusterOption(
        id="option",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="domain-c1",
        option="VgpuMMAutomationTimeoutSecs",
        value=value,
    )
    return VCenterHostWriter(session).set_cluster_option(change)


@pytest.mark.parametrize(("value", "sent"), [("-1", ">-1<"), (None, "></value>")])
def test_the_other_options_of_a_cluster_are_sent_along(value: str | None, sent: str) -> None:
    answers = {
        "RetrievePropertiesEx": cluster(A="1", VgpuMMAutomationTimeoutSecs="60"),
        "ReconfigureComputeResource_Task": TASK,
    }
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        assert set_option(session, value) == "task-7"
        assert session.round_trips - before == 2
    body = vcenter.sent("ReconfigureComputeResource_Task")
    assert '<key>A</key><value xsi:type="xsd:string">1<' in body
    assert f'<key>VgpuMMAutomationTimeoutSecs</key><value xsi:type="xsd:string"{sent}' in body
    assert body.count("<option>") == 2
    assert "<modify>true<" in body
    assert "<enabled>" not in body


def test_a_cluster_that_has_gone_is_said_so() -> None:
    with session_on({"RetrievePropertiesEx": reading()}) as (session, _), pytest.raises(NotFound):
        set_option(session, "-1")


def set_vcenter(session: Any, value: bool | int | str) -> None:
    change = SetVCenterOption(id="v", subject=Subject(kind="vcenter", name="vc"), option="a.b", value=value)
    VCenterHostWriter(session).set_vcenter_option(change)


@pytest.mark.parametrize(
    ("current", "sent"),
    [
        (options(a_b=False), "boolean"),
        (options(a_b="false"), "string"),
        (vim.fault.InvalidName(name="a.b"), "boolean"),
    ],
    ids=["boolean", "text", "absent"],
)
def test_a_setting_of_vcenter_keeps_its_type(current: Any, sent: str) -> None:
    with session_on({"QueryOptions": current, "UpdateOptions": None}) as (session, vcenter):
        before = session.round_trips
        set_vcenter(session, True)
        assert session.round_trips - before == 2
        assert f'<value xsi:type="xsd:{sent}">true<' in vcenter.sent("UpdateOptions")


def test_a_setting_that_vcenter_does_not_know_is_not_offered() -> None:
    unknown = vim.fault.InvalidName(name="a.b")
    with (
        session_on({"QueryOptions": unknown, "UpdateOptions": unknown}) as (session, _),
        pytest.raises(NotOffered, match=r"a\.b"),
    ):
        set_vcenter(session, True)
    service = content()
    service.setting = None
    with session_on({}, service=service) as (session, _), pytest.raises(NotOffered):
        set_vcenter(session, True)


MODULE = ModuleWrite(module="nmlx5_core", options="pfctx=0x08 pfcrx=0x08", before="dcbx=1")
ASKED, WRITTEN = "QueryConfiguredModuleOptionString", "UpdateModuleOptionString"


@pytest.mark.parametrize("found", ["dcbx=1", " dcbx=1 ", "pfctx=0x08 pfcrx=0x08"])
def test_a_modules_options_are_replaced_where_they_are_what_they_were_or_shall_be(found: str) -> None:
    answers = {"RetrievePropertiesEx": host(), ASKED: found, WRITTEN: None}
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        assert VCenterHostWriter(session).write_host("host-1", MODULE, {}) is None
        assert session.round_trips - before == 3
        assert vcenter.methods == ["RetrievePropertiesEx", ASKED, WRITTEN]
        assert "<name>nmlx5_core<" in vcenter.sent(WRITTEN)
        assert "<options>pfctx=0x08 pfcrx=0x08<" in vcenter.sent(WRITTEN)


def test_a_modules_options_are_cleared() -> None:
    cleared = MODULE.model_copy(update={"options": ""})
    with session_on({"RetrievePropertiesEx": host(), ASKED: "dcbx=1", WRITTEN: None}) as (session, vcenter):
        VCenterHostWriter(session).write_host("host-1", cleared, {})
        assert "<options></options>" in vcenter.sent(WRITTEN)


@pytest.mark.parametrize("found", ["dcbx=2", "", "dcbx=1 debug=1"])
def test_a_modules_options_that_somebody_has_changed_are_left_alone(found: str) -> None:
    with session_on({"RetrievePropertiesEx": host(), ASKED: found, WRITTEN: None}) as (session, vcenter):
        with pytest.raises(StalePlan, match="'dcbx=1'") as caught:
            VCenterHostWriter(session).write_host("host-1", MODULE, {})
        assert caught.value.subject == "esx-01"
        assert WRITTEN not in vcenter.methods


@pytest.mark.parametrize("method", [ASKED, WRITTEN])
def test_a_refusal_of_a_modules_options_is_told_apart_from_their_absence(method: str) -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Host.Config.Settings")
    for fault, error in (
        (lacks, NotPermitted),
        (vim.fault.NotFound(), NotOffered),
        (no_method(method), NotOffered),
    ):
        answers = {"RetrievePropertiesEx": host(), ASKED: "dcbx=1", WRITTEN: None, method: fault}
        with session_on(answers) as (session, _), pytest.raises(error):
            VCenterHostWriter(session).write_host("host-1", MODULE, {})
    bare = {"RetrievePropertiesEx": host(managers=False)}
    with session_on(bare) as (session, vcenter), pytest.raises(NotOffered):
        VCenterHostWriter(session).write_host("host-1", MODULE, {})
    assert vcenter.methods == ["RetrievePropertiesEx"]
