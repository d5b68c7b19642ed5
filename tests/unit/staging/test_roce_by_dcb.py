"""RoCE on the distribution's driver: the real `dcb` sets trust, PFC, classes and buffers of mlx5's port."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.fakes.dcb import HOST, IEEE, DcbPort, real_dcb
from tests.unit.staging.sandbox import Ran, Sandbox, only_own_tools
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import RoceModule

MAC = "b8:3f:d2:00:00:01"
MODULE = RoceModule(nics=(GuestNic(mac=MAC, mtu=9000),))
DSCP = 5
"""The selector of an entry for a DSCP (include/uapi/linux/dcbnl.h)."""


@dataclass
class Scene:
    """A guest with a whole NIC, the port behind it, and the module's script."""

    guest: Sandbox
    port: DcbPort
    script: str

    def apply(self) -> Ran:
        return self.guest.run(self.script, "apply")

    def check(self) -> Ran:
        return self.guest.run(self.script, "check")


@pytest.fixture
def scene(guest: Sandbox) -> Iterator[Scene]:
    """Nothing is set; the NIC's firmware answers ECN marks on every priority, as it comes."""
    guest.nic("ens192", MAC, rdma="mlx5_0")
    guest.real("timeout")
    guest.stand_in("systemctl", '[ "$2" != is-active ]')
    guest.stand_in("ip", 'echo "$6" >"$ROOT/sys/class/net/ens192/mtu"')
    guest.write("/proc/sys/net/ipv4/tcp_ecn", "2\n")
    for name, value in (("mode", "IB/RoCE v1"), ("tos", "0")):
        guest.write(f"/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_{name}", f"{value}\n")
    firmware(guest, "255")
    port = DcbPort()
    with real_dcb(port, guest.root.parent) as dcb:
        guest.stand_in("dcb", dcb.wrapper())
        yield Scene(guest, port, guest.stage(MODULE))


def firmware(guest: Sandbox, mask: str, *, rows: str = "ROCE_CC_PRIO_MASK_P1 ROCE_CC_PRIO_MASK_P2") -> None:
    """Answer as mstconfig does with -e: default, current and next boot."""
    guest.stand_in(
        "mstconfig",
        f"""[ "$*" = "-d 0000:03:00.0 -e q" ] || exit 3
for row in {rows}; do printf '        %s     255     {mask}     255\\n' "$row"; done""",
    )


def test_a_port_as_it_comes_is_made_lossless(scene: Scene) -> None:
    assert scene.check().status == 1
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, False), ran
    assert scene.port.trust == "dscp"
    assert scene.port.priority_of(26) == {3}
    assert scene.port.protected == {3}
    assert scene.port.prio2buffer == [0, 0, 0, 1, 0, 0, 0, 0]
    assert not scene.port.is_manual
    assert scene.check().status == 0


def test_a_second_run_does_not_take_the_link_down_again(scene: Scene) -> None:
    scene.apply()
    assert scene.port.link_toggles == 1
    scene.guest.calls()
    assert scene.apply().status == 0
    assert scene.port.link_toggles == 1
    assert not [line for line in scene.guest.calls("dcb") if " set " in line or " add " in line]


def test_a_dscp_gets_one_priority_whatever_it_had(scene: Scene) -> None:
    scene.apply()
    scene.port.apps = [(DSCP, 5, 26), (DSCP, 3, 24), (DSCP, 6, 48)]
    assert "does not map DSCP 26 to priority 3" in scene.check().why
    assert scene.apply().status == 0
    assert scene.port.priority_of(26) == {3}
    assert scene.port.priority_of(48) == {6}


def test_two_priorities_of_one_dscp_are_one_too_many(scene: Scene) -> None:
    scene.apply()
    scene.port.apps.append((DSCP, 4, 26))
    assert scene.check().why == "ens192 also maps DSCP 26 to priority 4"
    assert scene.apply().status == 0
    assert scene.port.priority_of(26) == {3}


def test_trust_of_the_vlans_priority_takes_the_entries_out(scene: Scene) -> None:
    scene.port.apps = [(DSCP, 3, 26), (DSCP, 3, 24)]
    assert scene.port.trust == "dscp"
    script = scene.guest.stage(MODULE.model_copy(update={"trust": "pcp"}))
    assert scene.guest.run(script, "apply").status == 0
    assert scene.port.trust == "pcp"
    scene.port.apps = [(DSCP, 3, 26)]
    assert scene.guest.run(script, "check").why == "ens192 trusts DSCP, not pcp"


@pytest.mark.parametrize(
    ("pfc", "told"),
    [(0, "PFC on ens192 is enabled for priority none, but must be enabled for 3"),
     (0x18, "PFC on ens192 is enabled for priority 3,4, but must be enabled for 3")],
)  # fmt: skip
def test_pfc_that_was_lost_is_seen(scene: Scene, pfc: int, told: str) -> None:
    scene.apply()
    scene.port.pfc = pfc
    ran = scene.check()
    assert (ran.status, ran.why) == (1, told)
    assert scene.apply().status == 0
    assert scene.port.protected == {3}


