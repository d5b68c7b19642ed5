"""The status of a plan on a terminal: hosts and VMs, their differences value by value, and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice

from rich.text import Text

from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, node_list
from vgpu_cfg.planning.capacity.hardware import nodes_of_affinity
from vgpu_cfg.planning.drift import SEE_FINDINGS
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold, hanging, table_rows, without_domain
from vgpu_cfg.render.layout.most import Most, first_screen, foremost, others
from vgpu_cfg.render.text.plan.findings import render_findings
from vgpu_cfg.render.text.plan.whole import render_unknown
from vgpu_cfg.render.views.estate.inventory import profile_text
from vgpu_cfg.render.views.status import GuestStatus, HostStatus, StatusView, VmRow, state_word, verdict_of

MOST_SHOWN = 6
"""So many differences of one VM or host are shown unless all are asked for."""
_VALUE_COLUMNS = (
    Column("WHAT", is_flexible=True),
    Column("EXPECTED", is_flexible=True),
    Column("FOUND", is_flexible=True),
    Column("CHANGED BY", is_flexible=True),
    Column("WHEN"),
)
UNKNOWN = "unknown"
_INDENT = 4
VM_COLUMNS = (
    Column("VM"),
    Column("STATE"),
    Column("HOST", is_flexible=True),
    Column("GPU", is_flexible=True),
    Column("PROFILE", is_flexible=True),
    Column("NODE"),
)
GUEST_COLUMN = Column("GUEST", is_flexible=True)
_HOST_STYLES = {"held": "magenta", "in sync": "green", "does not respond": "red", "is disconnected": "red"}
_STATE_STYLES = {"on": "green", "off": "yellow", "missing": "red", "not owned": "red", "disconnected": "red"}
_HOST_COLUMNS = (Column("HOST", is_flexible=True), Column("STATE"), Column("MODE"))
_STYLES = {"staged": "green", "outdated": "yellow", "not staged": "yellow", "needs a manual step": "magenta"}


def render_differences(differences: Sequence[Difference], width: int, most: Most) -> list[Text]:
    """Lay out the differences under their subjects, and below them why an author is unknown."""
    hosts = without_domain(one.subject.name for one in differences if one.subject.kind == "host")
    groups = [
        (hosts[name] if kind == "host" else name, list(group))
        for (kind, name), group in groupby(differences, key=lambda one: (one.subject.kind, one.subject.name))
    ]
    told, left = foremost(groups, most=most)
    each = len(differences) if most.is_all else MOST_SHOWN
    cells = [_difference_cells(one) for _, group in told for one in group[:each]]
    heading, *rows = table_rows(_VALUE_COLUMNS, cells, width, indent=_INDENT)
    lines = heading
    following = iter(rows)
    for name, group in told:
        lines.append(Text(f"  {name}", "yellow"))
        lines += (line for row in islice(following, min(each, len(group))) for line in row)
        if len(group) > each:
            lines.append(Text(f"    and {len(group) - each} more"))
    lines += others("hosts and VMs", ("" for _ in left), width)
    for reason in dict.fromkeys(one.why_unknown for one in differences if one.why_unknown):
        lines += [Text("  ") + part for part in fold(Text(f"{UNKNOWN}: {reason}", "dim"), width - 2, hang=2)]
    return lines


def _difference_cells(one: Difference) -> list[Cell]:
    who = one.by or (UNKNOWN if one.why_unknown else "")
    when = f"{one.at:%Y-%m-%d %H:%M}" if one.at is not None else ""
    return [one.what, _value(one.wanted), _value(one.found), who, when]


def _value(text: str | None) -> str:
    return "none" if text is None else text


def render_status(
    view: StatusView, width: int, *, next_command: str = "", with_all: bool = False
) -> list[Text]:
    """Lay out one row per VM, what differs under it, the findings, and what to type if anything differs."""
    hosts = {row.name for row in view.hosts} | {row.host for row in view.vms}
    lines = first_screen(lambda most: _rendered(view, width, most), len(hosts), with_all=with_all)
    if next_command and not view.is_in_sync:
        lines += [Text(""), *hanging("NEXT", next_command, width, indent=0, label_width=6, style="bold")]
    return lines


def _rendered(view: StatusView, width: int, most: Most) -> list[Text]:
    place = f"{view.server}, {view.datacenter}" if view.datacenter else view.server
    left = Text.assemble((view.plan, "bold"), f" on {place}")
    counts = [counted(len(view.hosts), "host")] if view.hosts else []
    counts += [counted(len(view.vms), "VM")] if view.vms or not counts else []
    colour, words = verdict_of(view)
    right = Text.assemble(f"{', '.join(counts)}, ", Text(words, colour))
    lines = both_ends(left, right, width)
    if view.hosts:
        lines += [Text(""), *_host_rows(view, width, most)]
    if view.vms:
        lines += [Text(""), *_rows(view, width, most)]
    lines += _trainings(view, width)
    if differences := [one for one in view.differences if one.found != SEE_FINDINGS]:
        lines += [Text(""), *render_differences(differences, width, most)]
    if view.others:
        shown = view.others if most.is_all else view.others[:MOST_SHOWN]
        rest = len(view.others) - len(shown)
        words = "; ".join([*shown, *([f"and {rest} more"] if rest else [])])
        lines += [Text(""), *hanging("TO DO", words, width, indent=0, label_width=6, style="yellow")]
    if view.windows:
        lines.append(Text(""))
    for window in view.windows:
        lines += hanging("WINDOW", window, width, indent=0, label_width=6, style="yellow")
    if view.unknown:
        lines += [Text(""), *render_unknown(view.unknown, width)]
    findings = render_findings(view.findings, width, most=most)
    if findings:
        lines += [Text(""), *findings]
    return lines


def _rows(view: StatusView, width: int, most: Most) -> list[Text]:
    """Lay out a row per VM; of very many those that are to be looked at first, and the others' states."""
    told, left = foremost(view.vms, _is_plain, most)
    hosts = without_domain(row.host for row in told)
    has_guests = any(row.guest is not None for row in told)
    columns = (*VM_COLUMNS, GUEST_COLUMN) if has_guests else VM_COLUMNS
    cells = [_cells(row, hosts, with_guest=has_guests) for row in told]
    heading, *rows = table_rows(columns, cells, width)
    lines = heading
    for row, shown in zip(told, rows, strict=True):
        lines += shown
        if row.guest is not None:
            problem = (Text(f"! {words}", "red") for words in guest_lines(row.guest))
            lines += [Text("    ") + part for text in problem for part in fold(text, width - 4, hang=2)]
    return lines + others("VMs", (row.word for row in left), width)


