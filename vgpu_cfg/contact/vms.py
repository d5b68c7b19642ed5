"""Experiments with VMs: made by the requests of the planner, copied, edited, and powered on."""

from __future__ import annotations

from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.vm_spec import EditNic, VmSpec
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.contact.bench import Bench, Verdicts, rejection, verdict_on
from vgpu_cfg.errors import NotFound
from vgpu_cfg.execution import describe_spec, missing_from
from vgpu_cfg.model.observed.own_items import PENDING_KEY
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, Vm, VmDetail
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.trials import (
    CLONED_VM,
    COPY,
    CUSTOMIZED,
    EDIT,
    MARK_KEY,
    NEW_VM,
    POWER,
    TAGS,
    TWIN,
    instance_uuid,
)
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.ports import TaskUpdate
from vgpu_cfg.vsphere.writing.writer import NO_REASON

SOURCE, GPU = "source", "gpu"
"""Parts of the names of VMs that the planner plans."""
_COPY, _TWIN = "copy", "twin"
_COPIED_KEY, _EDITED_KEY, _RUNNING_KEY = (f"{MARK_KEY}.{one}" for one in ("copied", "edited", "running"))
_KEYS = frozenset({PENDING_KEY, MARK_KEY, _COPIED_KEY, _EDITED_KEY, _RUNNING_KEY})
_OWNER = (MARK_PLAN_KEY, MARK_VM_KEY)
_MORE_MIB = 256
_LOWEST_NIC = 4000
"""The lowest device key of a NIC."""
_POLL_SECONDS, _GUEST_SECONDS = 1.0, 10.0


def request(bench: Bench, part: str, change: CreateVm, source: Vm | None = None) -> CreateVm:
    """Return a request with the name and mark of a part, and no owner; with a source, it clones that VM."""
    name = bench.mark.name(part)
    kept = {key: value for key, value in change.spec.extra_config.items() if key not in _OWNER}
    keys = {**kept, MARK_KEY: name}
    update: dict[str, object] = {
        "vm": VmRef(name=name),
        "spec": change.spec.model_copy(update={"extra_config": keys}),
    }
    if source is not None:
        update["source"] = CloneFrom(template=VmRef(name=source.name, moid=source.moid))
    return change.model_copy(update=update)


def begin(bench: Bench, change: CreateVm) -> str:
    """Let vCenter make a VM, and return the task."""
    return bench.tools.writer.create_vm(change, instance_uuid(change.vm.name))


def read(bench: Bench, part: str, moid: str | None) -> tuple[Vm, VmDetail]:
    """Read a VM again, and keep it under a part. Raises NotFound."""
    found, _ = bench.tools.reader.read_vms_and_holders([moid or ""], (), _KEYS)
    if not found or found[0].detail is None:
        raise NotFound("the temporary VM was not found", subject=part, remedy="check vCenter's events")
    bench.vms[part] = found[0]
    return found[0], found[0].detail


def known(bench: Bench, part: str) -> tuple[Vm, VmDetail]:
    """Return a VM as it was read last. Raises NotFound if it was not made."""
    return read(bench, part, bench.vms[part].moid if part in bench.vms else None)


