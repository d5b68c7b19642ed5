from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.fakes.fake_guests import FakeGuest, FakeGuests, FakeGuestShell, GuestVCenter
from tests.unit.execution.guest_makers import spec_of
from vgpu_cfg.cli.guest_logins import FirstThatAnswers
from vgpu_cfg.errors import GuestError, GuestNotReady, NotPermitted, VgpuCfgError
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.ports import GuestShell, GuestTarget

TARGET = GuestTarget(name="hvd-01", moid="vm-7")
BOTH = LoginEntry(user="anna", password="PASSWORD")


@dataclass
class Way:
    """One way in, which is open or says why not."""

    name: str
    tried: list[str]
    failure: VgpuCfgError | None = None
    shell: GuestShell = field(
        default_factory=lambda: FakeGuestShell(
            FakeGuests(GuestVCenter(guests={"hvd-01": FakeGuest(spec_of("hvd-01"))})), "hvd-01"
        )
    )

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        self.tried.append(self.name)
        if self.failure is not None:
            raise self.failure
        return self.shell


def ways(
    operations: VgpuCfgError | None = None, ssh: VgpuCfgError | None = None
) -> tuple[FirstThatAnswers, list[str]]:
    tried: list[str] = []
    return FirstThatAnswers(Way("operations", tried, operations), Way("ssh", tried, ssh)), tried


@pytest.mark.parametrize(
    ("login", "prefers_ssh", "first"),
    [
        (BOTH, False, ["operations"]),
        (BOTH, True, ["ssh"]),
        (LoginEntry(), False, ["ssh"]),
        (LoginEntry(user="anna", key="KEY"), False, ["ssh"]),
    ],
)
def test_which_way_is_taken_first(login: LoginEntry, prefers_ssh: bool, first: list[str]) -> None:
    shells, tried = ways()
    shells.connect(TARGET.model_copy(update={"prefers_ssh": prefers_ssh}), login)
    assert tried == first


@pytest.mark.parametrize(
    "failure",
    [GuestNotReady("no tools"), GuestError("wrong password"), NotPermitted("no GuestOperations.Execute")],
)
def test_where_one_way_fails_the_other_is_taken(failure: VgpuCfgError) -> None:
    shells, tried = ways(operations=failure)
    shells.connect(TARGET, BOTH)
    assert tried == ["operations", "ssh"]


def test_where_both_fail_both_are_told() -> None:
    shells, _ = ways(GuestError("wrong password", subject="hvd-01", remedy="check"), GuestError("no key"))
    with pytest.raises(GuestError, match=r"^wrong password; with the other login: no key$") as caught:
        shells.connect(TARGET, BOTH)
    assert not isinstance(caught.value, GuestNotReady)
    assert (caught.value.subject, caught.value.remedy) == ("hvd-01", "check")


def test_what_may_pass_in_one_way_may_pass() -> None:
    shells, _ = ways(GuestNotReady("no tools"), GuestError("not the plan's"))
    with pytest.raises(GuestNotReady):
        shells.connect(TARGET, BOTH)


def test_a_single_way_tells_its_own_error() -> None:
    shells, _ = ways(ssh=GuestError("no key"))
    with pytest.raises(GuestError, match=r"^no key$"):
        shells.connect(TARGET, LoginEntry())
