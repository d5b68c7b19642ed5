"""The RDMA stack, NIC firmware, RoCE settings and limits: run for real in a folder with a /sys of its own."""

from __future__ import annotations

import pytest

from tests.unit.staging.sandbox import Sandbox, context, only_own_tools, spec_of
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import LimitsModule, NicFirmwareModule, OfedModule, RoceModule
from vgpu_cfg.staging.bundle import stage_module
from vgpu_cfg.staging.modules.machine import kib_of

MAC = "b8:3f:d2:00:00:01"
NIC = GuestNic(mac=MAC, mtu=9000)
BY_DRIVER = GuestNic(driver="mlx5_core", mtu=9000)
TGZ = "/srv/MLNX_OFED_LINUX-5.8-6.0.4.2-ubuntu22.04-x86_64.tgz"

# ---------------------------------------------------------------- ofed


@pytest.mark.parametrize(
    ("manager", "packages"),
    [("apt-get", "rdma-core ibverbs-providers ibverbs-utils perftest"),
     ("dnf", "rdma-core libibverbs libibverbs-utils perftest")],
)  # fmt: skip
def test_the_distributions_stack(guest: Sandbox, manager: str, packages: str) -> None:
    tools = 'for t in ibv_devinfo ib_write_bw; do printf "#!/bin/sh\\n" >"$0.d/$t"; chmod +x "$0.d/$t"; done'
    guest.stand_in(manager, tools.replace("$0.d", str(guest.bin)))
    guest.bring(guest.stage(OfedModule()))
    assert any(line.endswith(f"install -- {packages}") for line in guest.calls())


def test_mlnx_ofed_is_unpacked_and_installed_without_touching_firmware(guest: Sandbox) -> None:
    guest.real("gzip", "sleep")
    installer = guest.root.parent / "MLNX_OFED_LINUX-5.8" / "mlnxofedinstall"
    installer.parent.mkdir()
    installer.write_text('#!/bin/sh\necho "$*" >"$VGPU_CFG_ROOT/installed"\n')
    installer.chmod(0o755)
    import tarfile

    guest.path("/srv").mkdir()
    with tarfile.open(guest.path(TGZ), "w:gz") as archive:
        archive.add(installer.parent, "MLNX_OFED_LINUX-5.8")
    guest.stand_in("ofed_info", '[ ! -f "$ROOT/installed" ] || echo MLNX_OFED_LINUX-5.8-6.0.4.2:')
    guest.write("/etc/init.d/openibd", '#!/bin/sh\necho "$1" >"$VGPU_CFG_ROOT/openibd"\n', 0o755)
    guest.bring(guest.stage(OfedModule(stack="mlnx", package=TGZ)))
    assert guest.read("/installed") == "--force --without-fw-update\n"
    assert guest.read("/openibd") == "restart\n"
    assert list(guest.path("/var/lib/vgpu-cfg/packages").iterdir()) == []


def test_another_version_of_mlnx_ofed_is_not_the_one_asked_for(guest: Sandbox) -> None:
    guest.stand_in("ofed_info", "echo MLNX_OFED_LINUX-5.4-1.0.3.0:")
    assert guest.run(guest.stage(OfedModule(stack="mlnx", package=TGZ)), "check").status == 1
    assert guest.run(guest.stage(OfedModule(stack="mlnx")), "check").status == 0


def test_doca_comes_by_its_repository(guest: Sandbox) -> None:
    guest.write("/srv/doca-host.deb", "")
    guest.stand_in("apt-get", 'case "$*" in *"install -- doca-ofed") : >"$ROOT/doca" ;; esac')
    guest.stand_in("dpkg-query", '[ ! -f "$ROOT/doca" ] || echo "install ok installed"')
    guest.bring(guest.stage(OfedModule(stack="doca", package="/srv/doca-host.deb")))
    called = [line.split(" ")[-1] for line in guest.calls("apt-get")]
    assert called == [
        "update",
        str(guest.path("/var/lib/vgpu-cfg/packages/doca-host.deb")),
        "update",
        "doca-ofed",
    ]


