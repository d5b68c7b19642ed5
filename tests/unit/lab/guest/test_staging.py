"""The stage command: modules in their order and time, the report, restarts, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.lab.guest.guest_rig import (
    DRIVER,
    FOLDER,
    IMAGE,
    REPORT,
    SECRETS,
    STAGE,
    UNIT,
    GuestRig,
    bundle,
    guestinfo,
    image,
    module,
    training,
    user_data,
)
from tests.unit.lab.rig import estate_of
from vgpu_cfg.lab.guest.staging.command import report_text
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.host import Host

RUNTIME = module("containers", runtime="docker", minimum_free_gib=0)
NOUVEAU = module("nouveau")
DRIVERS = module("driver", package=DRIVER, sha256="", branches=["580", "570"], refused=["470"])


@pytest.fixture
def rig() -> GuestRig:
    return GuestRig()


def test_a_worker_is_staged_from_the_first_boot_on(rig: GuestRig) -> None:
    begun = rig.lab.clock.now()
    guest = rig.staged(*training(1, rig.mac()), secrets=SECRETS)
    report = rig.report()
    assert (report["spec"], report["run"], report["state"]) == ("0123456789", "first", "hand")
    assert rig.states() == {
        "host-name": "present",
        **dict.fromkeys(
            ("hosts", "network", "ssh-mesh", "nouveau", "driver", "licence", "ofed", "peermem"), "done"
        ),
        "nic-firmware": "hand",
        **dict.fromkeys(("roce", "containers", "toolkit", "image", "worker", "launcher"), "done"),
    }
    assert guest.boots == 2
    assert "restart the host" in rig.why("nic-firmware")
    assert not [path for path in guest.files if path.startswith(f"{FOLDER}/secrets/")]
    assert f"{FOLDER}/pending" not in guest.files
    assert json.loads(guest.files[f"{FOLDER}/report.json"].content) == report
    assert rig.lab.clock.now() - begun > 300  # a driver, an RDMA stack and an image take their time


def test_the_report_is_written_as_it_goes(rig: GuestRig) -> None:
    host = rig.host("esx-roce-01.lab")
    vm = rig.clone("a", host=host.name, extra=guestinfo(user_data(bundle(RUNTIME, module("limits")))))
    rig.done(vm, "PowerOnVM_Task")
    while REPORT not in vm.extra_config:
        assert rig.lab.wait()
    assert rig.report()["state"] == "running"
    assert rig.states() == {"containers": "waiting", "limits": "waiting"}
    while rig.states()["containers"] == "waiting":
        assert rig.lab.wait()
    assert (rig.report()["state"], rig.states()["limits"]) == ("running", "waiting")
    rig.booted(vm)
    assert (rig.report()["state"], rig.states()["limits"]) == ("done", "done")


def test_without_the_unit_nobody_goes_on_after_a_restart(rig: GuestRig) -> None:
    files = bundle(NOUVEAU, RUNTIME)
    del files[UNIT]
    vm = rig.up("a", guestinfo(user_data(files)))
    assert rig.report()["state"] == "reboot"
    assert rig.states() == {"nouveau": "reboot", "containers": "waiting"}
    assert guest_of(vm).boots == 2


def test_a_second_run_finds_everything_and_a_changed_module_is_staged_alone(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(RUNTIME, module("image", **image())))))
    shell = rig.shell(vm)
    assert shell.execute(f"{STAGE} --run again")[0] == 0
    assert rig.report()["run"] == "again"
    assert rig.states() == {"containers": "present", "image": "present"}
    other = image(image="nvcr.io/nvidia/tensorflow:23.03-tf1-py3")
    for path, (text, mode) in bundle(RUNTIME, module("image", **other)).items():
        shell.write_file(path, text.encode(), mode)
    assert shell.execute(f"{STAGE} --run third image")[0] == 0
    assert rig.states() == {"image": "done"}
    assert guest_of(vm).images == [IMAGE, other["image"]]


def test_statuses_of_the_command(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(RUNTIME))))
    shell = rig.shell(vm)
    assert shell.execute(f"{STAGE} nobody")[0] == 1
    assert shell.execute(f"{STAGE} --what")[0] == 2
    for path, (text, mode) in bundle(NOUVEAU, RUNTIME).items():
        shell.write_file(path, text.encode(), mode)
    assert shell.execute(STAGE)[0] == 10


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": 2}, "of version 2"),
        ({"modules": [{"name": "unheard", "digest": "0" * 10, "script": "/x", "parameters": {}}]}, "unheard"),
        ({"modules": [{"name": "limits", "digest": "no", "script": "/x", "parameters": {}}]}, "digest"),
        ({"modules": [{"name": "limits"}]}, "cannot be read"),
    ],
)
def test_a_manifest_that_breaks_the_contract_is_not_staged(
    rig: GuestRig, change: dict[str, Any], reason: str
) -> None:
    files = bundle(RUNTIME)
    text, mode = files[f"{FOLDER}/manifest.json"]
    files[f"{FOLDER}/manifest.json"] = (json.dumps(json.loads(text) | change), mode)
    vm = rig.up("a", guestinfo(user_data(files)))
    assert REPORT not in vm.extra_config
    assert reason in guest_of(vm).files["/var/log/vgpu-cfg.log"].content


def test_a_script_that_is_missing_and_a_parameter_that_is_missing_fail(rig: GuestRig) -> None:
    files = bundle(RUNTIME)
    del files[f"{FOLDER}/modules/01-containers.sh"]
    rig.up("a", guestinfo(user_data(files)))
    assert "01-containers.sh is not in the guest" in rig.why("containers")
    rig.up("b", guestinfo(user_data(bundle(module("containers", runtime="docker")))), number=2)
    assert rig.why("containers", "b") == "the manifest does not specify minimum_free_gib for containers"


def test_a_secret_that_others_may_read_is_refused(rig: GuestRig) -> None:
    files = bundle(module("registry", ["pw"], server="nvcr.io", user="u", password="pw"), secrets={"pw": "x"})
    files[f"{FOLDER}/secrets/pw"] = ("x", 0o644)
    rig.up("a", guestinfo(user_data(files)))
    assert rig.why("registry") == "/var/lib/vgpu-cfg/secrets/pw is readable by other users"


TEMPLATE = """\
about: a
clusters:
- name: gpu
  hosts:
  - names: [esx-roce-01.lab, esx-roce-02.lab]
    gpus: [{{board: A100, pci_id: "0000:21:00.0"}}]
    nics: [{{vmnic: vmnic2, pci_id: "0000:24:00.0"}}]
