"""What the user allows a plan passes few hands: the files that take it may only become fewer."""

from __future__ import annotations

import ast

from tests.architecture.sources import modules

MOST_FILES = 31
"""Files with a function that takes a plan's options. Only lower it."""
OPTIONS = "PlanOptions"


def takes_options(source: str) -> bool:
    """Whether a function takes a plan's options."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    taken = (argument.annotation for one in functions for argument in (*one.args.args, *one.args.kwonlyargs))
    return any(OPTIONS in ast.unparse(annotation) for annotation in taken if annotation is not None)


def test_a_plans_options_pass_ever_fewer_files() -> None:
    sources = (path.read_text(encoding="utf-8") for path in modules())
    assert sum(map(takes_options, sources)) <= MOST_FILES


def test_a_function_that_takes_them_is_found_and_one_that_makes_them_is_not() -> None:
    assert takes_options("def plan(options: PlanOptions | None) -> None: ...")
    assert not takes_options("def options_of(words: str) -> PlanOptions: ...")