def _trainings(view: StatusView, width: int) -> list[Text]:
    """Lay out a line per training that guests report, with its VMs."""
    found: dict[str, list[str]] = {}
    for row in view.vms:
        if row.guest is not None and row.guest.training:
            found.setdefault(row.guest.training, []).append(row.name)
    lines = [Text("")] if found else []
    for words, names in found.items():
        lines += hanging("TRAINING", f"{words}: {fold_names(names)}", width, indent=0, label_width=8)
    return lines


def _is_plain(row: VmRow) -> bool:
    """Whether a VM is on and as the plan file says, and its guest, too."""
    return row.word == "on" and row.is_in_sync and not (row.guest is not None and any(guest_lines(row.guest)))


def _host_rows(view: StatusView, width: int, most: Most) -> list[Text]:
    """Lay out a row per host; under it what waits for a restart, and why it is down."""
    told, left = foremost(view.hosts, _host_is_plain, most)
    shortened = without_domain(row.name for row in told)
    cells: list[list[Cell]] = [[shortened[row.name], _host_state(row), _mode_text(row)] for row in told]
    heading, *rows = table_rows(_HOST_COLUMNS, cells, width)
    lines = heading
    for row, shown in zip(told, rows, strict=True):
        lines += shown
        pending = f"pending restart: {', '.join(row.pending)}" if row.pending else ""
        reported = [("~", pending, "yellow"), ("!", row.standing, "magenta")]
        for sign, words, style in reported:
            if words:
                parts = fold(Text(f"{sign} {words}", style), width - 4, hang=2)
                lines += [Text("    ") + part for part in parts]
    return lines + others("hosts", (row.word for row in left), width)


def _host_is_plain(row: HostStatus) -> bool:
    return row.word == "in sync" and not row.pending and not row.standing


def _host_state(row: HostStatus) -> Text:
    return Text(row.word, _HOST_STYLES.get(row.word, "yellow"))


def _mode_text(row: HostStatus) -> str:
    return "maintenance" if row.is_in_maintenance_mode else ""


def state_text(state: str) -> Text:
    """Spell a power state as readers do: on, off, suspended, missing, disconnected."""
    word = state_word(state)
    return Text(word, _STATE_STYLES.get(word, ""))


def node_text(row: VmRow) -> Text:
    """Say the affinity, and the GPU's node if it is another. Whether a missing one is wrong, findings say."""
    if set(row.gpu_nodes) <= set(nodes_of_affinity(row.affinity)):
        return Text(row.affinity)
    return Text(f"{row.affinity or '-'}, GPU {node_list(row.gpu_nodes)}", "yellow" if row.affinity else "")


def guest_text(row: VmRow) -> Text:
    """Describe the guest's state, nothing if none is staged."""
    return guest_state(row.guest) if row.guest is not None else Text("")


def _cells(row: VmRow, hosts: Mapping[str, str], *, with_guest: bool) -> list[Cell]:
    guest: list[Cell] = [guest_text(row)] if with_guest else []
    return [
        row.name,
        state_text(row.state),
        hosts.get(row.host, ""),
        " ".join(row.gpu_pci_ids),
        profile_text(row.profiles),
        node_text(row),
        *guest,
    ]


def guest_state(status: GuestStatus) -> Text:
    """Write the state of a guest, as a table shows it."""
    return Text(status.state, _STYLES.get(status.state, "red"))


def guest_lines(status: GuestStatus) -> Iterable[str]:
    """Yield the lines under a VM's row: modules to be staged, and failures with their reasons."""
    if status.module:
        yield f"guest: {status.module} {status.state}: {status.why or 'the guest does not provide a reason'}"
