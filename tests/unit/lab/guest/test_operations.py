"""Guest operations over the wire: credentials, programs, files; who may, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.guest.guest_rig import STAGE, GuestRig, bundle, module
from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.guest.system.creation import guest_of

RUNTIME = module("containers", runtime="docker", minimum_free_gib=0)


class Desk:
    """A guest without cloud-init, and a client of its vCenter."""

    def __init__(self) -> None:
        self.rig = GuestRig()
        self.vm = self.rig.up("a", source="no-cloud-init")
        instance = connect(self.rig.lab)
        manager: Any = instance.RetrieveContent().guestOperationsManager
        self.reference: Any = vim.VirtualMachine(self.vm.moid, instance._stub)
        self.auths, self.programs, self.files = (
            manager.authManager,
            manager.processManager,
            manager.fileManager,
        )
        self.auth = self.login("ubuntu", "lab")

    def login(self, user: str, password: str) -> Any:
        return vim.vm.guest.NamePasswordAuthentication(
            username=user, password=password, interactiveSession=False
        )

    def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return method(self.reference, self.auth, *arguments)

    def start(self, line: str) -> int:
        quoted = line.replace("'", "'\\''")
        spec = vim.vm.guest.ProcessManager.ProgramSpec(programPath="/bin/sh", arguments=f"-c '{quoted}'")
        return int(self.call(self.programs.StartProgramInGuest, spec))

    def process(self, pid: int) -> Any:
        return self.call(self.programs.ListProcessesInGuest, [pid])[0]

    def put(self, path: str, content: bytes, *, overwrite: bool = False, mode: int = 0o600) -> int:
        rights = vim.vm.guest.FileManager.PosixFileAttributes(permissions=mode)
        url = self.call(self.files.InitiateFileTransferToGuest, path, rights, len(content), overwrite)
        return self.rig.lab.exchange("PUT", url.removeprefix("https://*:443"), {}, content)[0]

    def get(self, path: str) -> bytes:
        url = self.call(self.files.InitiateFileTransferFromGuest, path).url
        return self.rig.lab.exchange("GET", url.removeprefix("https://*:443"), {}, b"")[2]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_tools_tell_of_the_guest(desk: Desk) -> None:
    seen = desk.reference.guest
    assert (seen.toolsRunningStatus, seen.guestState, seen.hostName) == (
        "guestToolsRunning",
        "running",
        "ubuntu",
    )
    assert seen.guestOperationsReady
    by_mac = {nic.macAddress: nic for nic in seen.net}
    assert by_mac[desk.rig.mac()].deviceConfigId == -1
    adapter = next(nic for nic in seen.net if nic.network == "vm-network")
    assert adapter.ipConfig.ipAddress[0].prefixLength == 16
    assert adapter.ipAddress == [seen.ipAddress]
    desk.rig.done(desk.vm, "PowerOffVM_Task")
    gone = desk.reference.guest
    assert (gone.toolsRunningStatus, gone.guestState, gone.ipAddress) == (
        "guestToolsNotRunning",
        "notRunning",
        None,
    )
    assert not gone.net


def test_only_the_right_password_is_taken(desk: Desk) -> None:
    desk.call(desk.auths.ValidateCredentialsInGuest)
    for user, password in (("ubuntu", "wrong"), ("nobody", "lab"), ("root", "")):
        desk.auth = desk.login(user, password)
        with pytest.raises(vim.fault.InvalidGuestLogin):
            desk.call(desk.auths.ValidateCredentialsInGuest)


def test_nobody_answers_where_the_tools_do_not_run(desk: Desk) -> None:
    desk.rig.done(desk.vm, "ResetVM_Task")
    with pytest.raises(vim.fault.GuestOperationsUnavailable):
        desk.call(desk.auths.ValidateCredentialsInGuest)
    desk.rig.booted(desk.vm)
    desk.call(desk.auths.ValidateCredentialsInGuest)
    desk.vm.tools_installed = False
    with pytest.raises(vim.fault.GuestOperationsUnavailable):
        desk.start("true")


@pytest.mark.parametrize(
    ("privilege", "act"),
    [
        ("Query", lambda desk: desk.call(desk.auths.ValidateCredentialsInGuest)),
        ("Execute", lambda desk: desk.start("true")),
        ("Modify", lambda desk: desk.call(desk.files.CreateTemporaryDirectoryInGuest, "a", "b")),
    ],
)
def test_each_takes_its_privilege(desk: Desk, privilege: str, act: Callable[[Desk], Any]) -> None:
    desk.rig.lab.faults.lacking.add(f"VirtualMachine.GuestOperations.{privilege}")
    with pytest.raises(vim.fault.NoPermission):
        act(desk)


def test_a_program_leaves_its_streams_in_files(desk: Desk) -> None:
    folder = desk.call(desk.files.CreateTemporaryDirectoryInGuest, "vgpu-cfg-", "")
    pid = desk.start(f"umask 077; sudo -n -- cat /etc/os-release </dev/null >'{folder}/out' 2>'{folder}/err'")
    ended = desk.process(pid)
    assert (ended.exitCode, ended.owner, ended.name) == (0, "ubuntu", "sh")
    assert desk.get(f"{folder}/out").startswith(b"ID=ubuntu")
    assert desk.get(f"{folder}/err") == b""
    assert desk.process(desk.start("exit-of-nobody")).exitCode == 127
    listed = desk.call(desk.files.ListFilesInGuest, folder)
    assert [one.path for one in listed.files] == [".", "..", "err", "out"]
    desk.call(desk.files.DeleteDirectoryInGuest, folder, True)
    with pytest.raises(vim.fault.FileNotFound):
        desk.call(desk.files.ListFilesInGuest, folder)
    clock = desk.rig.lab.clock
    clock.wait(clock.now() + 301, desk.rig.lab.changed)
    assert not desk.call(desk.programs.ListProcessesInGuest, [pid])


def test_a_bundle_is_staged_by_guest_operations(desk: Desk) -> None:
    for path, (text, mode) in bundle(RUNTIME).items():
        assert desk.put("/tmp/file", text.encode(), overwrite=True) == 200
        folder = path.rpartition("/")[0]
        pid = desk.start(f"sudo -n sh -c 'mkdir -p {folder}; mv /tmp/file {path}; chmod {mode:o} {path}'")
        assert desk.process(pid).exitCode == 0
    pid = desk.start(f"sudo -n -- {STAGE} --run w1 </dev/null >/dev/null 2>&1")
    assert desk.process(pid).exitCode is None
    desk.rig.booted(desk.vm)
    assert desk.process(pid).exitCode == 0
    assert (desk.rig.report()["run"], desk.rig.states()) == ("w1", {"containers": "done"})


def test_a_program_is_ended(desk: Desk) -> None:
    guest_of(desk.vm).ofed = "mlnx"
    pid = desk.start("ib_write_bw -d mlx5_0")
    assert desk.process(pid).exitCode is None
    desk.call(desk.programs.TerminateProcessInGuest, pid)
    assert desk.process(pid).exitCode == 143
    with pytest.raises(vim.fault.GuestProcessNotFound):
        desk.call(desk.programs.TerminateProcessInGuest, 4242)
    spec = vim.vm.guest.ProcessManager.ProgramSpec(programPath="/opt/none", arguments="")
    with pytest.raises(vim.fault.FileNotFound):
        desk.call(desk.programs.StartProgramInGuest, spec)


def test_files_are_put_moved_changed_and_removed(desk: Desk) -> None:
    assert desk.put("/tmp/a", b"one") == 200
    with pytest.raises(vim.fault.FileAlreadyExists):
        desk.put("/tmp/a", b"two")
    assert desk.get("/tmp/a") == b"one"
    desk.call(desk.files.MakeDirectoryInGuest, "/tmp/d/e", True)
    with pytest.raises(vim.fault.FileAlreadyExists):
        desk.call(desk.files.MakeDirectoryInGuest, "/tmp/d", False)
    desk.call(desk.files.MoveFileInGuest, "/tmp/a", "/tmp/d/b", False)
    rights = vim.vm.guest.FileManager.PosixFileAttributes(permissions=0o640)
    desk.call(desk.files.ChangeFileAttributesInGuest, "/tmp/d/b", rights)
    assert guest_of(desk.vm).files["/tmp/d/b"].mode == 0o640
    with pytest.raises(vim.fault.DirectoryNotEmpty):
        desk.call(desk.files.DeleteDirectoryInGuest, "/tmp/d", False)
    with pytest.raises(vim.fault.NotAFile):
        desk.call(desk.files.DeleteFileInGuest, "/tmp/d")
    desk.call(desk.files.DeleteFileInGuest, "/tmp/d/b")
    with pytest.raises(vim.fault.FileNotFound):
        desk.get("/tmp/d/b")


def test_a_user_writes_only_where_he_may(desk: Desk) -> None:
    for path in ("/etc/x", "/root/x"):
        with pytest.raises(vim.fault.GuestPermissionDenied):
            desk.put(path, b"x")
    assert desk.put("/home/ubuntu/x", b"x") == 200
    guest_of(desk.vm).touch_file("/root/secret", "s", mode=0o600)
    with pytest.raises(vim.fault.GuestPermissionDenied):
        desk.get("/root/secret")


def test_an_address_of_a_file_is_good_once_and_for_its_size(desk: Desk) -> None:
    rights = vim.vm.guest.FileManager.PosixFileAttributes()
    url = desk.call(desk.files.InitiateFileTransferToGuest, "/tmp/a", rights, 3, True)
    path = url.removeprefix("https://*:443")
    lab = desk.rig.lab
    assert lab.exchange("PUT", path.replace("token=", "token=x"), {}, b"one")[0] == 404
    assert lab.exchange("GET", path, {}, b"")[0] == 404
    assert lab.exchange("PUT", path, {}, b"four")[0] == 400
    assert lab.exchange("PUT", path, {}, b"one")[0] == 404
