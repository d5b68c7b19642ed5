"""The CUDA Toolkit: run for real in a folder, with package managers that are stood in; pins by apt itself."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.staging.sandbox import Sandbox, tool
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import CudaModule
from vgpu_cfg.model.guests.training_modules import RankModule

NVCC = "/usr/local/cuda-12.8/bin/nvcc"
PROFILE, ENVIRONMENT = "/etc/profile.d/vgpu-cfg-cuda.sh", "/opt/vgpu-cfg/cuda.env"
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"
KEYS = "/usr/share/keyrings"
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-vgpu-cfg-cuda"
MAKE = f"""
case " $* " in *" cuda-toolkit-12-8 "*)
    mkdir -p "$ROOT{NVCC.rpartition("/")[0]}"; printf '#!/bin/sh\\n' >"$ROOT{NVCC}"; chmod +x "$ROOT{NVCC}" ;;
*cuda-keyring.deb*) mkdir -p "$ROOT{KEYS}"; : >"$ROOT{KEYS}/cuda-archive-keyring.gpg" ;;
esac
"""
CURL = """
for last; do :; done
while [ "$1" != -o ]; do shift; done
case $last in
*.pub) printf '%s\\n' 'Version: GnuPG v2' key >"$2" ;;
*) echo deb >"$2" ;;
esac
"""
KEYRING = hashlib.sha256(b"deb\n").hexdigest()
"""Of what the stand-in fetches for cuda-keyring."""
RPM_KEY = hashlib.sha256(b"key\n").hexdigest()
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'


def on(guest: Sandbox, manager: str, release: str) -> None:
    guest.write("/etc/os-release", release)
    guest.stand_in("curl", CURL)
    guest.stand_in("df", 'echo "Filesystem 1024-blocks Used Available"; echo "/dev/sda 9 9 99999999"')
    guest.stand_in("uname", "echo x86_64")
    guest.stand_in(manager, MAKE)


def test_from_nvidias_repository_on_ubuntu(guest: Sandbox) -> None:
    on(guest, "apt-get", UBUNTU)
    guest.bring(guest.stage(CudaModule(version="12.8", keyring_sha256=KEYRING)))
    called = guest.calls()
    assert any(
        line.endswith(f"--url {NVIDIA}/ubuntu2404/x86_64/cuda-keyring_1.1-1_all.deb") for line in called
    )
    assert [line.split(" install -- ")[1] for line in called if " install -- " in line] == [
        f"{guest.root}/var/lib/vgpu-cfg/packages/cuda-keyring.deb",
        "cuda-toolkit-12-8",
    ]
    listed = guest.read("/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list")
    key = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    assert listed == f"deb [signed-by={key}] {NVIDIA}/ubuntu2404/x86_64/ /\n"


@pytest.mark.parametrize(
    ("release", "why"),
    [
        (UBUNTU, "the SHA-256 of https://developer"),
        ('ID=debian\nVERSION_ID="14"\n', "the checksum of NVIDIA's cuda-keyring for debian14 is unknown"),
    ],
)
def test_a_keyring_that_is_not_nvidias_is_not_installed(guest: Sandbox, release: str, why: str) -> None:
    on(guest, "apt-get", release)
    ran = guest.run(guest.stage(CudaModule(version="12.8")), "apply")
    assert ran.why.startswith(why)
    assert not any("cuda-keyring.deb" in line for line in guest.calls("apt-get"))


def test_from_a_mirror_on_rocky(guest: Sandbox) -> None:
    on(guest, "dnf", ROCKY)
    mirror = "https://mirror.example.com/cuda"
    guest.bring(guest.stage(CudaModule(version="12.8", repository=mirror, keyring_sha256=RPM_KEY)))
    assert "dnf -y -q install -- cuda-toolkit-12-8" in guest.calls("dnf")
    lines = guest.read("/etc/yum.repos.d/cuda-rhel9.repo").splitlines()
    assert lines[0] == "[cuda-rhel9-x86_64]"
    assert lines[1].startswith("excludepkgs=cuda cuda-drivers* ")
    assert lines[3:] == [f"baseurl={mirror}/rhel9/x86_64", "enabled=1", "gpgcheck=1", f"gpgkey=file://{KEY}"]
    assert guest.read(KEY) == "key\n"


@pytest.mark.parametrize(
    ("release", "why"),
    [
        (
            ROCKY,
            f"the SHA-256 of {NVIDIA}/rhel9/x86_64/D42D0685.pub, excluding Version lines, is not d0664fbb",
        ),
        (
            ROCKY.replace("9.4", "10.1"),
            f"the SHA-256 of {NVIDIA}/rhel10/x86_64/CDF6BA43.pub, excluding Version lines, is not afbea87d",
        ),
        (ROCKY.replace("9.4", "11.0"), "the key for NVIDIA's CUDA repository for rhel11 is unknown"),
    ],
)
def test_packages_are_not_trusted_by_a_key_that_is_not_nvidias(
    guest: Sandbox, release: str, why: str
) -> None:
    on(guest, "dnf", release)
    ran = guest.run(guest.stage(CudaModule(version="12.8")), "apply")
    assert ran.why.startswith(why)
    assert not guest.path(KEY).exists()
    assert not any("install" in line for line in guest.calls("dnf"))


def test_a_local_repository_as_a_package(guest: Sandbox) -> None:
    on(guest, "apt-get", UBUNTU)
    guest.write("/srv/cuda-repo-ubuntu2404-12-8-local.deb", "deb")
    guest.write("/var/cuda-repo-ubuntu2404-12-8-local/cuda-1234-keyring.gpg", "key")
    guest.bring(guest.stage(CudaModule(version="12.8", package="/srv/cuda-repo-ubuntu2404-12-8-local.deb")))
    assert guest.read("/usr/share/keyrings/cuda-1234-keyring.gpg") == "key"
    assert guest.calls("curl") == []


def test_the_runfile_installs_no_driver(guest: Sandbox) -> None:
    on(guest, "apt-get", UBUNTU)
    script = f'echo "$*" >"$VGPU_CFG_ROOT/words"; set -- cuda-toolkit-12-8; ROOT=$VGPU_CFG_ROOT; {MAKE}'
    guest.write("/srv/cuda_12.8.run", script)
    guest.bring(guest.stage(CudaModule(version="12.8", package="/srv/cuda_12.8.run")))
    assert guest.read("/words") == "--silent --toolkit\n"


def test_a_toolkit_that_the_template_has_gets_its_path_only(guest: Sandbox) -> None:
    on(guest, "apt-get", UBUNTU)
    guest.write(NVCC, "#!/bin/sh\n", 0o755)
    guest.bring(guest.stage(CudaModule(version="12.8")))
    assert guest.calls("apt-get") == guest.calls("curl") == []
    assert guest.read(PROFILE) == guest.read(ENVIRONMENT)


def test_the_path_is_set_once_and_only_where_the_toolkit_is(tmp_path: Path, guest: Sandbox) -> None:
    guest.stage(CudaModule(version="12.8"))
    text = guest.read("/var/lib/vgpu-cfg/files/cuda.sh")

    def sourced(text: str) -> str:
        words = f'PATH=/bin\nunset LD_LIBRARY_PATH\n{text}{text}echo "$PATH ${{LD_LIBRARY_PATH:-}}"\n'
        done = subprocess.run(
            [tool("dash"), "-u"], input=words, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout.strip()

    assert sourced(text.replace("/usr/local", str(tmp_path))) == "/bin"
    (tmp_path / "cuda-12.8/bin").mkdir(parents=True)
    home = f"{tmp_path}/cuda-12.8"
    assert sourced(text.replace("/usr/local", str(tmp_path))) == f"{home}/bin:/bin {home}/lib64"


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("ID=arch\n", "NVIDIA has no CUDA repository for this distribution"),
        (UBUNTU, "cuda-toolkit-12-8 could not be installed"),
    ],
)
def test_what_cannot_be_had_says_why(guest: Sandbox, release: str, why: str) -> None:
    on(guest, "apt-get", release)
    guest.stand_in("apt-get", 'case " $* " in *" cuda-toolkit-"*) exit 100 ;; esac')
    ran = guest.run(guest.stage(CudaModule(version="12.8", keyring_sha256=KEYRING)), "apply")
    assert ran.status == 1
    assert ran.why.startswith(why)


def test_a_full_disk_is_told_before(guest: Sandbox) -> None:
    on(guest, "apt-get", UBUNTU)
    guest.stand_in("df", 'echo "Filesystem 1024-blocks Used Available"; echo "/dev/sda 9 9 1048576"')
    ran = guest.run(guest.stage(CudaModule(version="12.8")), "apply")
    assert ran.why == "/usr/local has less than the 12 GiB of free space that the CUDA Toolkit requires"


@pytest.mark.parametrize("wrong", [{"version": "12"}, {"version": "12.8", "package": "/srv/cuda.tgz"}])
def test_what_a_script_cannot_carry_is_refused(guest: Sandbox, wrong: dict[str, str]) -> None:
    with pytest.raises(GuestError):
        guest.stage(CudaModule.model_validate(wrong))


def test_every_process_of_a_training_has_it_on_its_path(guest: Sandbox, tmp_path: Path) -> None:
    text = CudaModule(version="12.8")
    guest.stage(text)
    home = tmp_path / "local/cuda-12.8"
    (home / "bin").mkdir(parents=True)
    profile = guest.read("/var/lib/vgpu-cfg/files/cuda.sh").replace("/usr/local", str(tmp_path / "local"))
    guest.write(ENVIRONMENT, profile)
    guest.stage(RankModule())
    program = next(
        one
        for one in guest.path("/var/lib/vgpu-cfg/files/rank").iterdir()
        if "usage: rank" in one.read_text()
    )
    ran = guest.run(program.read_text(), "sh", "-c", 'echo "$PATH"')
    assert ran.output.startswith(f"{home}/bin:"), ran


PACKAGES = ("cuda-toolkit-12-8", "cuda-drivers", "cuda-12-8", "nvidia-driver-570", "nvidia-container-toolkit")


def test_apt_takes_no_driver_from_the_repository(guest: Sandbox, tmp_path: Path) -> None:
    """Asked of apt itself, with a repository that calls itself as NVIDIA's does."""
    policy = shutil.which("apt-cache")
    if policy is None:
        pytest.skip("apt-cache is not here: install the package apt")
    on(guest, "apt-get", UBUNTU)
    guest.bring(guest.stage(CudaModule(version="12.8", keyring_sha256=KEYRING)))
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    entries = [
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nFilename: ./{name}.deb\nSize: 1\n"
        f"SHA256: {'0' * 64}\nDescription: x\n"
        for name in PACKAGES
    ]
    (shelf / "Packages").write_text("\n".join(entries))
    (shelf / "Release").write_text(
        "Origin: NVIDIA\nLabel: NVIDIA CUDA\nDate: Mon, 23 Nov 2026 08:00:00 UTC\n"
    )
    root = tmp_path / "apt"
    for folder in ("etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
        (root / folder).mkdir(parents=True)
    (root / "status").write_text("")
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{shelf} ./\n")
    shutil.copy(guest.path("/etc/apt/preferences.d/vgpu-cfg-cuda"), root / "etc/apt/preferences.d/")
    words = [
        f"Dir::Etc={root}/etc/apt",
        f"Dir::State={root}/state",
        f"Dir::Cache={root}/cache",
        f"Dir::Log={root}/log",
        f"Dir::State::status={root}/status",
        "APT::Sandbox::User=root",
        "Acquire::AllowInsecureRepositories=1",
    ]
    options = [part for word in words for part in ("-o", word)]
    updated = subprocess.run(
        [tool("apt-get"), *options, "update"], capture_output=True, text=True, check=False, timeout=120
    )
    assert updated.returncode == 0, updated.stderr
    done = subprocess.run(
        [policy, *options, "policy", *PACKAGES], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, str] = {}
    name = ""
    for line in done.stdout.splitlines():
        name = line.removesuffix(":") if not line.startswith(" ") else name
        if line.strip().startswith("Candidate:"):
            found[name] = line.split()[-1]
    assert [name for name, version in found.items() if version == "1"] == [PACKAGES[0], PACKAGES[-1]]
    assert len(found) == len(PACKAGES)