@pytest.mark.parametrize("stack", ["mlnx", "doca"])
def test_a_template_without_the_stack_and_no_package(guest: Sandbox, stack: str) -> None:
    ran = guest.run(guest.stage(OfedModule.model_validate({"stack": stack})), "apply")
    assert ran.status == 1
    assert "is not in the template: name its package as guest.ofed.package" in ran.why


def test_a_package_of_another_stack_is_refused() -> None:
    for stack, package in (("mlnx", "/a.deb"), ("doca", "/a.tgz"), ("inbox", "/a.deb")):
        module = OfedModule.model_validate({"stack": stack, "package": package})
        with pytest.raises(GuestError, match=f"is not a package for the stack {stack}"):
            stage_module(module, context(spec_of(module)))


# ---------------------------------------------------------------- firmware


FIRMWARE = NicFirmwareModule(nics=(NIC,), parameters={"ATS_ENABLED": "true"})


def mlxconfig(
    guest: Sandbox, name: str = "mlxconfig", row: str = "ATS_ENABLED", value: str = "False(0)"
) -> None:
    """Answer as NVIDIA's tool does with -e: default, current and next boot."""
    guest.write("/current", f"{value}\n")
    guest.write("/next", f"{value}\n")
    guest.stand_in(name, f"""
case "$*" in
*" set "*) echo "True(1)" >"$ROOT/next" ;;
*"-d 0000:03:00.0 -e q")
    printf 'Device #1:\\n----------\\n\\nConfigurations:      Default    Current    Next Boot\\n'
    current=$(cat "$ROOT/current"); next=$(cat "$ROOT/next"); star=" "
    [ "$current" = "$next" ] || star="*"
    printf '%s        {row}         False(0)   %s   %s\\n' "$star" "$current" "$next" ;;
*) exit 3 ;;
esac""")  # fmt: skip


@pytest.mark.parametrize("name", ["mlxconfig", "mstconfig"])
def test_a_parameter_is_set_and_waits_for_the_host(guest: Sandbox, name: str) -> None:
    guest.nic("ens192", MAC)
    mlxconfig(guest, name)
    script = guest.stage(FIRMWARE)
    assert guest.run(script, "check").status == 1
    ran = guest.run(script, "apply")
    assert (ran.status, ran.why) == (
        20,
        "restart the ESXi host: it activates ATS_ENABLED of the NIC's firmware; "
        "otherwise, power it off and on",
    )
    assert f"{name} -d 0000:03:00.0 -y set ATS_ENABLED=true" in guest.calls(name)
    assert guest.run(script, "apply").status == 20
    assert not any(" set " in line for line in guest.calls(name))
    guest.write("/current", "True(1)\n")
    assert guest.run(script, "check").status == 0
    assert guest.run(script, "apply").status == 0


def test_a_firmware_without_the_parameter_is_too_old(guest: Sandbox) -> None:
    guest.nic("ens192", MAC)
    mlxconfig(guest, row="SRIOV_EN")
    ran = guest.run(guest.stage(FIRMWARE), "apply")
    assert ran.status == 1
    assert ran.why == (
        "the firmware on NIC 0000:03:00.0 does not have ATS_ENABLED: it is too old and must be updated"
    )


def test_without_nvidias_tool_the_open_one_is_installed(guest: Sandbox) -> None:
    guest.nic("ens192", MAC)
    guest.stand_in("apt-get", "exit 1")
    ran = guest.run(guest.stage(FIRMWARE), "apply")
    assert "mstflint could not be installed" in ran.why
    assert guest.calls("apt-get")[-1].endswith("install -- mstflint")


def test_a_nic_that_is_not_there(guest: Sandbox) -> None:
    mlxconfig(guest)
    assert guest.run(guest.stage(FIRMWARE), "apply").why == f"the guest has no NIC {MAC}"


@pytest.mark.parametrize("text", ["ats", "A B", "A;reboot", "$(x)", "A\nB", "-y"])
def test_parameters_that_are_none_are_refused(text: str) -> None:
    for parameters in ({text: "1"}, {"ATS_ENABLED": f"{text} "}):
        module = NicFirmwareModule(nics=(NIC,), parameters=parameters)
        with pytest.raises(GuestError):
            stage_module(module, context(spec_of(module)))


