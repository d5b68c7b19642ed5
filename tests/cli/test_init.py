"""`export --init`: a first plan file that plans without errors, and a context for its vCenter."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.conftest import Serve
from vgpu_cfg.documents import read_document


@pytest.mark.parametrize(
    ("estate", "profile"),
    [("two-a100", "grid_a100-40c"), ("mig-a100", "grid_a100-7-40c"), ("mixed-size-l40s", "nvidia_l40s-48c")],
)
def test_a_first_plan_has_no_errors(estate: str, profile: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("export", "--init", "--server", f"lab:{estate}", "-o", "new.yaml")
    document = read_document(vgpu_cfg.folder / "new.yaml").data
    assert (document["vcenter"], document["vms"][0]["gpus"]) == (f"lab:{estate}", profile)
    assert vgpu_cfg("plan", "new.yaml", "--exit-code").code == 10
    # The lab needs no context, and a file that is there stays.
    assert not (vgpu_cfg.folder / "config.yaml").exists()
    again = vgpu_cfg("export", "--init", "--server", f"lab:{estate}", "-o", "new.yaml")
    assert (again.code, "already exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("estate", "message"), [("no-gpu", "no free vGPU"), ("image-4xa100", "no VM template")]
)
def test_what_is_missing_is_named(estate: str, message: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("export", "--init", "--server", f"lab:{estate}", "-o", "new.yaml")
    assert ran.code == 5
    assert message in ran.err
    assert not (vgpu_cfg.folder / "new.yaml").exists()


@pytest.mark.enable_socket
def test_the_vcenter_becomes_a_context(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    words = ("--server", f"127.0.0.1:{server.port}", "--user", "administrator@vsphere.local")
    vgpu_cfg.done(
        "export",
        "--init",
        "-o",
        "new.yaml",
        *words,
        "--thumbprint",
        server.thumbprint,
        VGPU_CFG_PASSWORD="lab",
    )
    assert read_document(vgpu_cfg.folder / "new.yaml").data["vcenter"] == "default"
    assert vgpu_cfg("plan", "new.yaml", "--exit-code", VGPU_CFG_PASSWORD="lab").code == 10
    # A config file that is there stays as it is, and the plan file has the address.
    before = (vgpu_cfg.folder / "config.yaml").read_text()
    vgpu_cfg.done(
        "export", "--init", "-o", "b.yaml", *words, "--thumbprint", server.thumbprint, VGPU_CFG_PASSWORD="lab"
    )
    assert (vgpu_cfg.folder / "config.yaml").read_text() == before
    assert read_document(vgpu_cfg.folder / "b.yaml").data["vcenter"] == f"127.0.0.1:{server.port}"