def _source(bench: Bench) -> Verdicts:
    """Make the VM that is copied later."""
    things = bench.tools.things
    change = request(bench, SOURCE, bench.planned[SOURCE])
    keys = {**change.spec.extra_config, _COPIED_KEY: "yes"}
    change = change.model_copy(update={"spec": change.spec.model_copy(update={"extra_config": keys})})
    task = begin(bench, change)
    user = things.recent_user(task)
    made = bench.tools.finished(task, f"make {change.vm.name}", change.vm.name)
    is_listed = user is not None and things.recent_user(task) is not None
    told = f"{'listed' if is_listed else 'not listed'} while it ran and after it ended"
    yield verdict_on("recent-tasks", told, is_so=is_listed)
    alike = f"task {user}, session {things.account}"
    is_so = (user or "").casefold() == things.account.casefold()
    yield verdict_on("task-reason-spells-the-account", alike, is_so=is_so)
    vm, detail = read(bench, SOURCE, made.result_moid)
    if change.source.kind == "clone":
        (template,) = bench.tools.reader.read_vms([change.source.template.moid or ""])
        asked, has = template.detail and template.detail.hardware_version, detail.hardware_version
        told = f"the template has {asked}, but the clone {has}"
        yield verdict_on("clone-keeps-hardware-version", told, is_so=asked == has)
    creator = things.creator(vm.moid)
    is_so = creator.casefold() == things.account.casefold()
    yield verdict_on("creation-events-name-the-creator", creator or "no event lists one", is_so=is_so)


def _tags(bench: Bench) -> Verdicts:
    """Attach two tags of a category that allows one."""
    vm, _ = known(bench, SOURCE)
    tags = bench.tools.things.two_of_one()
    if not tags:
        yield from (
            Tried(one, Verdict.OPEN, "no VM has two tags from a category that allows only one")
            for one in TAGS.beliefs
        )
        return
    bench.tools.writer.set_tags(vm.moid, (), tags[:1])
    said = rejection(lambda: bench.tools.writer.set_tags(vm.moid, (), tags))
    yield verdict_on("tag-batches-report-each", said or "both were accepted", is_so=bool(said))
    yield verdict_on("tag-batch-messages", said, is_so=bool(said) and NO_REASON not in said)


def _copy(bench: Bench) -> Verdicts:
    """Clone the VM with other settings, and compare the copy with the request."""
    tools = bench.tools
    source, before = known(bench, SOURCE)
    change = request(bench, _COPY, bench.planned[SOURCE], source)
    keys = {MARK_KEY: change.vm.name, _EDITED_KEY: "cloned"}
    spec = VmSpec(settings={"memory": before.memory_mib + _MORE_MIB}, extra_config=keys)
    change = change.model_copy(update={"spec": spec})
    task = begin(bench, change)
    is_told = _told_by_filter(bench, task)
    made = tools.finished(task, f"clone {source.name}", change.vm.name)
    told = "vCenter reported completion" if is_told else "vCenter did not report the task's completion"
    yield verdict_on("new-filter-reports-at-the-next-wait", told, is_so=is_told)
    vm, detail = read(bench, _COPY, made.result_moid)
    missing = missing_from(vm, spec, before)
    lacking = "" if missing.is_empty else describe_spec(missing)
    yield verdict_on("clone-honours-config-spec", f"missing: {lacking or 'nothing'}", is_so=not lacking)
    is_asked = vm.instance_uuid.lower() == instance_uuid(change.vm.name)
    yield verdict_on("clone-accepts-instance-uuid", vm.instance_uuid, is_so=is_asked)
    copied = detail.extra_config.get(_COPIED_KEY, "missing")
    yield verdict_on("extra-config-is-copied", f"{_COPIED_KEY}: {copied}", is_so=copied == "yes")
    files = [disk.file.rpartition("/")[2] for disk in detail.disks]
    expected = [f"{vm.name}{f'_{number}' if number else ''}.vmdk" for number in range(len(files))]
    if files:
        yield verdict_on("clone-disk-names", ", ".join(files), is_so=files == expected)
        uuids = [disk.uuid for disk in detail.disks]
        yield verdict_on("disk-uuid-exists", ", ".join(uuids), is_so=all(uuids))
    nics = sorted(nic.key for nic in detail.nics)
    if nics:
        is_so = nics == list(range(_LOWEST_NIC, _LOWEST_NIC + len(nics)))
        yield verdict_on("nic-keys-are-lowest-free", f"keys {', '.join(map(str, nics))}", is_so=is_so)
    if tools.reader.read_attached_tags([source.moid]).get(source.moid):
        tags = tools.reader.read_attached_tags([vm.moid]).get(vm.moid, ())
        yield verdict_on("clone-has-no-tags", f"{len(tags)} of the VM's tags", is_so=not tags)


