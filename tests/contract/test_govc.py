"""govc, somebody else's client, against the lab as `vgpu-cfg lab serve` serves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Govc, Server, running_vcsim
from vgpu_cfg.lab import estate_names, open_lab
from vgpu_cfg.lab.simulation.clock import LabClock, VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust
from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog

MakeGovc = Callable[[Server], Govc]


@contextmanager
def served(estate: str, clock: LabClock | None = None) -> Iterator[Server]:
    """Serve an estate over HTTPS for the length of a block, on a clock that never waits.

    Who polls a task without waiting for it needs another, which goes on.
    """
    with LabServer(open_lab(estate, clock=clock or VirtualClock())) as server:
        assert server.certificate is not None
        yield Server(
            url=server.url,
            host="127.0.0.1",
            port=server.port,
            user=LAB_CREDENTIALS.user,
            password=LAB_CREDENTIALS.password,
            thumbprint=server.thumbprint,
            certificate=server.certificate.certificate_pem.decode(),
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("estate", estate_names())
def test_every_estate_can_be_looked_at(govc: MakeGovc, estate: str) -> None:
    with served(estate) as server:
        run = govc(server)
        assert "VMware vCenter Server" in run("about")
        paths = run("find", "/").splitlines()
        assert "/dc1" in paths
        for host in run("find", "/", "-type", "h").split()[:2]:
            assert host.rsplit("/", 1)[1] in run("host.info", "-host", host)
            run("gpu.host.info", "-host", host)
        for vm in run("find", "/", "-type", "m").split()[:3]:
            assert vm.rsplit("/", 1)[1] in run("vm.info", vm)
            assert run("device.info", "-vm", vm)


def test_it_shows_a_gpu_and_what_can_be_made_on_it(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        run = govc(server)
        shown = run("gpu.host.info", "-host", "esx-a100-01.lab")
        assert "0000:21:00.0" in shown
        assert "0000:e2:00.0" in shown
        profiles = run("gpu.host.profile.ls", "-host", "esx-a100-01.lab")
        assert "grid_a100-40c" in profiles
        assert "grid_a100-1-5c" not in profiles


def test_it_makes_a_vm_with_a_vgpu_run_and_deletes_it(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        run = govc(server)
        host = "esx-a100-01.lab"
        run("vm.clone", "-vm", "ubuntu-22.04-efi", "-on=false", "-host", host, "-ds", "vsan", "by-govc")
        mmio = ["-e", "pciPassthru.use64bitMMIO=TRUE", "-e", "pciPassthru.64bitMMIOSizeGB=128"]
        run("vm.change", "-vm", "by-govc", "-memory-pin=true", *mmio)
        run("gpu.vm.add", "-vm", "by-govc", "-profile", "grid_a100-40c")
        run("vm.power", "-on", "by-govc")
        info = json.loads(run("vm.info", "-json", "by-govc"))
        assert info["virtualMachines"][0]["runtime"]["powerState"] == "poweredOn"
        run("vm.power", "-off", "by-govc")
        run("vm.destroy", "by-govc")
        assert "by-govc" not in run("find", "/", "-type", "m")


def test_it_ties_a_vm_to_hosts_and_moves_it(govc: MakeGovc) -> None:
    first, second = "esx-nvlink-01.lab", "esx-nvlink-02.lab"
    with served("bridges-2xa100") as server:
        run = govc(server)
        run("vm.clone", "-vm", "ubuntu-22.04-efi", "-on=false", "-host", first, "-ds", "vsan", "by-govc")
        run("vm.migrate", "-host", second, "by-govc")
        assert f"Host:         {second}" in " ".join(run("vm.info", "by-govc").splitlines())
        in_cluster = ("-cluster", "gpu", "-name")
        run("cluster.group.create", *in_cluster, "vms", "-vm", "by-govc")
        run("cluster.group.create", *in_cluster, "hosts", "-host", first)
        rule = ("-vm-host", "-vm-group", "vms", "-host-affine-group", "hosts", "-enable", "-mandatory")
        run("cluster.rule.create", *in_cluster, "tie", *rule)
        assert "tie" in run("cluster.rule.ls", "-cluster", "gpu")
        assert "by-govc" in run("cluster.group.ls", *in_cluster, "vms")
        run("vm.migrate", "-host", first, "by-govc")
        run("vm.power", "-on", "by-govc")
        run("cluster.rule.remove", *in_cluster, "tie")
        run("cluster.group.remove", *in_cluster, "vms")
        assert "tie" not in run("cluster.rule.ls", "-cluster", "gpu")
        run("vm.migrate", "-host", second, "by-govc")
        assert second in run("vm.info", "by-govc")


@pytest.mark.parametrize("kind", ["lab", "vcsim"])
def test_what_a_cluster_sets_for_a_vm(govc: MakeGovc, kind: str) -> None:
    """The same is told to the lab and to vcsim, and both show the same."""
    with running_vcsim() if kind == "vcsim" else served("two-a100") as server:
        run = govc(server)
        if "cluster.override.info" not in run("-h"):
            pytest.skip("govc was built without its override commands: run script/build-contract")
        vm, cluster = ("DC0_C0_RP0_VM0", "DC0_C0") if kind == "vcsim" else ("by-govc", "gpu")
        if kind == "lab":
            on = ("-host", "esx-a100-01.lab", "-ds", "vsan")
            run("vm.clone", "-vm", "ubuntu-22.04-efi", "-on=false", *on, vm)

        def shown() -> list[tuple[object, ...]]:
            found = json.loads(run("cluster.override.info", "-cluster", cluster, "-json"))["overrides"]
            return [
                (entry["name"], entry["drs"]["enabled"], entry["drs"].get("behavior"), _priority(entry))
                for entry in found.values()
            ]

        assert shown() == []
        change = ("cluster.override.change", "-cluster", cluster, "-vm", vm)
        run(*change, "-drs-enabled", "-drs-mode", "manual", "-ha-restart-priority", "high")
        assert shown() == [(vm, True, "manual", "high")]
        run(*change, "-drs-mode", "partiallyAutomated")
        run(*change, "-ha-restart-priority", "lowest")
        assert shown() == [(vm, True, "partiallyAutomated", "lowest")]
        run("cluster.override.remove", "-cluster", cluster, "-vm", vm)
        assert shown() == []


def _priority(entry: dict[str, Any]) -> object:
    return entry["das"]["dasSettings"]["restartPriority"]


def test_it_sets_the_options_of_a_vm(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        run = govc(server)
        run(
            "vm.clone", "-vm", "ubuntu-22.04-efi", "-on=false", "-host", "esx-a100-01.lab", "-ds", "vsan", "a"
        )
        hot_add = ("-cpu-hot-add-enabled", "-memory-hot-add-enabled")
        run("vm.change", "-vm", "a", *hot_add, "-latency", "high", "-cpu.reservation", "11176", "-memory-pin")
        run("device.boot", "-vm", "a", "-delay", "2000", "-secure")
        run("fields.add", "-type", "VirtualMachine", "course")
        run("fields.set", "course", "ml-2026", "/dc1/vm/a")
        config = json.loads(run("vm.info", "-json", "a"))["virtualMachines"][0]["config"]
        assert (config["cpuHotAddEnabled"], config["memoryHotAddEnabled"]) == (True, True)
        assert config["latencySensitivity"]["level"] == "high"
        assert config["cpuAllocation"]["reservation"] == 11176
        boot = config["bootOptions"]
        assert (boot["bootDelay"], boot["efiSecureBootEnabled"]) == (2000, True)
        assert "ml-2026" in run("fields.info", "-n", "course", "/dc1/vm/a")
        run("vm.power", "-on", "a")


def test_it_takes_away_what_is_around_a_vm_and_crashes_at_nothing(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        run = govc(server)
        run("vm.clone", "-vm", "ubuntu-22.04-efi", "-on=false", "-host", "esx-a100-01.lab", "a")
        for name in ("first", "second"):
            run("snapshot.create", "-vm", "a", name)
        run("snapshot.remove", "-vm", "a", "first")
        assert run("snapshot.tree", "-vm", "a").split()[0] == "second"
        run("snapshot.remove", "-vm", "a", "*")
        assert run("snapshot.tree", "-vm", "a").split() == []
        run("pool.create", "/dc1/host/gpu/Resources/team")
        run("pool.destroy", "/dc1/host/gpu/Resources/team")
        assert "team" not in run("find", "/", "-type", "p")
        assert "vsphere.local" in run("role.usage", "Admin").casefold()
        with pytest.raises(AssertionError, match="Cannot complete file creation"):
            run("datastore.mkdir", "-ds", "vsan", "folder")


def test_it_finds_the_key_providers(govc: MakeGovc, tmp_path: Path) -> None:
    estate = tmp_path / "estate.yaml"
    estate.write_text(
        "about: a\nvcenter: {key_providers: [{name: own}]}\nclusters: [{name: c, hosts: [{name: h}]}]\n",
        encoding="utf-8",
    )
    for name, expected in ((str(estate), ["own"]), ("two-a100", [])):
        with served(name) as server:
            told = govc(server)("collect", "-json", "CryptoManagerKmip:CryptoManager", "kmipServers")
            found = json.loads(told)[0]["val"]["_value"] or []
            assert [provider["clusterId"]["id"] for provider in found] == expected


def test_it_works_in_a_guest(govc: MakeGovc, tmp_path: Path) -> None:
    with served("two-hosts-roce") as server:
        run = govc(server)
        if "guest.mkdir" not in run("-h"):
            pytest.skip("govc was built without its guest commands: run script/build-contract")
        run("vm.clone", "-vm", "no-cloud-init", "-on=true", "-waitip=true", "-host", "esx-roce-01.lab", "a")
        login = ("-vm", "a", "-l", "ubuntu:lab")
        run("guest.mkdir", *login, "-p", "/tmp/x/y")
        sent = tmp_path / "sent"
        sent.write_text("brought\n", encoding="ascii")
        run("guest.upload", *login, str(sent), "/tmp/x/y/file")
        assert run("guest.download", *login, "/tmp/x/y/file", "-") == "brought\n"
        assert "file" in run("guest.ls", *login, "/tmp/x/y")
        pid = run("guest.start", *login, "/bin/cat", "/tmp/x/y/file").strip()
        assert pid in run("guest.ps", *login, "-p", pid, "-X", "-x")
        run("guest.mv", *login, "/tmp/x/y/file", "/tmp/x/other")
        run("guest.chmod", *login, "0600", "/tmp/x/other")
        run("guest.rmdir", *login, "-r", "/tmp/x")


def test_it_shows_what_a_run_left_among_the_events(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        transport = HttpsTransport(f"{server.host}:{server.port}", trust=Trust(thumbprint=server.thumbprint))
        with Session(transport, server.host, server.user, server.password) as session:
            VCenterRunLog(session).write("vgpu-cfg: apply of depts began {}", "datacenter-2")
        shown = govc(server)("events", "-type", "GeneralUserEvent", "/dc1")
        assert "User logged event: vgpu-cfg: apply of depts began {}" in shown


MEASURED = """
about: a host whose GPU is measured
vcenter: {statistics_level: 4}
clusters:
- name: gpu
  hosts:
  - name: esx-01.lab
    gpus: [{board: A100D, pci_id: "0000:21:00.0", day: [37.5]}]
