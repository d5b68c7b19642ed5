"""nouveau, NVIDIA's driver and its licence: run for real in a folder, with stand-ins for NVIDIA's tools."""

from __future__ import annotations

import hashlib

import pytest

from tests.unit.staging.sandbox import Sandbox, context, spec_of
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import DriverModule, LicenceModule, NouveauModule
from vgpu_cfg.planning.guests.drivers import guest_drivers
from vgpu_cfg.staging.bundle import stage_module

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiJzZWNyZXQifQ.c2ln"
DEB = "https://repo.example.com/nvidia-linux-grid-580_580.95.05_amd64.deb"


def module_for(host: str, *, is_strict: bool = True) -> DriverModule:
    takes = guest_drivers(host, is_strict=is_strict)
    return DriverModule(branches=takes.branches, refused=takes.refused)


def with_driver(guest: Sandbox, version: str, *, answers: bool = True) -> None:
    guest.write("/sys/module/nvidia/version", f"{version}\n")
    say = f"echo {version}" if answers else "echo 'No devices were found'; exit 6"
    guest.stand_in("nvidia-smi", say)
    guest.stand_in("modprobe")


# ---------------------------------------------------------------- nouveau


def test_nouveau_is_kept_from_loading(guest: Sandbox) -> None:
    guest.stand_in("update-initramfs")
    guest.bring(guest.stage(NouveauModule()))
    assert (
        guest.read("/etc/modprobe.d/blacklist-nouveau.conf")
        == "blacklist nouveau\noptions nouveau modeset=0\n"
    )
    assert guest.calls("update-initramfs") == ["update-initramfs -u"]


def test_dracut_makes_the_initramfs_of_the_other_family(guest: Sandbox) -> None:
    guest.stand_in("dracut")
    guest.bring(guest.stage(NouveauModule()))
    assert guest.calls("dracut") == ["dracut --force"]


@pytest.mark.parametrize("line", ["blacklist nouveau", "install nouveau /bin/false"])
def test_a_template_with_its_own_blacklist_is_left_alone(guest: Sandbox, line: str) -> None:
    guest.write("/usr/lib/modprobe.d/nvidia.conf", f"{line}\n")
    assert guest.run(guest.stage(NouveauModule()), "check").status == 0


def test_a_comment_is_no_blacklist(guest: Sandbox) -> None:
    guest.write("/etc/modprobe.d/a.conf", "# blacklist nouveau\n")
    assert guest.run(guest.stage(NouveauModule()), "check").status == 1


def test_nouveau_that_does_not_let_go_costs_a_restart(guest: Sandbox) -> None:
    guest.stand_in("update-initramfs")
    guest.stand_in("modprobe", "exit 1")
    guest.write("/proc/modules", "nouveau 2000000 1 - Live 0x0\n")
    script = guest.stage(NouveauModule())
    ran = guest.run(script, "apply")
    assert (ran.status, ran.why) == (10, "nouveau holds the GPU until the guest restarts")
    guest.write("/proc/modules", "")
    assert guest.run(script, "check").status == 0


def test_an_initramfs_that_failed_is_made_at_the_next_try(guest: Sandbox) -> None:
    guest.stand_in("update-initramfs", "exit 1")
    script = guest.stage(NouveauModule())
    assert guest.run(script, "apply").status == 1
    assert guest.run(script, "check").status == 1
    guest.stand_in("update-initramfs")
    assert guest.run(script, "apply").status == 0
    assert guest.run(script, "check").status == 0


# ---------------------------------------------------------------- driver


def test_a_driver_of_the_hosts_branch_is_left_alone(guest: Sandbox) -> None:
    with_driver(guest, "570.133.20")
    assert guest.run(guest.stage(DriverModule(branches=("580", "570"))), "check").status == 0