folders: [training]
templates:
- {{name: ubuntu-22.04-plain, disks: [128GiB], guest: {{{guest}}}}}
internet: {{{internet}}}
"""

NGC = "registries: {nvcr.io: {password: good, expired: [old]}}"
LOGIN = module("registry", ["ngc"], server="nvcr.io", user="$oauthtoken", password="ngc")
LICENCE = module("licence", ["token"], token="token", feature_type=4)
FAULTS: list[Any] = [
    ("free: 10GiB", "", [RUNTIME, module("image", **image())], {},
     "the disk has 9 GiB free, the image needs 40"),
    ("", "registries: {nvcr.io: {reachable: false}}", [RUNTIME, module("image", **image())], {},
     "the registry nvcr.io cannot be reached"),
    ("", "unreachable: [nvcr.io]", [RUNTIME, module("image", **image())], {}, "nvcr.io cannot be reached"),
    ("", NGC, [RUNTIME, LOGIN], {"ngc": "old"},
     "the registry nvcr.io rejects the login: the token has expired"),
    ("", NGC, [RUNTIME, LOGIN], {"ngc": "bad"}, "the registry nvcr.io rejects the login of oauthtoken"),
    ("", NGC, [RUNTIME, module("image", **image())], {},
     "the registry nvcr.io requires a login for nvidia/tensorflow:21.07-tf1-py3"),
    ("", "", [RUNTIME, module("image", **image(image="nvcr.io/nvidia/pytorch:24.01-py3"))], {},
     "the image does not contain Horovod: horovodrun --check-build fails in it"),
    ("", "registries: {nvcr.io: {images: {}}}", [RUNTIME, module("image", **image())], {},
     "the registry nvcr.io has no image nvidia/tensorflow:21.07-tf1-py3"),
    ("driver: 470.239.06", "",
     [module("driver", package="", sha256="", branches=["580", "570"], refused=["470"])], {},
     "the guest driver 470.239.06 is from branch 470, but the host supports 580, 570"),
    ("", "", [module("driver", package="", sha256="", branches=[], refused=[])], {},
     "the template has no NVIDIA driver, and no package is specified"),
    ("", "unreachable: [files.lab]", [NOUVEAU, DRIVERS], {}, "files.lab cannot be reached"),
    ("driver: 580.95.05", "licence: expired", [LICENCE], {"token": "T"},
     "the license server rejects the token: it has expired"),
    ("", "", [module("toolkit", runtime="docker", repository="https://x.lab")], {},
     "docker is not installed"),
    ("", "", [module("network", nics=[{"mac": "00:00:00:00:00:01"}])], {},
     "no network interface has the MAC 00:00:00:00:00:01"),
    ("", "unreachable: [archive.ubuntu.com]", [RUNTIME], {}, "archive.ubuntu.com cannot be reached"),
]  # fmt: skip


@pytest.mark.parametrize(("guest", "internet", "modules", "secrets", "reason"), FAULTS)
def test_what_stands_against_a_module_is_told(
    tmp_path: Path, guest: str, internet: str, modules: list[Any], secrets: dict[str, str], reason: str
) -> None:
    text = TEMPLATE.format(guest=guest, internet=internet)
    rig = GuestRig(estate_of(text, tmp_path))
    rig.staged(*modules, module("limits"), secrets=secrets)
    assert rig.report()["state"] == "failed"
    assert rig.states()["limits"] == "waiting"
    failed = next(one for one in rig.report()["modules"] if one["state"] == "failed")
    assert failed["why"] == reason
    assert "old" not in json.dumps(rig.report()) or not secrets


def test_nothing_of_a_secret_is_told(rig: GuestRig) -> None:
    guest = rig.staged(*training(1, rig.mac()), secrets=SECRETS)
    told = [rig.vm("a").extra_config[REPORT]] + [
        file.content for path, file in guest.files.items() if path.startswith("/var/log/")
    ]
    assert not [secret for secret in SECRETS.values() for text in told if secret in text]


def test_a_reason_has_the_characters_of_the_contract() -> None:
    assert report_text('say "no"; $(rm -rf /)\n' + "x" * 300) == ("say no; (rm -rf /)" + "x" * 300)[:200]


def test_firmware_is_set_in_the_guest_and_in_force_after_the_host_restarted(rig: GuestRig) -> None:
    nic = {"mac": rig.mac(), "driver": ""}
    modules = [module("nic-firmware", nics=[nic], parameters={"ATS_ENABLED": "true"})]
    rig.staged(*modules)
    port = next(one for one in rig.find(Host, "esx-roce-01.lab").nics if one.mac == rig.mac())
    assert (port.firmware["ATS_ENABLED"].current, port.firmware["ATS_ENABLED"].next_boot) == (
        "False(0)",
        "True(1)",
    )
    shell = rig.shell(rig.vm("a"))
    assert shell.execute(STAGE)[0] == 20
    rig.bring_firmware()
    assert shell.execute(STAGE)[0] == 0
    assert rig.states() == {"nic-firmware": "present"}


def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    first = GuestRig(folder=tmp_path / "lab")
    host = first.host("esx-roce-01.lab")
    extra = guestinfo(user_data(bundle(RUNTIME, module("image", **image()))))
    vm = first.clone("a", host=host.name, extra=extra)
    first.done(vm, "PowerOnVM_Task")
    while first.lab.state.waking and first.states_or_none("a") != "done":
        assert first.lab.wait()
    from tests.unit.lab.rig import Rig

    second = Rig("two-hosts-roce", folder=tmp_path / "lab")
    assert second.lab.state.waking == first.lab.state.waking
    guest = second.booted(second.vm("a"))
    assert guest.images == [IMAGE]
    assert guest.staging is not None
    assert guest.staging.status == 0
    first.lab.settle()
    assert guest_of(first.vm("a")) == guest
