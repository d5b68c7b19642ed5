"""Turn tried beliefs into the verdict file of a vCenter, and add them to an earlier one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

from pydantic import ValidationError

from vgpu_cfg import __version__
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.knowledge.beliefs import Trial
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.verdicts import HostKind, TriedVCenter, Verdict, VerdictFile, VerdictRow
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.planning.host_settings.gpus.driver import driver_version
from vgpu_cfg.planning.pool.reservations import now_of

_STRENGTH = {trial.value: number for number, trial in enumerate(Trial)}


def verdicts_of(observed: Inventory, tried: Iterable[Tried], by: Trial = Trial.READING) -> VerdictFile:
    """Return the verdicts on beliefs that were tried `by` one kind of trial, at the vCenter of a reading.

    `doctor` passes a reading's, `trial` those of an object, a VM or a GPU; `cli.flows.doctor_flow.save_found`
    adds them to the file of a folder. Raises VCenterError if vCenter does not identify itself.
    """
    now, vcenter = now_of(observed), observed.vcenter
    try:
        seen = TriedVCenter(
            instance_uuid=vcenter.instance_uuid.lower(),
            version=vcenter.version,
            build=vcenter.build,
            tried_at=now.replace(microsecond=0),
        )
    except ValidationError as error:
        message = f"vCenter reports no usable instance UUID and build: {vcenter.instance_uuid!r}"
        raise VCenterError(message, subject=vcenter.address, remedy="run `doctor` without --save") from error
    rows = {one.belief: _row(one, by, now.date()) for one in tried}
    beliefs = dict(sorted(rows.items()))
    return VerdictFile(vcenter=seen, program=__version__, hosts=tuple(_kinds(observed)), beliefs=beliefs)


def _row(one: Tried, by: Trial, today: date) -> VerdictRow:
    if one.verdict is Verdict.OPEN:
        return VerdictRow(verdict=one.verdict)
    return VerdictRow.model_validate(
        {"verdict": one.verdict, "by": by.value, "since": today, "seen": one.seen}
    )


def _kinds(observed: Inventory) -> Iterator[HostKind]:
    """Yield the kinds of hosts with GPUs, in the order of their versions."""
    patient = Patient(observed, load_catalog())
    counts: Counter[tuple[str, str, str, tuple[str, ...]]] = Counter()
    for host in patient.gpu_hosts:
        found = [patient.reader.board_of(gpu.pci) for gpu in host.gpus]
        boards = tuple(sorted({one.name for one in found if one is not None}))
        driver = driver_version(host, patient.facts(host).software)
        counts[host.version, host.build, driver, boards] += 1
    for (version, build, driver, boards), hosts in sorted(counts.items()):
        yield HostKind(esxi=version, build=build, driver=driver, boards=boards, hosts=hosts)


def merged(before: VerdictFile, after: VerdictFile) -> VerdictFile:
    """Add verdicts to earlier ones of the same build.

    An equal verdict keeps its first day, and a belief that was not tried again its verdict. A weaker trial
    can contradict a stronger one, but not refute its contradiction: a reading sees only existing objects.
    """
    rows = dict(before.beliefs)
    for belief, row in after.beliefs.items():
        old = rows.get(belief)
        if old is None or old.verdict is Verdict.OPEN:
            rows[belief] = row
        elif row.verdict is not Verdict.OPEN and _counts(row, old):
            is_same = row.verdict is old.verdict
            rows[belief] = row.model_copy(update={"since": old.since if is_same else row.since})
    return after.model_copy(update={"beliefs": dict(sorted(rows.items()))})


def _counts(row: VerdictRow, old: VerdictRow) -> bool:
    is_weaker = _STRENGTH[row.by] < _STRENGTH[old.by]
    return not is_weaker or (row.verdict is Verdict.FAILS and old.verdict is Verdict.HOLDS)
