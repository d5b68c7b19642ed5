"""What every module owes its reader, and what every exception from a rule does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, modules, named

CODE = r"[A-Z]+[0-9]+"
REASON = re.compile(r"[a-zA-Z]\S*\s+\S+")  # two words at least
LEFT_OPEN = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
SILENCED = re.compile(r"#\s*(?:noqa\b(?P<noqa>[^#]*)|type:\s*ignore\b(?P<ignore>[^#]*))(?P<rest>.*)")
LISTED = re.compile(rf'^\s*"(?P<code>{CODE}|[A-Z]+)",(?P<rest>.*)$')


def complaint_about(line: str) -> str | None:
    """Say what is wrong with a line that silences a checker: no code, or no reason."""
    found = SILENCED.search(line)
    if found is None:
        return None
    told = found["noqa"] if found["noqa"] is not None else found["ignore"]
    if not re.match(rf":\s*{CODE}|\[[a-z-]+", told):
        return "names no code"
    reason = re.sub(rf"^:\s*{CODE}([,\s]+{CODE})*|^\[[^\]]*\]", "", told) + found["rest"].lstrip("# ")
    return None if REASON.search(reason) else "gives no reason"


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_every_module_says_what_it_knows() -> None:
    told = {named(path): ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in modules()}
    assert [name for name, docstring in told.items() if not docstring] == []


def test_nothing_is_left_open() -> None:
    found = [
        f"{named(path)}: {line.strip()}"
        for path in modules()
        for line in lines_of(path)
        if LEFT_OPEN.search(line)
    ]
    assert found == []


def test_every_silenced_line_says_why() -> None:
    found = [
        f"{named(path)}:{number} {complaint}"
        for path in modules(ROOT)
        if path != Path(__file__)
        for number, line in enumerate(lines_of(path), start=1)
        if (complaint := complaint_about(line))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("import a", None),
        ("import a  # noqa", "names no code"),
        ("import a  # noqa: F401", "gives no reason"),
        ("import a  # noqa: F401, E402", "gives no reason"),
        ("import a  # noqa: F401 - registers its commands", None),
        ("import a  # noqa: F401, E402  # registers its commands", None),
        ("a = b  # type: ignore", "names no code"),
        ("a = b  # type: ignore[assignment]", "gives no reason"),
        ("a = b  # type: ignore[assignment]  # pyvmomi types it wrongly", None),
    ],
)
def test_the_complaint(line: str, complaint: str | None) -> None:
    assert complaint_about(line) == complaint


def test_every_ignored_rule_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.flake8-self]")]
    listed = [found for line in section.splitlines() if (found := LISTED.match(line))]
    assert len(listed) > 20
    assert [found["code"] for found in listed if not REASON.search(found["rest"].lstrip(" #"))] == []


def test_importing_the_package_costs_nothing() -> None:
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imports if isinstance(node, ast.ImportFrom)] == ["__future__"]
    assert len(imports) == 1
