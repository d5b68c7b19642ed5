"""The tutorial of the first real apply works as written, from an admin's empty folder, over HTTPS.

The lab stands for the admin's vCenter: a server with a certificate, two accounts, and roles that limit them.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

import pytest

from tests.architecture.sources import ROOT
from tests.cli import test_pages
from tests.cli.command_line import CommandLine, Ran, Seen
from tests.cli.conftest import Serve
from tests.cli.roles import Given
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.roles import READ_ONLY, Permission

pytestmark = pytest.mark.enable_socket

PAGE = ROOT / test_pages.FIRST_APPLY
VCENTER = "vc1.example.com"
READER = "vgpu-reader@vsphere.local"
FENCE = re.compile(r"^```(console|yaml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w.-]+)\n")
WRITES_ROLES = "vgpu-cfg privileges first.yaml --output govc > roles.sh"


@dataclass
class Admin:
    """Types the commands of the page, as somebody who has nothing but the accounts."""

    run: CommandLine
    server: LabServer
    typed: list[str] = field(default_factory=list)

    def __call__(self, *words: str) -> Ran:
        """Run a command, and name the server in what it prints as the page does."""
        self.typed.append(words[0])
        ran = self.run(*words)
        return Ran(ran.code, self.as_page(ran.out), self.as_page(ran.err))

    def as_page(self, text: str) -> str:
        """Name the server as the page does: both names are equally long, so columns stay."""
        assert len(self.address) == len(VCENTER)
        return text.replace(self.address, VCENTER)

    @property
    def address(self) -> str:
        """Where the lab is served."""
        return f"127.0.0.1:{self.server.port}"

    def write(self, name: str, text: str) -> None:
        """Write a file of the page."""
        self.run.write(name, text.replace(VCENTER, self.address))

    def make_accounts(self) -> None:
        """Do step 2: the read-only account, the authority, the passwords."""
        lab = self.server.lab
        with lab.transaction():
            lab.state.permissions.append(Permission(lab.state.root, READER, READ_ONLY))
            lab.state.touch()
        assert self.server.certificate is not None
        self.run.write("vc1-ca.pem", self.server.certificate.certificate_pem.decode())
        for account in ("reader", "writer"):
            self.run.write(f"{account}.password", "lab\n")

    def grant(self) -> None:
        """Do step 5 as an administrator: give the second account the roles that are listed, and no others."""
        script = self.run.done("privileges", "first.yaml", "--output=govc").out
        given = Given(self.run, "first.yaml")
        assert all(f"role {role['name']} " in script for role in given.roles)
        given.add(self.server.lab)


def test_the_first_apply_works_as_written(
    vgpu_cfg: CommandLine, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(vgpu_cfg, serve("two-a100"))
    monkeypatch.setenv("COLUMNS", str(test_pages.WIDTH))
    admin.make_accounts()
    before = Seen.of(admin.server.lab.state)
    text = PAGE.read_text(encoding="utf-8")
    pieces: list[str] = []
    differences: list[str] = []
    at = 0
    for match in FENCE.finditer(text):
        kind, shown = match.groups()
        if kind == "yaml" and (name := FILE_NAME.match(shown)):
            admin.write(name[1], shown)
        elif kind == "console":
            pieces += [text[at : match.start(2)], *test_pages.play(shown, admin, differences)]
            at = match.end(2)
        elif WRITES_ROLES in shown:
            admin.grant()
    if test_pages.MUST_REWRITE:
        PAGE.write_text("".join([*pieces, text[at:]]), encoding="utf-8")
        pytest.skip("written anew")
    assert differences == []
    assert {"inventory", "plan", "apply", "verify", "destroy"} <= set(admin.typed)
    after = Seen.of(admin.server.lab.state)
    assert (after.vms, after.rules) == (before.vms, before.rules)


def test_no_command_of_the_page_is_left_out() -> None:
    blocks = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    shell = [line for kind, shown in blocks if kind == "sh" for line in shown.splitlines()]
    assert [line for line in shell if shlex.split(line)[0] == "vgpu-cfg"] == [WRITES_ROLES]