@pytest.mark.parametrize(
    ("host", "taken", "refused"),
    [
        ("595", ("610", "595", "590", "580", "570", "535"), ("550", "525")),
        ("580", ("610", "580", "575", "570", "535"), ("595", "550", "525")),
        ("570", ("570", "550", "535"), ("580", "525")),
        ("550", ("550", "535"), ("570", "525", "470")),
        ("535", ("535", "525", "470"), ("550", "510")),
        ("610", ("610", "595", "535"), ()),
    ],
)
def test_a_templates_driver_is_held_against_the_hosts(
    guest: Sandbox, host: str, taken: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    script = guest.stage(module_for(host))
    for branch in (*taken, *refused):
        with_driver(guest, f"{branch}.10.01")
        assert guest.run(script, "check").status == (branch in refused), branch


def test_a_plan_file_that_relaxes_the_rule_relaxes_the_templates_check(guest: Sandbox) -> None:
    with_driver(guest, "550.54.15")
    assert guest.run(guest.stage(module_for("580")), "check").status == 1
    assert guest.run(guest.stage(module_for("580", is_strict=False)), "check").status == 0


def test_without_a_known_branch_any_driver_will_do(guest: Sandbox) -> None:
    with_driver(guest, "470.1")
    assert guest.run(guest.stage(DriverModule()), "check").status == 0


def test_a_wrong_branch_is_named_with_those_that_the_host_takes(guest: Sandbox) -> None:
    with_driver(guest, "550.54.15")
    script = guest.stage(DriverModule(branches=("580", "570"), refused=("550",)))
    assert guest.run(script, "check").status == 1
    ran = guest.run(script, "apply")
    assert ran.status == 1
    assert ran.why.startswith(
        "the guest's driver 550.54.15 is from branch 550, but the host driver supports 580 or 570: specify a"
    )


def test_no_driver_and_no_package(guest: Sandbox) -> None:
    ran = guest.run(guest.stage(DriverModule(branches=("580",))), "apply")
    assert (ran.status, ran.why) == (
        1,
        "NVIDIA's driver is not in the template: specify its package in guest.driver",
    )


def test_nvidia_smis_complaint_is_no_version(guest: Sandbox) -> None:
    guest.stand_in("nvidia-smi", 'echo "NVIDIA-SMI has failed because it couldn\'t communicate"; exit 9')
    assert guest.run(guest.stage(DriverModule()), "check").why == "NVIDIA's driver is not installed"


def test_a_package_is_fetched_checked_and_installed(guest: Sandbox) -> None:
    guest.stand_in("curl", 'while [ "$1" != -o ]; do shift; done; printf driver >"$2"')
    there = 'mkdir -p "$ROOT/sys/module/nvidia"; echo 580.95.05 >"$ROOT/sys/module/nvidia/version"'
    guest.stand_in("apt-get", f'case "$*" in *install*) {there} ;; esac')
    guest.stand_in("nvidia-smi", 'cat "$ROOT/sys/module/nvidia/version"')
    guest.stand_in("modprobe")
    digest = hashlib.sha256(b"driver").hexdigest()
    guest.bring(guest.stage(DriverModule(package=DEB, sha256=digest, branches=("580",))))
    called = guest.calls()
    assert any(f"--url {DEB}" in line for line in called)
    assert any(
        line.endswith("install -- " + str(guest.path("/var/lib/vgpu-cfg/packages/driver.deb")))
        for line in called
    )
    assert not guest.path("/var/lib/vgpu-cfg/packages/driver.deb").exists()


@pytest.mark.parametrize(
    ("package", "sha256", "curl", "why"),
    [
        (DEB, "", "exit 22", f"the download of {DEB} failed"),
        ("/srv/driver.deb", "", ":", "there is no file /srv/driver.deb in the guest"),
        (DEB, "1" * 64, 'while [ "$1" != -o ]; do shift; done; printf x >"$2"', f"the SHA-256 of {DEB}"),
    ],
)
def test_a_package_that_cannot_be_had(guest: Sandbox, package: str, sha256: str, curl: str, why: str) -> None:
    guest.stand_in("curl", curl)
    guest.stand_in("apt-get")
    ran = guest.run(guest.stage(DriverModule(package=package, sha256=sha256)), "apply")
    assert ran.status == 1
    assert ran.why.startswith(why)
    assert not list(guest.path("/var/lib/vgpu-cfg/packages").iterdir())


def test_a_package_by_a_path_with_any_signs_is_installed(guest: Sandbox) -> None:
    path = "/srv/a b'$(touch pwned)`x`%.run"
    guest.write(path, 'echo "installer $*" >>"$VGPU_CFG_WHY"; mkdir -p "$VGPU_CFG_ROOT/sys/module/nvidia"\n'
                      'echo 580.1 >"$VGPU_CFG_ROOT/sys/module/nvidia/version"\n')  # fmt: skip
    guest.stand_in("apt-get")
    guest.stand_in("nvidia-smi", 'cat "$ROOT/sys/module/nvidia/version"')
    guest.stand_in("modprobe")
    guest.bring(guest.stage(DriverModule(package=path, branches=("580",))))
    assert any("linux-headers-" in line for line in guest.calls("apt-get"))


def test_a_package_of_the_wrong_branch(guest: Sandbox) -> None:
    guest.write("/srv/driver.rpm", "")
    guest.stand_in("dnf", 'mkdir -p "$ROOT/sys/module/nvidia"; echo 550.1 >"$ROOT/sys/module/nvidia/version"')
    module = DriverModule(package="/srv/driver.rpm", branches=("580",), refused=("550",))
    ran = guest.run(guest.stage(module), "apply")
    assert (ran.status, ran.why) == (
        1,
        "the guest's driver 550.1 is from branch 550, but the host driver supports 580: "
        "the package is from the wrong branch",
    )


def test_a_package_of_the_other_family(guest: Sandbox) -> None:
    guest.write("/srv/driver.rpm", "")
    guest.stand_in("apt-get")
    ran = guest.run(guest.stage(DriverModule(package="/srv/driver.rpm")), "apply")
    assert (ran.status, ran.why) == (1, "the driver package is an .rpm, which this guest does not support")


def test_no_space_for_the_driver(guest: Sandbox) -> None:
    guest.write("/srv/driver.rpm", "")
    guest.without("df")
    guest.stand_in("df", "printf 'F 1024 U A C M\\ntmp 9 9 2097152 9 /\\n'")
    ran = guest.run(guest.stage(DriverModule(package="/srv/driver.rpm")), "apply")
    assert ran.why == "/var has less than the 3 GiB of free space that the driver requires"


def test_a_driver_that_needs_a_restart_asks_for_it(guest: Sandbox) -> None:
    with_driver(guest, "580.1", answers=False)
    ran = guest.run(guest.stage(DriverModule(branches=("580",))), "apply")
    assert (ran.status, ran.why) == (
        10,
        "the driver 580.1 is installed and is loaded when the guest restarts",
    )


@pytest.mark.parametrize(
    "package", ["driver.deb", "ssh://a/b.deb", "/a\nb.deb", "https://a b.deb", "/srv/a.zip"]
)
def test_a_package_that_cannot_be_is_refused(package: str) -> None:
    module = DriverModule(package=package)
    with pytest.raises(GuestError):
        stage_module(module, context(spec_of(module)))


def test_words_that_are_no_branch_or_digest_are_refused() -> None:
    for module in (DriverModule(branches=("5$(x)",)), DriverModule(package=DEB, sha256="abc")):
        with pytest.raises(GuestError):
            stage_module(module, context(spec_of(module)))


# ---------------------------------------------------------------- licence


LICENCE = LicenceModule(token="lic")


def licensed(status: str) -> str:
    return f"echo '    vGPU Software Licensed Product'; echo '        License Status         : {status}'"


@pytest.fixture
def gpu(guest: Sandbox) -> Sandbox:
    guest.write("/etc/nvidia/gridd.conf.template", "# FeatureType=0\nServerAddress=\nFeatureType=1\n")
    guest.stand_in(
        "nvidia-smi", f'[ ! -f "$ROOT/started" ] || {licensed("Licensed (Expiry: 2027-01-01 0:0:0 GMT)")}'
    )
    guest.stand_in("systemctl", 'case "$*" in *restart*) : >"$ROOT/started" ;; esac')
    guest.stand_in("sleep")
    return guest


def test_the_licence_is_asked_for(gpu: Sandbox) -> None:
    gpu.bring(gpu.stage(LICENCE, lic=TOKEN))
    assert gpu.read("/etc/nvidia/gridd.conf") == "# FeatureType=0\nServerAddress=\nFeatureType=4\n"
    token = "/etc/nvidia/ClientConfigToken/client_configuration_token_vgpu-cfg.tok"
    assert gpu.read(token) == TOKEN
    assert gpu.mode(token) == 0o744
    assert "systemctl restart nvidia-gridd" in gpu.calls()
    assert not gpu.path("/var/lib/vgpu-cfg/secrets/licence-token").exists()


def test_another_token_is_put_in_its_place(gpu: Sandbox) -> None:
    gpu.bring(gpu.stage(LICENCE, lic=TOKEN))
    gpu.bring(gpu.stage(LICENCE, lic="another"))
    assert gpu.read("/etc/nvidia/ClientConfigToken/client_configuration_token_vgpu-cfg.tok") == "another"


def test_the_token_is_in_no_script_and_no_output(gpu: Sandbox) -> None:
    script = gpu.stage(LICENCE, lic=TOKEN)
    assert TOKEN not in script
    for half in ("check", "apply", "check"):
        assert TOKEN not in str(gpu.run(script, half))
    assert not any(TOKEN in line for line in gpu.calls())


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("Unlicensed (Unrestricted)", "Unlicensed (Unrestricted), which is the grace period"),
        ("Unlicensed (Restricted)", "Unlicensed (Restricted), so the GPU is throttled"),
        ("Unlicensed", "not licensed after 2 minutes: Unlicensed."),
    ],
)
def test_a_refused_token(gpu: Sandbox, status: str, told: str) -> None:
    gpu.stand_in("nvidia-smi", licensed(status))
    gpu.stand_in("journalctl", "echo 'Failed to acquire license: token has expired'; echo bye")
    ran = gpu.run(gpu.stage(LICENCE, lic=TOKEN), "apply")
    assert ran.status == 1
    assert told in ran.why
    assert "token has expired" in ran.why
    assert len(gpu.calls("sleep")) == 59


def test_one_gpu_without_a_licence_is_one_too_many(gpu: Sandbox) -> None:
    gpu.bring(gpu.stage(LICENCE, lic=TOKEN))
    gpu.stand_in("nvidia-smi", f"{licensed('Licensed (Expiry: x)')}; {licensed('Unlicensed')}")
    ran = gpu.run(gpu.stage(LICENCE, lic=TOKEN), "check")
    assert (ran.status, ran.why) == (1, "the GPU is not licensed: Unlicensed")


def test_a_driver_that_knows_no_licences(gpu: Sandbox) -> None:
    gpu.stand_in("nvidia-smi", "echo Product")
    assert "names no licence status" in gpu.run(gpu.stage(LICENCE, lic=TOKEN), "apply").why


def test_a_token_without_a_value_or_a_type_that_is_none() -> None:
    for secrets in ({}, {"lic": " \n"}):
        with pytest.raises(GuestError, match="the client configuration token has no value"):
            stage_module(LICENCE, context(spec_of(LICENCE), **secrets))
    module = LicenceModule(token="lic", feature_type=3)
    with pytest.raises(GuestError, match="does not support FeatureType 3"):
        stage_module(module, context(spec_of(module), lic=TOKEN))
