"""Makes every recording and cassette anew, from the lab and from vcsim: `script/record-fixtures`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.contract.conftest import Server, running_vcsim
from tests.recorded import cassettes
from vgpu_cfg.cli.app import main
from vgpu_cfg.cli.labs import open_lab_of
from vgpu_cfg.errors import LoginFailed, VersionTooOld
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import Credentials
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDINGS = HERE / "recordings"
EVIDENCE = HERE / "evidence"
LABS_WITH_EVIDENCE = ("mixed-fleet", "mixed-size-l40s", "nic-groups", "hgx-2xh100")
PASSWORD = "Pass.of-a.simulator"
VCSIM = ("-user", "reader", "-password", PASSWORD, "-vms", "1")


def vgpu_cfg(*words: str | Path, code: int = 0) -> None:
    """Run a command in this process."""
    sys.argv = ["vgpu-cfg", *map(str, words)]
    print("$", *sys.argv, file=sys.stderr)  # noqa: T201 - a script tells what it does
    try:
        main()
    except SystemExit as ended:
        if ended.code != code:
            raise


def record(name: str, *words: str | Path) -> None:
    """Record a server."""
    vgpu_cfg("inventory", "--force", "--record", RECORDINGS / f"{name}.json.gz", *words)


def record_labs() -> None:
    """Record estates of the lab; one of them full."""
    vgpu_cfg("apply", "--yes", shutil.copy(ROOT / "tests/cli/plans/pair.yaml", "pair.yaml"))
    forget_ids("two-a100")
    record("lab-full-pool", "--server", "lab:two-a100")
    record("lab-others-desktops", "--server", "lab:mixed-fleet")
    for estate in ("old-api", "hosts-lost", "silent-numa"):
        record(f"lab-{estate}", "--server", f"lab:{estate}.yaml")


def forget_ids(estate: str) -> None:
    """Leave VMs as version 0.1.0 marked them: with the plan's name alone."""
    lab = open_lab_of(estate)
    for vm in lab.state.all(VirtualMachine):
        if mark := vm.extra_config.get(MARK_PLAN_KEY):
            vm.extra_config[MARK_PLAN_KEY] = mark.partition(" ")[0]
            lab.state.touch(vm)
    lab.save()


def record_example() -> None:
    """Record what the example of a site's repository works on, as its README tells."""
    vgpu_cfg(
        "inventory",
        "--force",
        "--record",
        ROOT / "examples/site-repository/vcenter.json.gz",
        "--server",
        "lab:mixed-fleet",
    )


def record_evidence() -> None:
    """Keep evidence as users send it; so far of the lab only."""
    for estate in LABS_WITH_EVIDENCE:
        vgpu_cfg("doctor", "--server", f"lab:{estate}", "--evidence", EVIDENCE / f"lab-{estate}")


def record_vcsim() -> None:
    """Record vcsim, which has no GPU."""
    with running_vcsim([*VCSIM, "-listen", "127.0.0.1:18989"]) as server:
        record(
            "vcsim-no-gpu",
            *("--server", f"{server.host}:{server.port}", "--user", server.user),
            *("--thumbprint", server.thumbprint),
        )


@contextlib.contextmanager
def served(estate: str) -> Iterator[tuple[Lab, Server]]:
    """Serve an estate in memory."""
    lab = open_lab(estate, clock=VirtualClock())
    with LabServer(lab, credentials=Credentials(password=PASSWORD)) as server:
        yield (
            lab,
            Server(
                url=server.url,
                host="127.0.0.1",
                port=server.port,
                user=cassettes.USER,
                password=PASSWORD,
                thumbprint=server.thumbprint,
                certificate="",
            ),
        )


def tape(name: str, server: Server, password: str = PASSWORD) -> None:
    """Record one reading of a server over HTTPS."""
    (cassettes.FOLDER / f"{name}.yaml").unlink(missing_ok=True)
    with cassettes.cassette(name, records=True):
        cassettes.read(
            f"{server.host}:{server.port}",
            user=server.user,
            password=password,
            thumbprint=server.thumbprint,
        )


def record_cassettes() -> None:
    """Record the HTTPS path: a good session, one that ends midway, a wrong password, old APIs."""
    with served("two-a100") as (lab, server):
        tape("lab-two-a100", server)
        with contextlib.suppress(LoginFailed):
            tape("lab-wrong-password", server, "not the password")
        lab.faults.add("RetrievePropertiesEx", nth=2, kind="session_expired")
        tape("lab-session-ends", server)
    with served("old-api.yaml") as (_, server):
        tape("lab-old-api", server)
    with running_vcsim(VCSIM) as server:
        tape("vcsim-no-gpu", server)
    with running_vcsim([*VCSIM, "-api-version", "6.0"]) as server, contextlib.suppress(VersionTooOld):
        tape("vcsim-too-old", server)


def run(*parts: Callable[[], None]) -> None:
    """Run the parts with a state of their own, where the estates lie."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "estates", folder, dirs_exist_ok=True)
        for name in [name for name in os.environ if name.startswith("VGPU_CFG_")]:
            del os.environ[name]
        os.environ |= {
            "VGPU_CFG_STATE_FOLDER": str(Path(folder) / "state"),
            "VGPU_CFG_CONFIG": str(Path(folder) / "none.yaml"),
            "VGPU_CFG_LAB_SPEED": "0",
            "VGPU_CFG_PASSWORD": PASSWORD,
        }
        with contextlib.chdir(folder):
            for part in parts:
                part()


if __name__ == "__main__":
    run(record_labs, record_example, record_evidence, record_vcsim, record_cassettes)
