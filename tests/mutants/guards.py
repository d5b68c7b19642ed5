"""The guards of reach, each with a change that takes it away and the test that must fail then.

`python -m tests.mutants.guards` loads the tests once and tries each guard in a fork of its own. It prints
those that no test misses.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.living import apart, living_functions, put_in, run

ROOM = Path("vgpu_cfg")
TESTS = "tests/unit/planning/test_reach.py"
FOR_PYTEST = ["-q", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist"]


@dataclass(frozen=True)
class Guard:
    """A guard: what it keeps a run within, its line in a file, the line without it, and who misses it."""

    of: str
    path: str
    before: str
    after: str
    missed_by: str

    @property
    def source(self) -> str:
        """The file without the guard, line by line where it was."""
        text = (ROOM / self.path).read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(f"{self.path} has {text.count(self.before)} times {self.before!r}")
        return text.replace(self.before, self.after)


_P = "planning/"
_SELECT, _SITE = f"{_P}host_settings/resolved_host.py", f"{_P}estate/site.py"
_OWNERSHIP, _PROTECTION = f"{_P}estate/ownership.py", f"{_P}estate/protection.py"
_DESTROY, _EXPIRY, _IMPORT = (f"{_P}vms/{name}.py" for name in ("destroy", "expiry", "ownership"))
_ORPHANS, _UPKEEP = f"{_P}estate/protection.py", f"{_P}upkeep/targets.py"
_RESOLVER, _DRAIN = f"{_P}vms/lookup/vm_resolver.py", f"{_P}upkeep/drain.py"
_WINDOWS, _VM = "execution/run/scheduler.py", "model/observed/vm.py"
_STRANGERS = "test_a_vm_of_another_owner_is_not_deleted"
_PROTECTED = "test_what_is_protected_is_not_written"

GUARDS = (
    Guard(
        "datacenter",
        _SELECT,
        "for host in inside(desired, observed, observed.hosts)\n        if",
        "for host in observed.hosts\n        if",
        "test_hosts_of_another_datacenter_are_not_meant",
    ),
    Guard(
        "datacenter",
        _SELECT,
        "    clusters = inside(desired, observed, observed.clusters)\n",
        "    clusters = observed.clusters\n",
        "test_a_cluster_of_another_datacenter_is_not_meant",
    ),
    Guard(
        "datacenter, unread",
        _SITE,
        "if one.inventory_path.startswith(path)",
        "if not one.inventory_path or one.inventory_path.startswith(path)",
        "test_a_host_whose_datacenter_is_unread_is_not_meant",
    ),
    Guard(
        "datacenter, not there",
        _SITE,
        "return () if desired.datacenter is not None else tuple(objects)",
        "return tuple(objects)",
        "test_no_host_is_meant_in_a_datacenter_that_is_not_there",
    ),
    Guard(
        "datacenter",
        _SITE,
        "return tuple(objects) if self.datacenter is None else inside(desired, self.observed, objects)",
        "return tuple(objects)",
        "test_a_vm_is_not_placed_in_another_datacenter",
    ),
    Guard(
        "datacenter",
        _SITE,
        "    networks = inside(desired, observed, observed.networks)\n",
        "    networks = observed.networks\n",
        "test_a_switch_of_another_datacenter_is_not_changed",
    ),
    Guard(
        "datacenter",
        _UPKEEP,
        "near = hosts if desired.datacenter is None else inside(desired, observed, hosts)",
        "near = hosts",
        "test_upkeep_keeps_to_the_datacenter_that_is_named",
    ),
    Guard(
        "cluster",
        _SELECT,
        "if (entry.cluster is None or host.owner_moid in wanted)",
        "if (wanted is not None)",
        "test_hosts_of_another_cluster_are_not_meant",
    ),
    Guard(
        "cluster, one of two",
        _SELECT,
        "wanted = set() if _is_ambiguous(entry, clusters) else {cluster.moid for cluster in clusters}",
        "wanted = {cluster.moid for cluster in clusters}",
        "test_a_cluster_name_that_two_clusters_have_means_no_host",
    ),
    Guard(
        "cluster",
        f"{_P}placement/candidates.py",
        "ranks = {moid: rank for rank, moid in enumerate(query.clusters)}",
        "ranks = {host.cluster_moid or '': 0 for host in self.hosts}",
        "test_a_vm_is_not_placed_in_another_cluster",
    ),
    Guard(
        "names of hosts",
        _SELECT,
        "and (not entry.names or matches_any(host.name, entry.names))",
        "and True",
        "test_hosts_of_another_cluster_are_not_meant",
    ),
    Guard(
        "folder",
        _OWNERSHIP,
        "found = by_place.get((folder.moid, wanted.name.casefold()))",
        "found = next((one for one in observed.vms if one.name == wanted.name), None)",
        "test_a_strangers_vm_of_the_same_name_is_not_taken_for_ones_own[attic-True]",
    ),
    Guard(
        "folder",
        _OWNERSHIP,
        "(has_id or vm.folder_moid == folder.moid)",
        "(has_id or folder is not None)",
        "test_a_mark_without_an_id_counts_in_its_folder_only",
    ),
    Guard(
        "folder",
        _OWNERSHIP,
        "if is_left_out and vm.folder_moid in places:",
        "if is_left_out:",
        "test_an_orphan_in_a_folder_that_no_line_names_is_kept",
    ),
    Guard(
        "owner",
        _OWNERSHIP,
        "elif found is not None and found not in claimants:",
        "elif False and found is not None:",
        "test_a_strangers_vm_of_the_same_name_is_not_taken_for_ones_own[training-False]",
    ),
    Guard(
        "owner",
        _VM,
        "return self.id == plan.id if self.id else self.plan == plan.name",
        "return True",
        f"{_STRANGERS}[theirs1]",
    ),
    Guard(
        "owner",
        _VM,
        "return self.id == plan.id if self.id else self.plan == plan.name",
        "return self.plan == plan.name",
        f"{_STRANGERS}[theirs3]",
    ),
    Guard(
        "owner, a copy",
        _VM,
        "return mark is not None and bool(mark.id) and mark.instance_uuid != self.instance_uuid.lower()",
        "return mark is not None and mark is None",
        f"{_STRANGERS}[theirs2]",
    ),
    Guard(
        "owner, orphans",
        _ORPHANS,
        "return [vm for vm in owned.orphans if vm.moid in chosen]",
        "return [vm for vm in owned.orphans if chosen is not None]",
        "test_an_orphan_that_nobody_names_is_kept",
    ),
    Guard(
        "protect, by name",
        _PROTECTION,
        "if matches_any(name, globs.names):",
        "if False:",
        "test_a_protected_name_is_not_deleted",
    ),
    Guard(
        "protect, by folder",
        _PROTECTION,
        "if matches_any(path, (glob, f\"{glob.rstrip('/')}/*\")) or matches_any(folder.name, [glob]):",
        "if path == glob.upper():",
        f"{_PROTECTED}[False-destroy]",
    ),
    Guard(
        "protect, unread",
        _PROTECTION,
        "                if globs.folders:\n",
        "                if folder is not None and globs.folders:\n",
        f"{_PROTECTED}[True-destroy]",
    ),
    Guard(
        "protect, unread",
        _PROTECTION,
        "                if globs.clusters:\n",
        "                if cluster is not None:\n",
        "test_hosts_whose_cluster_is_unread_are_not_prepared_where_clusters_are_protected",
    ),
    Guard(
        "protect, contexts",
        _PROTECTION,
        "return cls((*contexts, (PLAN_FILE, desired.protect)))",
        "return cls(((PLAN_FILE, desired.protect),))",
        f"{_PROTECTED}[False-apply]",
    ),
    Guard(
        "protect",
        _RESOLVER,
        "        return covering is not None\n",
        "        return False\n",
        "test_a_protected_vm_is_left_as_it_is",
    ),
    Guard(
        "protect",
        _RESOLVER,
        "self.findings.refuse_vm(Code.PROTECTED, vm, covering.message, remedy)",
        "pass",
        f"{_PROTECTED}[False-apply]",
    ),
    Guard(
        "protect",
        _RESOLVER,
        "        leave_protected(resolved, self.protected_clusters, self.findings)\n",
        "\n",
        "test_a_vm_is_not_placed_in_a_protected_cluster",
    ),
    Guard(
        "protect",
        _DESTROY,
        "findings.add(Code.PROTECTED, subject, covering.message, covering.remedy())",
        "pass",
        f"{_PROTECTED}[False-destroy]",
    ),
    Guard(
        "protect",
        _ORPHANS,
        "findings.add(Code.PROTECTED, _subject(vm), covering.message, covering.remedy())",
        "pass",
        f"{_PROTECTED}[False-delete]",
    ),
    Guard(
        "protect",
        _EXPIRY,
        "findings.add_vm(Code.PROTECTED, vm, covering.message, covering.remedy())",
        "pass",
        f"{_PROTECTED}[False-expired]",
    ),
    Guard(
        "protect",
        _IMPORT,
        "if covering is not None and covering.source != PLAN_FILE:",
        "if False:",
        f"{_PROTECTED}[False-import]",
    ),
    Guard(
        "protect",
        _DRAIN,
        "if covering := self.protection.of_vm(vm.name, folder, vm.manager):",
        "if covering := None:",
        "test_a_drain_stops_at_what_a_context_protects",
    ),
    Guard(
        "protect",
        _SELECT,
        "if covering := protection.of_cluster(cluster):",
        "if covering := None:",
        "test_hosts_of_a_protected_cluster_are_not_prepared",
    ),
    Guard(
        "protect",
        f"{_P}host_settings/cluster.py",
        "if cluster is None or Protection.of(desired).of_cluster(cluster):",
        "if cluster is None:",
        "test_options_of_a_protected_cluster_are_not_set",
    ),
    Guard(
        "protect",
        _UPKEEP,
        "findings.add(Code.PROTECTED, subject, covering.message, covering.remedy())",
        "pass",
        "test_upkeep_leaves_clusters_alone_that_a_context_protects",
    ),
    Guard(
        "lock",
        _DESTROY,
        "        if vm.name in locked:\n",
        "        if not locked and vm.name in locked:\n",
        "test_a_locked_vm_is_not_deleted",
    ),
    Guard(
        "window",
        _WINDOWS,
        "    if left is None:\n",
        "    if left is None and seconds < 0:\n",
        "test_a_host_does_not_go_down_outside_its_window[12-600-False]",
    ),
    Guard(
        "window",
        _WINDOWS,
        "    if left < seconds:\n",
        "    if left < 0:\n",
        "test_a_host_does_not_go_down_outside_its_window[3-7200-False]",
    ),
    Guard(
        "max_hosts_down",
        "execution/run/scheduler.py",
        "for wave, _ in self._down) < self._limit[place[0]]",
        "for wave, _ in self._down) < self._limit[place[0]] + 9",
        "test_no_more_hosts_go_down_than_max_hosts_down[1-False]",
    ),
    Guard(
        "--only",
        f"{_P}findings/options.py",
        "return not self.only or any(_selects(selector, vm_name, host_name) for selector in self.only)",
        "return not self.only or any(bool(selector) for selector in self.only)",
        "test_only_keeps_other_vms_out_of_each_command[apply]",
    ),
    Guard(
        "--only",
        f"{_P}planner.py",
        "            changes = only_chosen(changes, chosen)\n",
        "            pass\n",
        "test_only_keeps_other_vms_out_of_each_command[apply]",
    ),
    Guard(
        "--only",
        _DESTROY,
        "if options.selects(vm.name, observed.host_name_of(vm))]",
        "if options is not None and observed is not None]",
        "test_only_keeps_other_vms_out_of_each_command[destroy]",
    ),
    Guard(
        "--only",
        _EXPIRY,
        "        if not chosen.selects(vm.name, observed.host_name_of(existing)):\n",
        "        if False:\n",
        "test_only_keeps_other_vms_out_of_each_command[expired]",
    ),
    Guard(
        "--only",
        _IMPORT,
        'if not options.selects(wanted.name, observed.host_name_of(found) if found is not None else ""):',
        "if False:",
        "test_only_keeps_other_vms_out_of_each_command[import]",
    ),
    Guard(
        "--only",
        _IMPORT,
        "if options.selects(vm.name, observed.host_name_of(vm))]",
        "if observed is not None]",
        "test_only_keeps_other_vms_out_of_each_command[forget]",
    ),
    Guard(
        "--only",
        _SELECT,
        'if options.only and not options.selects("", host.name):',
        "if False:",
        "test_only_keeps_other_hosts_out",
    ),
    Guard(
        "--allow-destroy",
        _DESTROY,
        "    refuse_many_deletions(desired, len(leaving), chosen, findings)\n",
        "\n",
        "test_many_vms_are_deleted_with_their_number_only[0-True]",
    ),
    Guard(
        "--allow-destroy",
        f"{_P}planner.py",
        "        refuse_many_deletions(self.desired, len(deleted), self.options, self.findings, of=of)\n",
        "\n",
        "test_many_vms_are_deleted_with_their_number_only[0-True]",
    ),
    Guard(
        "--allow-destroy",
        f"{_P}estate/protection.py",
        "    if options.allow_destroy:\n        message",
        "    if options.allow_destroy > count:\n        message",
        "test_a_number_too_small_says_no_to_few_deletions_too",
    ),
)


@dataclass
class Tries:
    """A plugin of pytest that takes each guard away, and keeps those that their tests do not miss."""

    failed: list[Any] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid.partition("::")[2]: item for item in session.items}
        if broken := apart(partial(self._fails, list(items.values()))):
            self.survivors = [f"without any change {broken} fails"]
            return True
        living = living_functions(ROOM.resolve())
        for guard in GUARDS:
            names = [name for name in items if name.partition("[")[0] == guard.missed_by.partition("[")[0]]
            own = [items[name] for name in names if "[" not in guard.missed_by or name == guard.missed_by]
            if not own:
                self.survivors.append(f"there is no test {guard.missed_by}")
            elif not apart(partial(self._is_missed, guard, own, living)):
                self.survivors.append(f"{guard.of}: {guard.path}: {guard.before.strip()} ({guard.missed_by})")
        return True

    def _is_missed(self, guard: Guard, items: Sequence[pytest.Item], living: Any) -> Any:
        is_in = put_in(ROOM / guard.path, guard.source, living)
        return self._fails(items) if is_in else None

    def _fails(self, items: Sequence[pytest.Item]) -> Any:
        for index in range(len(items)):
            run(items, index)
        return {"failed": self.failed} if self.failed else None


def main() -> int:
    for guard in GUARDS:
        importlib.import_module(".".join((ROOM / guard.path).with_suffix("").parts))
    tries = Tries()
    pytest.main([*FOR_PYTEST, TESTS], plugins=[tries])
    print(*tries.survivors, f"{len(GUARDS)} guards, {len(tries.survivors)} that no test misses", sep="\n")
    return bool(tries.survivors)


if __name__ == "__main__":
    sys.exit(main())