def _twin(bench: Bench) -> Verdicts:
    """Clone the VM without an instance UUID, with another MAC address if it has a NIC."""
    tools = bench.tools
    source, before = known(bench, SOURCE)
    change = request(bench, _TWIN, bench.planned[SOURCE], source)
    mac = "00:50:56:3{}:{}{}:{}{}".format(*bench.mark.id)
    backing = next((one.backing for one in change.spec.devices if hasattr(one, "backing")), None)
    devices = () if backing is None else (EditNic(key=before.nics[0].key, backing=backing, mac=mac),)
    spec = VmSpec(extra_config={MARK_KEY: change.vm.name}, devices=devices)
    change = change.model_copy(update={"spec": spec})
    made = list[TaskUpdate]()
    what = f"clone {source.name}"
    said = rejection(
        lambda: made.append(tools.finished(tools.writer.create_vm(change), what, change.vm.name))
    )
    if devices:
        told = said or "a NIC was edited"
        yield verdict_on("clone-device-change", told, is_so=not said)
    vm, detail = read(bench, _TWIN, made[0].result_moid if made else None)
    uuids = {source.instance_uuid.lower(), vm.instance_uuid.lower()}
    yield verdict_on("instance-uuid-is-unique", ", ".join(sorted(uuids)), is_so=len(uuids) == 2)
    if devices:
        macs = [nic.mac.lower() for nic in detail.nics]
        yield verdict_on("clone-sets-mac", ", ".join(macs), is_so=mac in macs)


def _told_by_filter(bench: Bench, task: str) -> bool:
    """Whether a task's end comes as news, and not only by a question for its progress."""
    while True:
        is_over = not bench.tools.things.is_busy(bench.mark.start)
        for update in bench.tools.writer.wait_for_tasks([task], 0):
            if update.state.is_over:
                return True
        if is_over or bench.tools.is_late:
            return False
        bench.tools.clock.pause(_POLL_SECONDS)


def _edit(bench: Bench) -> Verdicts:
    """Reconfigure the copy by its change version, then by the former one, and rename it."""
    tools = bench.tools
    vm, detail = known(bench, _COPY)
    former = detail.change_version
    spec = VmSpec(extra_config={_EDITED_KEY: "edited"}, change_version=former)
    tools.finished(tools.writer.reconfigure_vm(vm.moid, spec), f"reconfigure {vm.name}", vm.name)
    trips = tools.things.round_trips
    _, after = read(bench, _COPY, vm.moid)
    is_brought = tools.things.round_trips == trips
    yield _moved("edits-move-change-version", detail, after)
    uuids = [[disk.uuid for disk in one.disks] for one in (detail, after)]
    yield verdict_on("disk-uuid-keeps-its-value", "after an edit", is_so=uuids[0] == uuids[1])
    if after.change_version == former:
        return
    told = (
        "the change was reported when the task ended"
        if is_brought
        else "the change had to be read separately"
    )
    yield verdict_on("filter-reports-new-change-version", told, is_so=is_brought)
    spec = VmSpec(extra_config={_EDITED_KEY: "late"}, change_version=former)
    ended = tools.ended(tools.writer.reconfigure_vm(vm.moid, spec), f"reconfigure {vm.name}", vm.name)
    fault = ended.fault or "accepted"
    yield verdict_on("old-change-version-is-rejected", fault, is_so=ended.fault == "ConcurrentAccess")
    name = bench.mark.name("renamed")
    tools.finished(tools.writer.rename_vm(vm.moid, name), f"rename {vm.name}", vm.name)
    renamed, its = read(bench, _COPY, vm.moid)
    marks = {one.extra_config.get(MARK_KEY) for one in (after, its)}
    is_same = renamed.instance_uuid == vm.instance_uuid and len(marks) == 1
    seen = "after a rename: " + ("the same" if is_same else "a different instance UUID or different keys")
    yield verdict_on("identity-survives-rename-and-move", seen, is_so=is_same)