@pytest.mark.parametrize(
    ("refuses", "told"),
    [({"app": errno.EOPNOTSUPP}, "dcb could not make ens192 trust DSCP"),
     ({"set pfc": errno.EOPNOTSUPP}, "dcb could not set PFC on ens192"),
     ({"dcb": errno.EOPNOTSUPP}, "dcb could not make ens192 trust DSCP")],
)  # fmt: skip
def test_what_the_driver_refuses_fails(scene: Scene, refuses: dict[str, int], told: str) -> None:
    scene.port.refuses = refuses
    ran = scene.apply()
    assert (ran.status, ran.why) == (1, told)


def test_classes_that_are_shared_are_parted(scene: Scene) -> None:
    scene.port.prio_tc = [0] * 8
    assert scene.apply().status == 0
    assert scene.port.prio_tc == list(range(8))


def test_classes_that_cannot_be_parted_are_a_warning(scene: Scene) -> None:
    scene.port.prio_tc, scene.port.refuses = [0] * 8, {"set ets": errno.EOPNOTSUPP}
    for ran in (scene.apply(), scene.check()):
        assert (ran.status, ran.warned) == (0, True)
        assert ran.why == "priority 3 on ens192 shares its traffic class with others"


def test_a_buffer_that_somebody_sized_is_parted_in_two(scene: Scene) -> None:
    scene.port.is_manual = True
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, False), ran
    assert scene.port.prio2buffer == [0, 0, 0, 1, 0, 0, 0, 0]
    assert scene.port.buffers[:2] == [131008, 131008]


def test_a_buffer_that_cannot_be_parted_is_a_warning(scene: Scene) -> None:
    scene.port.is_manual = True
    scene.port.total = 0
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, True)
    assert ran.why == "priority 3 on ens192 does not have its own receive buffer"


def test_a_driver_that_tells_no_buffers_is_no_warning(scene: Scene) -> None:
    scene.port.has_buffers = False
    scene.guest.stand_in("timeout", 'shift; case "$*" in *buffer*) exit 124 ;; esac; exec "$@"')
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, False)
    assert "the ens192 driver does not report receive buffers" in ran.why


@pytest.mark.parametrize(
    ("mode", "refuses", "warned"), [(0, {}, False), (0, {"dcbx": 1}, True), (HOST | IEEE, {}, False)]
)
def test_the_firmwares_own_agent_is_switched_off(
    scene: Scene, mode: int, refuses: dict[str, int], warned: bool
) -> None:
    scene.port.dcbx, scene.port.refuses = mode, refuses
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, warned)
    assert ("DCBX on ens192 is controlled by its firmware" in ran.why) is warned
    assert (scene.port.dcbx == HOST | IEEE) is not warned


def test_lldpad_in_the_way_is_told(scene: Scene) -> None:
    scene.guest.stand_in("systemctl", '[ "$*" = "--quiet is-active lldpad" ] || [ "$2" != is-active ]')
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, True)
    assert ran.why == "lldpad is running and may apply the switch's settings to ens192: stop it"


@pytest.mark.parametrize(
    ("mask", "told"),
    [("0", "ignores ECN on priority 3"), ("0xf7", "ignores ECN on priority 3"), ("0x08", ""), ("8", ""),
     ("DEVICE_DEFAULT(0)", "does not report the priorities on which it reacts to ECN marks")],
)  # fmt: skip
def test_the_firmware_says_where_it_answers_ecn_marks(scene: Scene, mask: str, told: str) -> None:
    firmware(scene.guest, mask)
    ran = scene.apply()
    assert (ran.status, ran.warned) == (0, bool(told))
    assert told in ran.why
    assert scene.check().warned is bool(told)


def test_the_tool_that_asks_the_firmware_is_brought(scene: Scene) -> None:
    scene.guest.without("mstconfig")
    scene.guest.stand_in("apt-get")
    ran = scene.apply()
    assert scene.guest.calls("apt-get")[-1].endswith("install -- mstflint")
    assert (ran.status, ran.warned) == (0, True)
    assert ran.why == (
        "it is unknown whether ens192 reacts to ECN marks: mstconfig (mstflint) is not installed"
    )


def test_without_any_tool_the_port_is_said_not_to_be_lossless(scene: Scene) -> None:
    scene.guest.without("dcb")
    only_own_tools(scene.guest)
    for ran in (scene.apply(), scene.check()):
        assert (ran.status, ran.warned) == (0, True)
        assert ran.why == (
            "ens192 is not lossless: configuring it requires mlnx_qos (OFED) or dcb (iproute2 5.11 or "
            "later), and neither is installed"
        )


def test_a_driver_that_does_not_answer_is_not_waited_for(scene: Scene) -> None:
    """Where the kernel tells no PFC, dcb 6.1 reads on without an end: `timeout` ends it."""
    scene.port.refuses = {"pfc": errno.EOPNOTSUPP}
    scene.guest.stand_in("timeout", 'shift; exec /usr/bin/timeout 1 "$@"')
    ran = scene.apply()
    assert (ran.status, ran.why) == (1, "the ens192 driver does not support PFC")
