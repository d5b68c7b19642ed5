"""`script/size` counts right: tried on small packages that are made for it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.size_script import size
from tests.architecture.sources import ROOT, modules

PACKAGE = {
    "__init__.py": '"""A package."""\n',
    "__main__.py": "from vgpu_cfg.cli import app\n",
    "cli/__init__.py": "",
    "cli/app.py": "def main():\n    from vgpu_cfg.planning.vms import table\n",
    "planning/__init__.py": "",
    "planning/beside.py": "",
    "planning/vms/__init__.py": "",
    "planning/vms/table.py": "from vgpu_cfg.planning import capacity\nfrom ..findings import codes\n",
    "planning/findings/__init__.py": "",
    "planning/findings/codes.py": "",
    "planning/capacity/__init__.py": "",
}
CONTRACT = """
[[tool.importlinter.contracts]]
type = "layers"
containers = ["vgpu_cfg.planning"]
layers = ["(vms)", "networks | capacity", "rdma : moves", "findings"]
"""


@pytest.fixture(name="size", scope="module")
def loaded_size() -> Any:
    return size()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, source in PACKAGE.items():
        write(tmp_path, name, source)
    (tmp_path / "pyproject.toml").write_text(CONTRACT, encoding="utf-8")
    return tmp_path


def write(folder: Path, name: str, source: str) -> None:
    path = folder / "vgpu_cfg" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")


def figures(size: Any, project: Path) -> dict[str, int | None]:
    """Measure a project; figures by the names of their rows."""
    files = [path for path in project.rglob("*") if path.is_file()]
    return {row.name: count for row, count in size.measure(project, files).items()}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("", 0),
        ('"""A docstring\n\nof three lines."""\n', 0),
        ("a = 1\n\n# a comment\nb = 2  # another\n", 2),
        ("a = [\n    1,\n\n    2,\n]\n", 4),
        ('a = """a text\nof two lines"""\n', 2),
        ('class A:\n    """What it is."""\n\n    a: int\n    """What that is."""\n', 2),
    ],
)
def test_lines_of_code(source: str, count: int, size: Any) -> None:
    assert size.code_lines(source) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""A docstring."""\nimport a\n', 0),
        ("if a:\n    b = 2\n", 2),
        ('class A:\n    """What it is."""\n\n    a: int\n    """What that is."""\n', 2),
    ],
)
def test_statements(source: str, count: int, size: Any) -> None:
    assert size.statements(source) == count


@pytest.mark.parametrize(
    ("source", "is_branching"),
    [
        ("match a:\n    case MakeVm():\n        pass\n", True),
        ("isinstance(a, str | MakeVm)", True),
        ("isinstance(a, (str, MakeVm))", True),
        ("match a:\n    case Other():\n        pass\n", False),
        ("MakeVm(a)", False),
    ],
)
@pytest.mark.parametrize(("room", "counts"), [("planning", True), ("execution", False)])
def test_files_that_branch_on_kinds_of_plan_parts(
    source: str, room: str, size: Any, project: Path, *, is_branching: bool, counts: bool
) -> None:
    union = 'Change = Annotated[MakeVm | DropVm, Field(discriminator="kind")]\nOther = A | B\n'
    write(project, "changes/change.py", union)
    write(project, f"{room}/asks.py", source)
    counted = figures(size, project)
    assert counted["kinds of plan parts"] == 2
    assert counted["files elsewhere that branch on them"] == (is_branching and counts)


def test_lines_are_counted_by_room(size: Any, project: Path) -> None:
    sources = size.read_modules(project)
    rooms = size.lines_by_room(sources, "vgpu_cfg")
    assert rooms == {"(files beside them)": 1, "cli": 2, "planning": 2}
    assert size.lines_by_room(sources, "vgpu_cfg.planning") == {
        "(files beside them)": 0,
        "findings": 0,
        "vms": 2,
    }


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("import vgpu_cfg.planning.capacity", {"vgpu_cfg.planning.capacity"}),
        ("from vgpu_cfg.planning.findings import codes", {"vgpu_cfg.planning.findings.codes"}),
        ("from vgpu_cfg.planning.findings.codes import Code", {"vgpu_cfg.planning.findings.codes"}),
        ("from vgpu_cfg.planning import vms, Plan", {"vgpu_cfg.planning", "vgpu_cfg.planning.vms"}),
        ("from . import beside", {"vgpu_cfg.planning.beside"}),
        ("from ..cli import app", {"vgpu_cfg.cli.app"}),
        ("import os", set()),
        ("def a():\n    import vgpu_cfg.cli", {"vgpu_cfg.cli"}),
        ("if TYPE_CHECKING:\n    import vgpu_cfg.cli", {"vgpu_cfg.cli"}),
        ('import_module(f"vgpu_cfg.planning.vms.{a}")', {"vgpu_cfg.planning.vms.table"}),
    ],
)
def test_imports_are_found(statement: str, imported: set[str], size: Any, project: Path) -> None:
    write(project, "planning/asks.py", statement)
    assert size.import_graph(size.read_modules(project))["vgpu_cfg.planning.asks"] == imported