def _moved(belief: str, before: VmDetail, after: VmDetail) -> Tried:
    versions = f"{before.change_version}, then {after.change_version}"
    return verdict_on(belief, versions, is_so=after.change_version != before.change_version)


def _power(bench: Bench) -> Verdicts:
    """Power the copy on and off, and set a key of its own meanwhile."""
    tools = bench.tools
    vm, before = known(bench, _COPY)
    since = tools.things.now()
    host = bench.planned[SOURCE].location.host_moid
    tools.finished(tools.writer.power_on_vm(vm.moid, host), f"power on {vm.name}", vm.name)
    _, running = read(bench, _COPY, vm.moid)
    yield _moved("power-on-moves-change-version", before, running)
    spec = VmSpec(extra_config={_RUNNING_KEY: "yes"})
    what = f"reconfigure {vm.name}"
    said = rejection(lambda: tools.finished(tools.writer.reconfigure_vm(vm.moid, spec), what, vm.name))
    _, edited = read(bench, _COPY, vm.moid)
    found = edited.extra_config.get(_RUNNING_KEY, "missing")
    yield verdict_on("running-vm-takes-extra-config", said or f"the key is {found}", is_so=found == "yes")
    tools.finished(tools.writer.power_off_vm(vm.moid), f"power off {vm.name}", vm.name)
    _, off = read(bench, _COPY, vm.moid)
    yield _moved("power-off-moves-change-version", edited, off)
    macs = [[nic.mac for nic in one.nics] for one in (before, off)]
    if macs[0]:
        yield verdict_on("nic-keeps-automatic-mac", "after a power cycle", is_so=macs[0] == macs[1])
    wanted = {"VmPoweredOnEvent", "VmPoweredOffEvent"}

    def missing() -> set[str]:
        return wanted - {one.kind for one in tools.things.events((), since)}

    is_so = bench.shown(lambda: not missing())
    told = f"missing: {', '.join(sorted(missing())) or 'none'}"
    yield verdict_on("power-events", told, is_so=is_so)


def _customized(bench: Bench) -> Verdicts:
    """Power the customized VM on, and follow its guest until the customization has ended."""
    tools, host = bench.tools, bench.planned[SOURCE].location.host_moid
    vm, detail = known(bench, SOURCE)
    if any(hasattr(one, "backing") for one in bench.planned[SOURCE].spec.devices):
        nics = f"cloned with {counted(len(detail.nics), 'NIC')}"
        yield verdict_on("clone-takes-customization-and-nics", nics, is_so=True)
    pending = detail.extra_config.get(PENDING_KEY, "")
    yield verdict_on(
        "deploy-pkg-means-pending", pending or "not set while the VM was powered off", is_so=bool(pending)
    )
    tools.finished(tools.writer.power_on_vm(vm.moid, host), f"power on {vm.name}", vm.name)
    seen = tools.reader.read_customization(vm.moid)
    while seen.state in ("waiting", "running") and not tools.is_late:
        tools.clock.pause(_GUEST_SECONDS)
        seen = tools.reader.read_customization(vm.moid)
    is_over = seen.state in ("succeeded", "failed")
    yield verdict_on("customization-spec-format", seen.event or "no event", is_so=is_over)
    tools.finished(tools.writer.power_off_vm(vm.moid), f"power off {vm.name}", vm.name)


COURSES = {
    NEW_VM.does: _source,
    CLONED_VM.does: _source,
    TAGS.does: _tags,
    COPY.does: _copy,
    TWIN.does: _twin,
    EDIT.does: _edit,
    POWER.does: _power,
    CUSTOMIZED.does: _customized,
}
