"""Experiments with a vGPU: the GPU that ESXi chooses, when vCenter shows it, and vMotion."""

from __future__ import annotations

from functools import partial

from vgpu_cfg.contact.bench import Bench, Verdicts, rejection, verdict_on
from vgpu_cfg.contact.vms import GPU, SOURCE, begin, known, read, request
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.observed.vm import AFFINITY_KEY
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.planning.doctor.trials import GPU_MOVE, GPU_OFF, GPU_ON
from vgpu_cfg.planning.doctor.tried import NODES, Tried

_SHOWN_SECONDS = 30
"""So long a run waits for a host to show the GPU of a VM."""
_NOT_IN_CLONES = "hardware_version"


def _on(bench: Bench) -> Verdicts:
    """Clone the source with the planner's settings for a vGPU, and power the clone on."""
    tools = bench.tools
    source, _ = known(bench, SOURCE)
    change = request(bench, GPU, bench.planned[GPU], source)
    gpus = tuple(edit for edit in change.spec.devices if edit.is_of_gpu)
    if not gpus:
        raise NotFound(
            "the template's hardware version is too old for a vGPU",
            subject=source.name,
            remedy="specify a template with a newer hardware version",
        )
    settings = {key: value for key, value in change.spec.settings.items() if key != _NOT_IN_CLONES}
    spec = change.spec.model_copy(update={"devices": gpus, "settings": settings})
    task = begin(bench, change.model_copy(update={"spec": spec}))
    made = tools.finished(task, f"clone {source.name}", change.vm.name)
    vm, before = read(bench, GPU, made.result_moid)
    host, name = change.location.host_moid, change.location.host_name
    held_off = _holding(bench, host)
    began = tools.clock.now()
    tools.finished(tools.writer.power_on_vm(vm.moid, host), f"power on {vm.name}", vm.name)
    started = f"started on {name} with {gpus[0].text}"  # type: ignore[union-attr]  # devices of GPUs have texts
    yield verdict_on("vgpu-needs-efi-memory-mmio", started, is_so=True)
    yield verdict_on("mmio-of-one-gpu", started, is_so=True)
    vm, after = read(bench, GPU, vm.moid)
    if bench.has_drs:
        yield verdict_on("drs-keeps-power-on-host", f"requested on {name}", is_so=vm.host_moid == host)
    affinity = [detail.extra_config.get(AFFINITY_KEY, "") for detail in (before, after)]
    if bench.has_drs and affinity[0]:
        told = f"{AFFINITY_KEY} {affinity[0]}, {affinity[1]} right after power-on"
        yield verdict_on("drs-keeps-numa-affinity", told, is_so=affinity[0] == affinity[1])
    is_shown = bench.shown(lambda: bool(_holding(bench, vm.host_moid)), _SHOWN_SECONDS)
    held = ", ".join(_holding(bench, vm.host_moid)) or "no GPU"
    seconds = (tools.clock.now() - began).total_seconds()
    yield verdict_on("graphics-info-shows-the-gpu", f"{held} after {seconds:.0f} s", is_so=is_shown)
    off = ", ".join(held_off) or "no GPU"
    if is_shown:
        yield verdict_on("esxi-chooses-the-gpu", f"off: {off}; running: {held}", is_so=not held_off)
    policy = "vgpus-follow-assignment-policy"
    if bench.expected and is_shown:
        expected = ", ".join(bench.expected)
        yield verdict_on(policy, f"expected {expected}; got {held}", is_so=held in bench.expected)
    else:
        yield Tried(policy, Verdict.OPEN, "only one GPU could be used")


def _holding(bench: Bench, host_moid: str | None) -> list[str]:
    """Return the addresses of the GPUs of a host that show the VM."""
    held = bench.tools.reader.read_gpu_holders([host_moid or ""]).get(host_moid or "", {})
    return [pci_id for pci_id, moids in held.items() if bench.vms[GPU].moid in moids]


def _move(bench: Bench) -> Verdicts:
    """Move the running VM, and look at it on the other host."""
    tools, there = bench.tools, bench.move_to
    vm, before = known(bench, GPU)
    if there is None or not vm.is_on:
        raise NotFound("the VM is not running", subject=vm.name, remedy="check why the VM was not powered on")
    move = partial(tools.writer.relocate_vm, vm.moid, there)
    said = rejection(lambda: tools.finished(move(), f"move {vm.name}", vm.name))
    if said:
        yield from (verdict_on(one, said, is_so=False) for one in GPU_MOVE.beliefs if "relocate" in one)
        return
    moved, after = read(bench, GPU, vm.moid)
    is_there = moved.host_moid == there.host_moid
    yield verdict_on("relocate-moves-like-migrate", f"moved to {there.host_name}", is_so=is_there)
    shown = bench.shown(lambda: bool(_holding(bench, there.host_moid)), _SHOWN_SECONDS)
    held = ", ".join(_holding(bench, there.host_moid)) or "no GPU"
    is_so = moved.is_on and shown
    yield verdict_on("relocate-moves-running-vgpu-vms", f"runs there with {held}", is_so=is_so)
    nodes = [detail.extra_config.get(AFFINITY_KEY, "") for detail in (before, after)]
    if nodes[0]:
        is_so = nodes[0] == nodes[1] and NODES.fullmatch(nodes[1]) is not None
        yield verdict_on("numa-affinity-format", " then ".join(nodes), is_so=is_so)


def _off(bench: Bench) -> Verdicts:
    """Power the VM off, and see when its host no longer shows it."""
    tools = bench.tools
    vm, _ = known(bench, GPU)
    tools.finished(tools.writer.power_off_vm(vm.moid), f"power off {vm.name}", vm.name)
    began = tools.clock.now()
    is_gone = bench.shown(lambda: not _holding(bench, vm.host_moid), _SHOWN_SECONDS)
    seconds = (tools.clock.now() - began).total_seconds()
    told = f"{'gone' if is_gone else 'still there'} after {seconds:.0f} s"
    yield verdict_on("graphics-info-forgets-stopped-vms", told, is_so=is_gone)


COURSES = {GPU_ON.does: _on, GPU_MOVE.does: _move, GPU_OFF.does: _off}