def test_circles_are_found_and_a_chain_is_none(size: Any) -> None:
    graph = {
        name: frozenset(others)
        for name, others in {"a": "b", "b": "c", "c": "ad", "d": "e", "e": "d", "f": "a", "g": ""}.items()
    }
    assert size.circles(graph) == [frozenset("abc"), frozenset("de")]


def test_a_circle_over_a_function_is_one(size: Any, project: Path) -> None:
    assert figures(size, project)["files in circles"] == 0
    write(project, "planning/capacity/__init__.py", "def a():\n    import vgpu_cfg.cli.app\n")
    assert figures(size, project)["circles"] == 1
    assert figures(size, project)["files in circles"] == 3


@pytest.mark.parametrize(
    ("room", "other", "count"),
    [
        pytest.param("findings", "vms", 1, id="up"),
        pytest.param("vms", "findings", 0, id="down"),
        pytest.param("capacity", "networks", 1, id="across, apart"),
        pytest.param("rdma", "moves", 0, id="across, together"),
        pytest.param("vms", "vms", 0, id="within"),
        pytest.param("findings", "unknown", 0, id="to a room without a floor"),
    ],
)
def test_arrows_that_run_up_or_across(room: str, other: str, count: int, size: Any, project: Path) -> None:
    write(project, f"planning/{other}/there.py", "")
    write(project, f"planning/{room}/asks.py", f"import vgpu_cfg.planning.{other}.there")
    assert figures(size, project)["imports between them that run up or across"] == count


def test_without_a_contract_no_arrows_are_counted(size: Any, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.importlinter]\n", encoding="utf-8")
    counted = figures(size, project)
    assert counted["rooms of planning with a floor"] == 0
    assert counted["imports between them that run up or across"] is None


def test_what_nothing_reaches_is_counted(size: Any, project: Path) -> None:
    dead = "modules that nothing reaches"
    assert figures(size, project)[dead] == 1  # planning.beside
    write(project, "cli/app.py", "from vgpu_cfg.planning.beside import a\n")
    assert figures(size, project)[dead] == 5  # the three rooms, and the files in two


def test_folders_with_too_many_files_are_told(size: Any, project: Path) -> None:
    for number in range(20):
        write(project, f"cli/command_{number}.py", "")
    counted = figures(size, project)
    assert counted["folders with more than 20"] == 1
    assert counted["vgpu_cfg/cli"] == counted["most in one folder"] == 21


def test_files_and_lines_of_tests_are_counted(size: Any, project: Path) -> None:
    (project / "tests" / "cases").mkdir(parents=True)
    (project / "tests" / "test_a.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    (project / "tests" / "cases" / "a.yaml").write_text("a: 1\n", encoding="utf-8")
    counted = size.measure(project, list((project / "tests").rglob("*.*")))
    below = {row.name: count for row, count in counted.items() if row.section == "Below tests"}
    assert below == {"files": 2, "lines": 3, "Python files": 1, "lines of Python": 2}


def test_columns_share_their_rows(size: Any) -> None:
    old, gone, new = size.Row("A", "old"), size.Row("B", "gone"), size.Row("A", "new")
    table = size.lay_out_markdown({"before": {old: 1, gone: 2}, "after": {old: 1234, new: 3}})
    assert list(table) == [
        "| | before | after |",
        "|---|---:|---:|",
        "| **A** | | |",
        "| old | 1 | 1,234 |",
        "| new | – | 3 |",
        "| **B** | | |",
        "| gone | 2 | – |",
    ]


def test_the_project_can_be_measured(size: Any) -> None:
    assert len(size.read_modules(ROOT)) == len(modules())


def test_a_commit_is_measured_as_it_was(size: Any, project: Path) -> None:
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "A")
    before = figures(size, project)
    write(project, "cli/app.py", "")
    write(project, "cli/new.py", "a = 1\n")
    counted = {row.name: count for row, count in size.measure_commit(project, "HEAD").items()}
    assert counted == before != figures(size, project)
    assert len(size.project_files(project)) == len(PACKAGE) + 2


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