# ---------------------------------------------------------------- roce


QOS = """
[ "$1 $2" = "-i ens192" ] || exit 3
case "$3" in
--trust) echo "$4" >"$ROOT/trust" ;;
--pfc) echo "$4" >"$ROOT/pfc" ;;
"")
    printf 'Priority trust state: %s\\nPFC configuration:\\n' "$(cat "$ROOT/trust")"
    printf '\\tpriority    0   1   2   3   4   5   6   7\\n'
    printf '\\tenabled     %s   \\n' "$(tr , ' ' <"$ROOT/pfc" | sed 's/ /   /g')" ;;
esac"""
CMA = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1"


@pytest.fixture
def port(guest: Sandbox) -> Sandbox:
    guest.nic("ens192", MAC.upper(), rdma="mlx5_0")
    guest.nic("ens160", "00:50:56:00:00:01", driver="vmxnet3", pci="0000:0b:00.0")
    guest.real("systemctl", "sysctl")
    guest.stand_in(
        "ip",
        '[ "$1 $2 $3 $4 $5" = "link set dev ens192 mtu" ] && echo "$6" >"$ROOT/sys/class/net/ens192/mtu"',
    )
    guest.write("/proc/sys/net/ipv4/tcp_ecn", "2\n")
    guest.write(f"{CMA}/default_roce_mode", "IB/RoCE v1\n")
    guest.write(f"{CMA}/default_roce_tos", "0\n")
    return guest


def with_ofed(port: Sandbox) -> None:
    port.write("/trust", "pcp\n")
    port.write("/pfc", "0,0,0,0,0,0,0,0\n")
    port.stand_in("mlnx_qos", QOS)
    port.stand_in(
        "cma_roce_mode", f'[ "$*" = "-d mlx5_0 -p 1 -m 2" ] && echo "RoCE v2" >"$ROOT{CMA}/default_roce_mode"'
    )
    port.stand_in(
        "cma_roce_tos", f'[ "$1 $2 $3" = "-d mlx5_0 -t" ] && echo "$4" >"$ROOT{CMA}/default_roce_tos"'
    )
    for side in ("roce_np", "roce_rp"):
        port.write(f"/sys/class/net/ens192/ecn/{side}/enable/3", "0\n")


@pytest.mark.parametrize("nic", [NIC, BY_DRIVER])
def test_a_passed_through_port_with_ofed(port: Sandbox, nic: GuestNic) -> None:
    with_ofed(port)
    port.bring(port.stage(RoceModule(nics=(nic,))))
    called = port.calls()
    assert called[:5] == [
        "ip link set dev ens192 mtu 9000",
        "mlnx_qos -i ens192 --trust dscp",
        "mlnx_qos -i ens192 --pfc 0,0,0,1,0,0,0,0",
        "cma_roce_mode -d mlx5_0 -p 1 -m 2",
        "cma_roce_tos -d mlx5_0 -t 106",
    ]
    for side in ("roce_np", "roce_rp"):
        assert port.read(f"/sys/class/net/ens192/ecn/{side}/enable/3") == "1\n"
    assert port.read("/proc/sys/net/ipv4/tcp_ecn") == "1\n"
    assert port.path("/etc/systemd/system/multi-user.target.wants/vgpu-cfg-roce.service").is_symlink()


def test_the_kernels_traffic_class_shows_more_than_was_written(port: Sandbox) -> None:
    with_ofed(port)
    port.write("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=0\n")
    script = port.stage(RoceModule(nics=(NIC,)))
    assert port.run(script, "apply").status == 0
    path = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    assert port.read(path) == "106\n"
    port.write(path, "Global tclass=106\n")
    assert port.run(script, "check").status == 0


def test_inbox_drivers_get_what_the_kernel_offers_and_a_note(port: Sandbox) -> None:
    script = port.stage(RoceModule(nics=(NIC,)))
    only_own_tools(port)
    ran = port.run(script, "apply")
    assert ran.status == 0
    assert port.read(f"{CMA}/default_roce_mode") == "RoCE v2\n"
    assert port.read(f"{CMA}/default_roce_tos") == "106\n"
    assert "ens192 is not lossless" in ran.why
    assert "NCCL with NCCL_IB_TC=106" in ran.output
    assert port.run(script, "check").status == 0