vms:
- name: worker
  cpus: 8
  memory: 64GiB
  hardware_version: 21
  gpus: [grid_a100d-80c]
  extra_config: {pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}
"""


def test_it_reads_the_counters_of_gpus(govc: MakeGovc, tmp_path: Path) -> None:
    estate = tmp_path / "estate.yaml"
    estate.write_text(MEASURED)
    host = "/dc1/host/gpu/esx-01.lab"
    with served(str(estate)) as server:
        run = govc(server)
        assert "gpu.utilization.average" in run("metric.ls", host).split()
        shown = run("metric.sample", "-n", "3", host, "gpu.utilization.average", "gpu.power.used.average")
        rows = [line.split() for line in shown.splitlines()]
        name = ["esx-01.lab", "000:033:00.0"]
        assert [*name, "gpu.utilization.average", "37.50,37.50,37.50", "%"] in rows
        assert [*name, "gpu.power.used.average", "131,131,131", "W"] in rows
        kept = run("metric.sample", "-i", "300", "-n", "2", host, "gpu.utilization.average")
        assert "37.50,37.50" in kept
        told = run("metric.info", "-json", host, "gpu.temperature.average")
        assert '"celsius"' in told
        assert "Past Week" in run("metric.interval.info")


def test_it_makes_tags_and_sees_what_the_lab_attached(govc: MakeGovc) -> None:
    with served("mixed-fleet") as server:
        run = govc(server)
        assert set(run("tags.category.ls").split()) == {"Backup", "Team", "Rack"}
        assert json.loads(run("tags.category.info", "-json", "Backup"))[0]["cardinality"] == "SINGLE"
        assert set(run("tags.ls", "-c", "Backup").split()) == {"daily", "weekly", "none", "Backup"}
        assert set(run("tags.attached.ls", "-r", "vm/research-01").split()) == {"weekly", "research"}

        run("tags.category.create", "-m", "-t", "VirtualMachine", "Course")
        run("tags.create", "-c", "Course", "ml-2026")
        run("tags.attach", "-c", "Course", "ml-2026", "vm/plain-db")
        assert run("tags.attached.ls", "-r", "vm/plain-db").split() == ["ml-2026"]
        run("tags.detach", "-c", "Course", "ml-2026", "vm/plain-db")
        assert run("tags.attached.ls", "-r", "vm/plain-db").split() == []
        with pytest.raises(AssertionError):
            run("tags.attach", "-c", "Backup", "daily", "vm/research-01")
        with pytest.raises(AssertionError):
            run("tags.attach", "-c", "Rack", "r11", "vm/research-01")

        run("tags.update", "-d", "of the year", "-c", "Course", "ml-2026")
        assert (
            json.loads(run("tags.info", "-json", "-c", "Course", "ml-2026"))[0]["description"]
            == "of the year"
        )
        run("tags.rm", "-c", "Course", "ml-2026")
        run("tags.category.rm", "Course")
        assert "Course" not in run("tags.category.ls")

        run("vm.power", "-off", "research-01")
        run("vm.destroy", "research-01")
        assert run("tags.attached.ls", "research").split() == []


def test_it_sees_the_labs_content_libraries_and_what_a_vm_template_is(govc: MakeGovc) -> None:
    with served("mixed-fleet") as server:
        run = govc(server)
        assert run("library.ls").split() == ["/gold"]
        assert set(run("library.ls", "/gold/").split()) == {"/gold/appliance", "/gold/ubuntu-22.04-nvidia"}
        assert json.loads(run("library.info", "-json", "/gold/appliance"))[0]["type"] == "ovf"
        moid = json.loads(run("library.vmtx.info", "-json", "/gold/ubuntu-22.04-nvidia"))["vm_template"]
        assert run("ls", "-L", f"VirtualMachine:{moid}").split() == ["/dc1/vm/ubuntu-22.04-efi"]
