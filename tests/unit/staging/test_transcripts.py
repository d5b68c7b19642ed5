"""Staged and exported texts, and refusals, as stored ones; REWRITE_TRANSCRIPTS=1 writes them anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sections import left_over, section
from tests.unit.staging import test_export_formats as export
from tests.unit.staging.sandbox import context, spec_of
from tests.unit.staging.test_validators import MODULES, OTHERS
from tests.unit.staging.training import test_shell as training
from tests.unit.staging.training.sandbox import context_for
from vgpu_cfg.errors import DoesNotFit, GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import (
    AptMirror,
    CudaModule,
    DriverModule,
    GuestModule,
    LicenceModule,
    LimitsModule,
    NetworkModule,
    NicFirmwareModule,
    OfedModule,
    RoceModule,
    SharedFolderModule,
    SiteModule,
    SiteProxy,
    TimeModule,
    TrafficModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    RankModule,
    RegistryModule,
    SshMeshModule,
    ToolkitModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.staging import values
from vgpu_cfg.staging.bundle import bundle_files, stage_module
from vgpu_cfg.staging.cloud_init import metadata, user_data
from vgpu_cfg.staging.export import FORMATS
from vgpu_cfg.staging.rendering import quote_sh, quote_systemd
from vgpu_cfg.staging.values import package_of

FOLDER = Path(__file__).with_name("transcripts")
TEMPLATES = Path(__file__).parents[3] / "vgpu_cfg" / "staging" / "templates"
SIGNS = "a b\n"
IMAGE = training.IMAGE
MESH = training.MESH


@cache
def fixed_lines() -> frozenset[str]:
    """Return the literal lines of a template that depend on no condition other than the half."""
    lines: set[str] = set()
    for path in (path for path in TEMPLATES.rglob("*") if path.is_file()):
        depth = 0
        for line in path.read_text(encoding="utf-8").splitlines():
            opened = len(re.findall(r"{%-? (?:if(?! half)|for)\b", line))
            if depth == 0 and not opened:
                lines.add(line.strip())
            depth = max(0, depth + opened - len(re.findall(r"{%-? end(?:if|for)\b", line)))
    return frozenset(lines)


def filled(text: str) -> str:
    """Return the lines of a text that no template holds: the values that code puts in."""
    return "\n".join(line for line in text.splitlines() if line.strip() not in fixed_lines())


def staged(module: GuestModule, *others: GuestModule) -> str:
    made = stage_module(module, context_for(module, *others, secrets={"ngc": "n", "lic": "l"}))
    parts = [f"-- check\n{filled(made.check)}", f"-- apply\n{filled(made.apply)}"]
    parts += [f"-- {one.path} {one.mode:o}\n{filled(one.content)}" for one in made.files]
    return "\n".join(part.rstrip() for part in parts)


def staged_texts() -> Iterator[tuple[str, GuestModule, tuple[GuestModule, ...]]]:
    """Yield every module with odd values; those of training for each container runtime."""
    for number, module in enumerate((*MODULES, *OTHERS)):
        yield f"{number} {module.kind}", module, ()
    for runtime in ("docker", "containerd", "apptainer"):
        listed = training.modules(runtime)
        worker = next(one for one in listed if isinstance(one, WorkerModule))
        for number, module in enumerate(listed):
            is_joined = isinstance(module, LauncherModule | SshMeshModule | ImageModule)
            is_another = "runtime" in type(module).model_fields and not isinstance(module, MonitoringModule)
            if runtime == "docker" or is_another:
                yield f"{runtime} {number} {module.kind}", module, (worker, MESH) if is_joined else ()


STAGED = {name: (module, others) for name, module, others in staged_texts()}


@pytest.mark.parametrize("name", STAGED)
def test_a_module_puts_its_values_into_its_templates(name: str) -> None:
    module, others = STAGED[name]
    text = staged(module, *others)
    assert text == section(FOLDER / "staged.txt", name, text)


def test_a_guest_is_told_by_its_metadata_and_user_data() -> None:
    modules = (*MODULES[:4], LicenceModule(token="lic"))
    spec = spec_of(*modules, user_data="#cloud-config\npackages: [htop]\nruncmd: [[reboot]]\n")
    made = context(spec, lic="l")
    kinds = [module.kind for module in modules]
    files = bundle_files(made, kinds)
    listed = "".join(f"{one.path} {one.mode:o}\n" for one in files)
    text = (
        f"{metadata(spec)}\n{filled(user_data(made, files))}\n{listed}{files[0].content}\n{files[1].content}"
    )
    assert text.strip("\n") == section(FOLDER / "staged.txt", "a guest", text)


# ---------------------------------------------------------------- exports

HOSTS = {
    "pair": export.PAIR,
    "head": export.WITH_HEAD,
    "uneven": export.UNEVEN,
    "strange": export.STRANGE,
    "absent": export.PAIR.model_copy(
        update={
            "workers": (
                export.host(1, exists=False, address="", domain="example.com", cluster="gpu", port=2022),
                export.host(
                    2, driver_in_guest=False, esxi_host="esx-01", cores_per_socket=8, memory_mib=65_536
                ),
            ),
            "absent": ("hvd-01",),
            "lost": ("hvd-02",),
            "framework": "pytorch",
            "mounts": ("/srv/data:/data",),
        }
    ),
    "rdma": export.PAIR.model_copy(
        update={
            "workers": tuple(export.host(number, has_rdma=True) for number in (1, 2)),
            "image": IMAGE,
            "environment": {"NCCL_DEBUG": "INFO"},
        }
    ),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("hosts", HOSTS)
def test_an_export_reads_as_it_is_stored(name: str, hosts: str) -> None:
    text = ""
    for options in ({}, {"user": "ada", "key_file": "~/.ssh/ada", "port": 4000}):
        try:
            exported = export.written(name, HOSTS[hosts], **options)
        except DoesNotFit as error:
            text += f"{error.message}\n{error.subject}\n{error.remedy}\n"
            continue
        text += "".join(f"-- {file}\n{content}" for file, content in exported.files.items())
        text += "".join(f"note: {note}\n" for note in exported.notes)
    assert text.strip("\n") == section(FOLDER / "exports.txt", f"{name} {hosts}", text)


# ---------------------------------------------------------------- refusals

NO_NIC = GuestNic()
REFUSED: dict[str, Callable[[], object] | GuestModule] = {
    "host name": lambda: values.host_name(SIGNS),
    "domain": lambda: values.domain_name(SIGNS),
    "user": lambda: values.user_name(SIGNS),
    "interface": lambda: values.interface_name(SIGNS),
    "mac": lambda: values.mac_address(SIGNS),
    "driver": lambda: values.driver_name(SIGNS),
    "package": lambda: values.package(SIGNS),
    "package of a kind": lambda: package_of("/srv/a.zip", ("deb", "rpm"), "a driver"),
    "sha256": lambda: values.sha256(SIGNS),
    "key": lambda: values.key_line(SIGNS),
    "address": lambda: values.address(SIGNS),
    "cidr": lambda: values.cidr(SIGNS),
    "cidr without its prefix": lambda: values.cidr("10.0.0.1"),
    "shell text": lambda: quote_sh("a\0b"),
    "unit text": lambda: quote_systemd("a\nb"),
    "module that is not there": lambda: bundle_files(context(spec_of()), ["cuda", "roce"]),
    "secret without a value": RegistryModule(server="nvcr.io", user="u", password="none"),
    "shared folder": SharedFolderModule(role="client", server="10.0.0.1", path=SIGNS),
    "shared folder without clients": SharedFolderModule(role="server"),
    "registry's user": RegistryModule(server="nvcr.io", user=SIGNS, password="ngc"),
    "registry": RegistryModule(server=SIGNS, user="u", password="ngc"),
    "login shell": UsersModule(users=(UserEntry.model_construct(name="ada", shell=SIGNS),)),
    "account twice": UsersModule(users=(UserEntry(name="vgpu-cfg"),)),
    "apt mirror": SiteModule(apt=AptMirror(url=SIGNS)),
    "apt mirror of security": SiteModule(apt=AptMirror(url="http://m.example.com", security=SIGNS)),
    "apt suite": SiteModule(apt=AptMirror(url="http://m.example.com", suites=(SIGNS,))),
    "dnf": SiteModule(dnf=(SIGNS,)),
    "host of a site": SiteModule(hosts=(SIGNS,)),
    "proxy": SiteModule(proxy=SiteProxy(http=SIGNS)),
    "no proxy": SiteModule(proxy=SiteProxy(http="http://p.example.com:1", no_proxy=(SIGNS,))),
    "mirror of a registry": SiteModule(runtime="docker", registry_mirrors={SIGNS: "https://m.example.com"}),
    "time server": TimeModule(servers=(SIGNS,)),
    "shared memory": LimitsModule(shared_memory=SIGNS),
    "firmware parameter": NicFirmwareModule(nics=(training.NIC,), parameters={SIGNS: "1"}),
    "firmware value": NicFirmwareModule(nics=(training.NIC,), parameters={"ATS_ENABLED": SIGNS}),
    "toolkit's repository": ToolkitModule(repository=SIGNS),
    "driver branch": DriverModule(branches=(SIGNS,)),
    "CUDA": CudaModule(version=SIGNS),
    "CUDA's repository": CudaModule(version="12.8", repository=SIGNS),
    "feature type": LicenceModule(token="lic", feature_type=9),
    "NIC": NetworkModule(nics=(NO_NIC,)),
    "stack": OfedModule(stack="mlnx", package="/srv/a.deb"),
    "RoCE": RoceModule(nics=(training.NIC,), dscp=99),
    "traffic": TrafficModule(nic=training.NIC, link_mbps=500, control_mbps=500),
    "image": ImageModule(image=SIGNS),
    "archive": ImageModule(image=IMAGE, archive=SIGNS),
    "path of a mount": WorkerModule(image=IMAGE, mounts=("/srv/a,b:/data",)),
    "clients of a shared folder": SharedFolderModule(role="server", clients=(SIGNS,)),
    "server of a shared folder": SharedFolderModule(role="client", server=SIGNS),
    "export without workers": lambda: export.written("mpi", export.PAIR.model_copy(update={"workers": ()})),
    "export of a host without a name": lambda: export.written(
        "mpi", export.PAIR.model_copy(update={"workers": (export.host(1, host_name=""),)})
    ),
    "port": lambda: values.port(0, "training.port"),
    "network": lambda: values.network(SIGNS, "training.network"),
    "variable of a unit": lambda: values.variable_name(SIGNS, "training.environment"),
    "worker's image": WorkerModule(image=SIGNS),
    "worker's mount": WorkerModule(image=IMAGE, mounts=("/srv:/opt/vgpu-cfg",)),
    "variable": RankModule(environment={SIGNS: "1"}),
    "launcher without workers": LauncherModule(workers=()),
    "worker without a slot": LauncherModule(workers=(TrainWorker(name="hvd-01", slots=0),)),
    "mesh without a name": SshMeshModule(vm="hvd-01", peers=(MeshPeer(vm="hvd-02", names=()),)),
    "image of monitoring": MonitoringModule(role="server", images={"a": "b"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_value_and_the_remedy(name: str) -> None:
    refused = REFUSED[name]
    with pytest.raises((DoesNotFit, GuestError)) as caught:
        refused() if callable(refused) else staged(refused)
    error = caught.value
    text = f"{error.message}\n{error.subject}\n{error.remedy}"
    assert text == section(FOLDER / "refusals.txt", name, text)


def test_no_section_is_left_over() -> None:
    exports = {f"{name} {hosts}" for name in FORMATS for hosts in HOSTS}
    assert left_over(FOLDER / "refusals.txt", REFUSED) == []
    assert left_over(FOLDER / "staged.txt", {*STAGED, "a guest"}) == []
    assert left_over(FOLDER / "exports.txt", exports) == []