def test_a_port_of_the_hosts_is_not_the_guests_to_set(port: Sandbox) -> None:
    with_ofed(port)
    port.bring(port.stage(RoceModule(nics=(NIC,), owns_port=False)))
    assert port.read("/trust") == "pcp\n"
    assert port.read("/proc/sys/net/ipv4/tcp_ecn") == "2\n"
    assert port.read(f"{CMA}/default_roce_tos") == "106\n"


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("/trust", "pcp", "ens192 does not trust dscp"),
        ("/pfc", "0,0,0,0,1,0,0,0", "PFC on ens192 is 0,0,0,0,1,0,0,0, but must be 0,0,0,1,0,0,0,0"),
        (f"{CMA}/default_roce_tos", "104", "default_roce_tos does not contain 106"),
        (f"{CMA}/default_roce_mode", "IB/RoCE v1", "default_roce_mode does not contain RoCE v2"),
        ("/sys/class/net/ens192/ecn/roce_np/enable/3", "0", "enable/3 does not contain 1"),
        ("/sys/class/net/ens192/mtu", "1500", "the MTU on ens192 is not 9000"),
        ("/proc/sys/net/ipv4/tcp_ecn", "0", "tcp_ecn is off"),
    ],
)
def test_each_setting_that_was_lost_is_seen(port: Sandbox, path: str, text: str, told: str) -> None:
    with_ofed(port)
    script = port.stage(RoceModule(nics=(NIC,)))
    assert port.run(script, "apply").status == 0
    assert port.run(script, "check").status == 0
    port.write(path, f"{text}\n")
    ran = port.run(script, "check")
    assert ran.status == 1
    assert told in ran.why


def test_a_nic_without_an_rdma_device(guest: Sandbox) -> None:
    guest.real("systemctl")
    guest.nic("ens192", MAC)
    ran = guest.run(guest.stage(RoceModule(nics=(NIC,))), "apply")
    assert ran.why == "ens192 has no RDMA device: check whether its driver's RDMA module is loaded"


def test_dscp_and_priority_have_bounds() -> None:
    for module in (RoceModule(nics=(NIC,), dscp=64), RoceModule(nics=(NIC,), priority=8)):
        with pytest.raises(GuestError, match="is not valid for RoCE packets"):
            stage_module(module, context(spec_of(module)))


# ---------------------------------------------------------------- limits


@pytest.fixture
def shm(guest: Sandbox) -> Sandbox:
    guest.write("/proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=100k,inode64 0 0\n")
    guest.write("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n")
    guest.stand_in("systemctl")
    guest.stand_in(
        "mount", 'echo "tmpfs /dev/shm tmpfs rw,nosuid,nodev,${2#remount,},inode64 0 0" >"$ROOT/proc/mounts"'
    )
    return guest


def test_limits_and_shared_memory(shm: Sandbox) -> None:
    shm.bring(shm.stage(LimitsModule(shared_memory="64GiB")))
    assert "* hard memlock unlimited\n" in shm.read("/etc/security/limits.d/90-vgpu-cfg.conf")
    assert "DefaultLimitMEMLOCK=infinity\n" in shm.read("/etc/systemd/system.conf.d/90-vgpu-cfg.conf")
    assert shm.read("/etc/fstab").splitlines()[2] == "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=67108864k 0 0"
    assert shm.calls() == ["systemctl daemon-reexec", "mount -o remount,size=67108864k /dev/shm"]


def test_without_a_size_shared_memory_is_left_alone(shm: Sandbox) -> None:
    shm.bring(shm.stage(LimitsModule()))
    assert shm.read("/etc/fstab") == "UUID=1 / ext4 defaults 0 1\n"
    assert shm.calls("mount") == []


def test_sizes() -> None:
    assert [kib_of(text) for text in ("512m", "64GiB", "1 TB", "8K")] == [524288, 67108864, 1073741824, 8]
    for text in ("64", "0G", "$(x)", "-1G", "1G,exec", "50%"):
        with pytest.raises(GuestError):
            kib_of(text)
