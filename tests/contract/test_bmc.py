"""What is asked of BMCs, before sushy-emulator: a Redfish service for tests, over TLS, with an account."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import killed_at_the_end
from vgpu_cfg.bmc.redfish import RedfishPowers
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.errors import BmcError, CertificateRejected
from vgpu_cfg.lab.soap.server import make_certificate
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import ServerPower
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

pytestmark = pytest.mark.long("what judges BMCs: script/build-redfish fetches it")

ENV = Path(__file__).resolve().parents[2] / ".cache" / "redfish" / "env" / "bin"
SYSTEM = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
PASSWORD = "hidden"
_HASH = "import bcrypt; print(bcrypt.hashpw(b'hidden', bcrypt.gensalt(4)).decode())"


@dataclass(frozen=True)
class Emulator:
    address: str
    thumbprint: str

    def power(self, password: str = PASSWORD, **fields: str) -> ServerPower:
        bmc = BmcRef(address=self.address, user="admin", password="bmc", thumbprint=self.thumbprint)
        return RedfishPowers(
            lambda bmc: HttpsTransport(
                bmc.address, trust=Trust(thumbprint=bmc.thumbprint), limits=Limits(timeout_seconds=30)
            ),
            {"bmc": password},
        ).connect(bmc.model_copy(update=fields))


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    if not (ENV / "sushy-emulator").exists():
        pytest.skip("sushy-emulator is not there: run script/build-redfish")
    folder = tmp_path_factory.mktemp("redfish")
    certificate = make_certificate()
    (folder / "crt.pem").write_bytes(certificate.certificate_pem)
    (folder / "key.pem").write_bytes(certificate.key_pem)
    words = [str(ENV / "python"), "-c", _HASH]
    made = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    (folder / "htpasswd").write_text(f"admin:{made.stdout.strip()}\n", encoding="ascii")
    config = folder / "config.py"
    config.write_text(
        f"SUSHY_EMULATOR_AUTH_FILE = {str(folder / 'htpasswd')!r}\n"
        f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n",
        encoding="ascii",
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(str(ENV / "sushy-emulator"), "--fake", "--config", str(config), "-i", "127.0.0.1", "-p", str(port)),
        *("--ssl-certificate", str(folder / "crt.pem"), "--ssl-key", str(folder / "key.pem")),
    ]
    with (
        (folder / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=log, stderr=log, text=True) as process,
        killed_at_the_end(process),
    ):
        assert _listens(port), (folder / "log").read_text(encoding="utf-8")
        yield Emulator(f"127.0.0.1:{port}", certificate.thumbprint)


def _listens(port: int) -> bool:
    """Wait until somebody listens, at most a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
    return False


def test_a_server_that_is_off_is_switched_on(emulator: Emulator) -> None:
    power = emulator.power()
    assert power.is_off()
    power.switch_on()


def test_the_system_is_found_by_its_id(emulator: Emulator) -> None:
    assert isinstance(emulator.power(system=SYSTEM).is_off(), bool)
    with pytest.raises(BmcError, match="no system named 'other'"):
        emulator.power(system="other")


def test_a_wrong_password_is_told(emulator: Emulator) -> None:
    with pytest.raises(BmcError, match="access denied for admin"):
        emulator.power("wrong")


def test_no_password_goes_to_another_certificate(emulator: Emulator) -> None:
    with pytest.raises(CertificateRejected):
        emulator.power(thumbprint="AB" * 32)
